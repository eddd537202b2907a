"""What every candidate has, whatever it is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

CandidateKind = Literal["molecule", "crystal"]
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@runtime_checkable
class Candidate(Protocol):
    """A molecule or a crystal. Immutable; equal keys mean the same candidate."""

    @property
    def kind(self) -> CandidateKind: ...
    @property
    def key(self) -> str:
        """64 hexadecimal digits."""

    @property
    def text(self) -> str:
        """The notation that a person reads: canonical SMILES, or the reduced formula with its space group."""

    @property
    def identity(self) -> str:
        """What the key was hashed from (InChI with FixedH and RecMet; a structure fingerprint)."""

    @property
    def charge(self) -> int: ...
    @property
    def multiplicity(self) -> int: ...
    @property
    def formula(self) -> str: ...
    @property
    def n_atoms(self) -> int: ...
    @property
    def inchikey(self) -> str | None:
        """Standard InChIKey for look-up and novelty; not identity. None for crystals."""

    def payload(self) -> Mapping[str, Any]:
        """All that is needed to make the same candidate again, as JSON."""


def candidate_key(kind: CandidateKind, identity: str, charge: int, multiplicity: int) -> str:
    """SHA-256 over kind, identity, net charge and multiplicity."""
    text = _ENCODE([kind, identity, charge, multiplicity])
    return hashlib.sha256(text.encode()).hexdigest()
