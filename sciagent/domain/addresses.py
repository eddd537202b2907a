"""What an address of a server may look like."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_ALLOWED = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")  # RFC 3986, without the fragment


def address_fault(address: str) -> str:
    """Why a text is no http address that can be asked, or an empty string."""
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
