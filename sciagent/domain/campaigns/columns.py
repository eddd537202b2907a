"""The columns of a file with values that were measured or computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column with values."""

    name: str
    property: str
    unit: str | None = None
    """A unit, or the name of the column with the unit; None: the canonical unit."""
    uncertainty: str | None = None
    """A number, or the name of the column with the standard uncertainty; None: unknown."""
