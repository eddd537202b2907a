"""The interface of a candidate, and its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from sciagent.domain.evidence import content_hash

MOLECULE_KIND = "molecule"
"""The subject whose text is a SMILES, and the default of what states no subject."""


def smiles_of(kind: str, text: str) -> str | None:
    """Returns the text of a candidate where it is a SMILES, else None."""
    return text if kind == MOLECULE_KIND else None


def structure_heading(kind: str) -> str:
    """Returns the heading of a column with the texts of such candidates."""
    return "smiles" if kind == MOLECULE_KIND else "structure"


@runtime_checkable
class Candidate(Protocol):
    """A molecule, a crystal, or a candidate of another subject. Immutable; equal keys mean the same candidate."""

    @property
    def kind(self) -> str:
        """Name of the subject."""

    @property
    def key(self) -> str:
        """64 hexadecimal digits."""

    @property
    def text(self) -> str:
        """The notation that a person reads: canonical SMILES, or the reduced formula with its space group."""

    @property
    def identity(self) -> str:
        """The text that the key is a hash of: InChI with FixedH and RecMet, or a structure fingerprint."""

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
        """JSON data from which the same candidate can be made again."""


def candidate_key(kind: str, identity: str, charge: int, multiplicity: int) -> str:
    """Returns the SHA-256 of kind, identity, net charge and multiplicity."""
    return content_hash([kind, identity, charge, multiplicity])
