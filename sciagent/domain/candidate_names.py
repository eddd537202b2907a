"""Names and remarks that candidates have in input files, such as an identifier, a supplier or a catalogue number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Names = Mapping[str, tuple[str, ...]]
"""{field: its texts, oldest first}. A candidate that stands twice in a file has two texts."""
IDENTIFIERS = ("id", "identifier", "name", "title", "compound", "compound_id", "molecule_id", "cas", "catalogue_number")
"""Headers of columns that hold a molecule's name, in order of preference; so does any header that ends in `_id`."""


def identifier_columns(header: Sequence[str], structure: str = "") -> tuple[str, ...]:
    """Returns the column that looks like an identifier, or an empty tuple. structure: the column with the SMILES."""
    spelled = {name.strip().casefold().replace(" ", "_"): name for name in reversed(header) if name != structure}
    wanted = (*IDENTIFIERS, *(name for name in reversed(spelled) if name.endswith("_id")))
    return tuple(spelled[name] for name in wanted if name in spelled)[:1]


def label(names: Names) -> str:
    """Returns the texts of the field that looks like an identifier, else of the first; empty without names."""
    return "; ".join(names[_identifier(list(names))]) if names else ""


def cells(names: Names, fields: Sequence[str]) -> dict[str, str]:
    """Returns the names as cells of a table: `name` for the identifier, and `name.FIELD` for each other field.

    fields: those of the campaign. A candidate that stands twice in a file has both texts in one cell.
    """
    if not fields:
        return {}
    others = [field for field in fields if field != _identifier(fields)]
    return {"name": label(names)} | {f"name.{field}": "; ".join(names.get(field, ())) for field in others}


def _identifier(fields: Sequence[str]) -> str:
    return next(iter(identifier_columns(fields)), fields[0])
