"""The misbehaving verifiers, for the commands that meet them."""

from tests.support.plugins import misbehaving  # noqa: F401
