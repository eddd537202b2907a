"""A server in this process, for the tests of pages."""

from tests.support.served_pages import make, serve  # noqa: F401
