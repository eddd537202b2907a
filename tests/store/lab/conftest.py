"""A server in this process, for what pages hide."""

from tests.support.served_pages import make, serve  # noqa: F401
