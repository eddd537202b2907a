"""The secret by which computed evidence is sealed. It lies in a file and never in the database.

Whoever can write rows into the database, and cannot read this file, can make no evidence that passes for computed.
Whoever can read the file can.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import Connection

from sciagent.errors import LedgerError
from sciagent.inputs import environment_variables

FILE_VARIABLE = "SCIAGENT_EVIDENCE_SECRET_FILE"
FILE_NAME = "evidence.secret"  # in the folder of artifacts
SECRET_BYTES = 32
MAX_FILE_BYTES = 65536
OPTION = "evidence_secret"  # execution option of an engine and its connections
_LINE = re.compile(r"(?:[0-9a-f]{2}){32,}")


@dataclass(frozen=True)
class SealingKeys:
    """The secrets of a file. The first one seals; evidence that one of the others has sealed fits, too."""

    first: str
    """Name of the secret that seals."""
    by_name: Mapping[str, bytes]
    """The secrets by their names. A name is the beginning of a hash, and tells nothing of its secret."""

    def seal(self, text: str) -> str:
        """Returns `NAME:HMAC`, the HMAC-SHA256 of a text in hexadecimal digits after the name of the secret."""
        return f"{self.first}:{hmac.digest(self.by_name[self.first], text.encode(), 'sha256').hex()}"

    def knows(self, seal: str) -> bool:
        """Whether the seal names one of these secrets."""
        return seal.partition(":")[0] in self.by_name

    def fits(self, seal: str, text: str) -> bool:
        """Whether one of these secrets has made the seal for the text."""
        name, _, given = seal.partition(":")
        secret = self.by_name.get(name)
        if secret is None:
            return False
        expected = hmac.digest(secret, text.encode(), "sha256").hex()
        return hmac.compare_digest(expected.encode(), given.encode())


class EvidenceSecret:
    """The file with the secret of a ledger.

    It is the file that SCIAGENT_EVIDENCE_SECRET_FILE names, which must exist; otherwise `evidence.secret` in the folder
    of artifacts, which is made when the first computed evidence is recorded.
    """

    def __init__(self, artifacts: Path) -> None:
        named = environment_variables.path("SCIAGENT_EVIDENCE_SECRET_FILE")
        self.path = named or artifacts / FILE_NAME
        self._may_make = named is None
        self._keys: SealingKeys | None = None

    def keys(self) -> SealingKeys:
        """Returns the secrets; the file is made if it is missing. Raises LedgerError if it cannot be read or made."""
        if self._keys is None:
            try:
                if self._may_make and not self.path.exists():
                    _make(self.path)
                self._keys = _read(self.path)
            except OSError as error:
                raise LedgerError(
                    f"computed evidence is sealed with a secret, and {self.path} cannot be read: {error.strerror}. "
                    f"{FILE_VARIABLE} names another file; workers and drivers of a ledger need the same one"
                ) from error
        return self._keys

    def known_keys(self) -> SealingKeys | None:
        """Returns the secrets for a check, which makes no file; None if there is no file that this user can read.

        Raises LedgerError for a file of another form.
        """
        if self._keys is None:
            try:
                self._keys = _read(self.path)
            except OSError:
                return None
        return self._keys

    @property
    def is_held(self) -> bool:
        """Whether this process may seal evidence. A web server is run by a user that cannot read the file."""
        try:
            self.keys()
        except LedgerError:
            return False
        return True


def secret_of(connection: Connection) -> EvidenceSecret:
    """The secret of the ledger of a connection. Raises LedgerError if the ledger was opened without artifacts."""
    secret = connection.get_execution_options().get(OPTION)
    if not isinstance(secret, EvidenceSecret):
        raise LedgerError("this connection has no secret to seal evidence with; open the ledger as `Ledger`")
    return secret


def _read(path: Path) -> SealingKeys:
    """Returns the secrets of a file: a line of at least 64 hexadecimal digits for each. Raises OSError, LedgerError."""
    with path.open("rb") as file:
        lines = file.read(MAX_FILE_BYTES).decode(errors="replace").split()
    if not lines or not all(_LINE.fullmatch(line) for line in lines):
        raise LedgerError(
            f"{path} holds no secret: a line must have at least {2 * SECRET_BYTES} hexadecimal digits, in pairs, as "
            f"`openssl rand -hex {SECRET_BYTES}` writes them"
        )
    by_name = {}
    for line in lines:
        secret = bytes.fromhex(line)
        by_name[hashlib.sha256(b"sciagent evidence " + secret).hexdigest()[:8]] = secret
    return SealingKeys(next(iter(by_name)), by_name)


def _make(path: Path) -> None:
    """Makes a file with a new secret that only its owner can read. If several processes do so at once, the first one
    wins, and all of them read its file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".incoming-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(SECRET_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)  # the file appears whole, or was there before
        except FileExistsError:
            pass
    finally:
        Path(partial).unlink()
