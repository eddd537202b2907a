"""The names under which a server of pages is reached.

The header `Host` is chosen by whoever sends a request. Links that leave the page, such as those in the QR codes of
labels, are built from it. So a request with another name than those of the server is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from sciagent.errors import UsageError

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names of this machine for itself."""
ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})
"""Addresses of a server that listens at all addresses of its machine; they are names of none."""
_NAME = r"[a-z0-9](?:[a-z0-9._-]{0,252})|\[[0-9a-f:.]{2,45}\]"
_HOST_HEADER = re.compile(rf"({_NAME})(?::[0-9]{{1,5}})?")
_PUBLIC_URL = re.compile(rf"(https?)://({_NAME})(?::[0-9]{{1,5}})?/?")


@dataclass(frozen=True)
class ServedNames:
    """The names of a server."""

    hosts: frozenset[str] = LOCAL_HOSTS
    """Names that a header `Host` may give, in small letters and without a port."""
    public_url: str | None = None
    """The address that links begin with, without a slash at its end; None: the one by which the browser came."""

    def allow(self, host: str) -> bool:
        """Returns whether a header `Host` names this server."""
        match = _HOST_HEADER.fullmatch(host.lower())
        return match is not None and match[1].rstrip(".") in self.hosts


OF_THIS_MACHINE = ServedNames()


def served_names(
    listens_at: str, public_url: str | None = None, allowed_hosts: Collection[str] = (), *, secure: bool = False
) -> ServedNames:
    """Returns the names of a server.

    listens_at: its address. allowed_hosts: further names. secure: whether browsers reach it by TLS. Raises UsageError
    for a name that is none, for an address that nobody can reach, and if others reach the server and it has no name.
    """
    listening = _bracketed(listens_at)
    hosts = set(LOCAL_HOSTS)
    if listening not in ANY_ADDRESS:
        hosts.add(listening)
    for name in allowed_hosts:
        host = _bracketed(name)
        if re.fullmatch(_NAME, host) is None:
            raise UsageError(f"--allowed-host {name[:80]!a}: give a name or an address alone, as in lab.example.org")
        hosts.add(host)
    if public_url is not None:
        match = _PUBLIC_URL.fullmatch(public_url.strip().lower())
        if match is None:
            raise UsageError(
                f"--public-url {public_url[:80]!a}: give a scheme, a name and, if it is not the usual one, a port, as "
                "in https://lab.example.org"
            )
        if match[1] == "https" and not secure:
            raise UsageError("--public-url is https, so the server needs --tls-cert and --tls-key, or --behind-proxy")
        hosts.add(match[2])
        public_url = public_url.strip().lower().rstrip("/")
    if listening in ANY_ADDRESS and hosts == LOCAL_HOSTS:
        raise UsageError(
            f"{listens_at} is every address of this machine; say by which name others reach it: --public-url "
            "https://lab.example.org"
        )
    return ServedNames(frozenset(hosts), public_url)


def _bracketed(host: str) -> str:
    """Returns a host as a header `Host` writes it: in small letters, an IPv6 address in brackets."""
    plain = host.strip().lower().strip("[]")
    return f"[{plain}]" if ":" in plain else plain
