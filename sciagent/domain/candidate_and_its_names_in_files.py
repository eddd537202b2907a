"""The interface of a candidate: its key, and its names and remarks in input files.

A name is an identifier, a supplier or a catalogue number, for example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
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
    from sciagent.domain.evidence_keys_and_pooled_replicates import (
        content_hash,  # loads units, which the command line's help does not need
    )

    return content_hash([kind, identity, charge, multiplicity])


Names = Mapping[str, tuple[str, ...]]
"""{field: its texts, one for each row of the files that names the candidate, oldest row first}.

A field is a column of the campaign's files, or `imported.COLUMN` for a column of another file with values. The texts at
one place of all columns belong to one row; so do those of all `imported.` columns. An empty cell is MISSING.
"""
MISSING = "n/a"
"""Stands for an empty cell of a row, where another row of the candidate has a text in the same column."""
IMPORTED_PREFIX = "imported."
"""Beginning of the fields of files with values. They are remarks, and never replace the campaign's own names."""
STANDARDISED = "standardised"
"""Field that says in which way the candidate differs from the substance that the row names: a salt's counter-ion was
removed, or the row is a mixture of stereoisomers. It is no name."""
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


def names_from_rows(rows: Iterable[Mapping[str, str]]) -> Names:
    """Returns the texts of rows of files by field, all of the same length.

    rows: {field: text} of each row, without empty cells. A row whose texts all stand in another row is left out.
    """
    different_rows = _different_rows(rows)
    fields = dict.fromkeys(field for row in different_rows for field in row)
    return {field: tuple(row.get(field, MISSING) for row in different_rows) for field in fields}


def _different_rows(rows: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Returns the rows that say something that no other row says, each once."""
    rows_by_content: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
    for row in rows:
        rows_by_content.setdefault(frozenset(row.items()), row)
    parts_of_rows = set()  # what rows with more fields say in the fields of a shorter row
    for fields in {frozenset(row) for row in rows_by_content.values()}:
        for row in rows_by_content.values():
            if fields < row.keys():
                parts_of_rows.add(frozenset((field, row[field]) for field in fields))
    return [row for content, row in rows_by_content.items() if content not in parts_of_rows]


def name_rows(names: Names) -> list[dict[str, str]]:
    """Returns {field: text} of each row: first the rows of the campaign's files, then those of files with values."""
    own = {field: texts for field, texts in names.items() if not field.startswith(IMPORTED_PREFIX)}
    imported = {field: texts for field, texts in names.items() if field.startswith(IMPORTED_PREFIX)}
    rows = []
    for columns in (own, imported):
        # the lengths differ only if a campaign's own column has such a name
        for texts in zip_longest(*columns.values(), fillvalue=MISSING):
            rows.append(dict(zip(columns, texts, strict=True)))
    return rows


def source_rows(names: Names) -> list[dict[str, str]]:
    """Returns {field: text} of each row of the campaign's own files that names the candidate, without empty cells."""
    own = {field: texts for field, texts in names.items() if not field.startswith(IMPORTED_PREFIX)}
    rows = []
    for row in name_rows(own):
        rows.append({field: text for field, text in row.items() if text != MISSING})
    return rows


def identifier_text(names: Names) -> str:
    """Returns the different texts of the field that looks like an identifier, else of the first field.

    Empty without names.
    """
    if not names:
        return ""
    identifier = _identifier(list(names))
    if identifier is None:
        return ""
    texts = dict.fromkeys(names[identifier])
    present = tuple(text for text in texts if text != MISSING)
    return _cell(present or (MISSING,))


def name_cells(names: Names, fields: Sequence[str]) -> dict[str, str]:
    """Returns the names as cells of a table: `name` for the identifier, and `name.FIELD` for each other field.

    fields: the fields of the campaign's names. The cells of a candidate with several rows have a text for each row, in
    the same order.
    """
    if not fields:
        return {}
    identifier = _identifier(fields)
    cells = {} if identifier is None else {"name": _cell(names.get(identifier, ()))}
    for field in fields:
        if field != identifier:
            cells[f"name.{field}"] = _cell(names.get(field, ()))
    return cells


def _cell(texts: Sequence[str]) -> str:
    """Returns the texts with semicolons between them. Of several texts, one with a semicolon stands in quotes."""
    if len(texts) == 1:
        return texts[0]
    return "; ".join(f'"{text}"' if ";" in text else text for text in texts)


def standardised_notes(names: Names) -> dict[str, str]:
    """Returns {name of the row: in which way the candidate differs from what the row names}, of the rows where it
    does. A row without a name has an empty one."""
    notes: dict[str, str] = {}
    for prefix in ("", IMPORTED_PREFIX):
        own = {field: texts for field, texts in names.items() if field.startswith(IMPORTED_PREFIX) == bool(prefix)}
        identifier = _identifier(list(own))
        for place, note in enumerate(own.get(f"{prefix}{STANDARDISED}", ())):
            if note != MISSING:
                name = "" if identifier is None else own[identifier][place]
                notes["" if name == MISSING else name] = note
    return notes


def _identifier(fields: Sequence[str]) -> str | None:
    """Returns the first field that looks like an identifier, else the first field; None without a field of names.

    A field of a file with values counts only if all fields are of such files.
    """
    named = [field for field in fields if field.removeprefix(IMPORTED_PREFIX) != STANDARDISED]
    own = [field for field in named if not field.startswith(IMPORTED_PREFIX)]
    fields_by_column = {field.removeprefix(IMPORTED_PREFIX): field for field in own or named}
    if not fields_by_column:
        return None
    columns = list(fields_by_column)
    identifiers = identifier_columns(columns) or columns
    return fields_by_column[identifiers[0]]
