"""The interface of a candidate: its key, and its names and remarks in input files.

A name is an identifier, a supplier or a catalogue number, for example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

MOLECULE_KIND = "molecule"
"""The subject whose text is a SMILES; the default where no subject is stated."""


def smiles_of(kind: str, text: str) -> str | None:
    """Returns the text of a candidate where it is a SMILES, else None."""
    return text if kind == MOLECULE_KIND else None


def structure_heading(kind: str) -> str:
    """Returns the heading of a column with the texts of candidates. kind: their subject."""
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
    from sciagent.domain.evidence import content_hash  # loads units, which the command line's help does not need

    return content_hash([kind, identity, charge, multiplicity])


Names = Mapping[str, tuple[str, ...]]
"""{field: its texts, oldest first}. A candidate that stands twice in a file has two texts."""
IDENTIFIERS = ("id", "identifier", "name", "title", "compound", "compound_id", "molecule_id", "cas", "catalogue_number")
"""Headers of columns that hold a molecule's name, in order of preference; so does any header that ends in `_id`."""


def identifier_columns(header: Sequence[str], structure: str = "") -> tuple[str, ...]:
    """Returns the column that looks most like an identifier, or an empty tuple.

    structure: the column with the SMILES. Of columns that differ only in spelling, the first counts.
    """
    columns_by_word: dict[str, str] = {}
    for column in reversed(header):  # so that the first column of a word replaces the later ones
        if column != structure:
            word = column.strip().casefold().replace(" ", "_")
            columns_by_word[word] = column
    words_with_id = [word for word in reversed(columns_by_word) if word.endswith("_id")]
    for word in (*IDENTIFIERS, *words_with_id):
        if word in columns_by_word:
            return (columns_by_word[word],)
    return ()


def identifier_text(names: Names) -> str:
    """Returns the texts of the field that looks like an identifier, else of the first field; empty without names."""
    if not names:
        return ""
    field = _identifier(list(names))
    return "; ".join(names[field])


def name_cells(names: Names, fields: Sequence[str]) -> dict[str, str]:
    """Returns the names as cells of a table: `name` for the identifier, and `name.FIELD` for each other field.

    fields: the fields of the campaign's names. A candidate that stands twice in a file has both texts in one cell.
    """
    if not fields:
        return {}
    cells = {"name": identifier_text(names)}
    identifier = _identifier(fields)
    for field in fields:
        if field != identifier:
            cells[f"name.{field}"] = "; ".join(names.get(field, ()))
    return cells


def _identifier(fields: Sequence[str]) -> str:
    """Returns the first field that looks like an identifier, else the first field."""
    identifiers = identifier_columns(fields)
    return identifiers[0] if identifiers else fields[0]
