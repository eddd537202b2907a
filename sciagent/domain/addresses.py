"""Checks the http addresses of servers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_ALLOWED = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")  # RFC 3986, without the fragment


def address_fault(address: str) -> str:
    """Returns why the text is not a valid http address, or an empty string for a valid one."""
    if not re.match(r"https?://", address):
        return "it must begin with http:// or https://"
    if not _ALLOWED.fullmatch(address):
        odd = next(character for character in address if not _ALLOWED.fullmatch(character))
        return f"an address cannot hold the character {odd!a}"
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        return str(error)
    return "" if parts.hostname else "it names no server"
