"""The misbehaving verifiers, for every test of this folder."""

from tests.support.plugins import misbehaving  # noqa: F401
