"""The columns of tables with measured values: one unit for a whole column stands in its heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sciagent.api.terminal import Records
from sciagent.domain.answers.values import ShownValue


def heading(name: str, unit: str) -> str:
    """Returns a heading such as `dipole [D]`; that of a number without a unit is its name."""
    return name if unit == "1" else f"{name} [{unit}]"


def with_units_in_headings(records: Records) -> Records:
    """Returns the records with the unit of a column in its heading where all values of the column have the same."""
    units = {name: unit for name in _names(records) if (unit := _shared_unit(records, name))}
    return [
        {
            heading(name, units.get(name, "1")): _without_unit(cell)
            if isinstance(cell, ShownValue) and name in units
            else cell
            for name, cell in record.items()
        }
        for record in records
    ]


def plain_cells(name: str, value: ShownValue) -> Mapping[str, str]:
    """Returns the cells of a value for a spreadsheet: the number, with the digits that its uncertainty supports, and
    the uncertainty."""
    number, _, uncertainty = str(_without_unit(value)).partition(" ± ")
    return {heading(name, value.unit): number, heading(f"{name} uncertainty", value.unit): uncertainty}


def plain_records(records: Records) -> Records:
    """Returns the records with two cells for each measured value, as `plain_cells` gives them."""
    return [
        {
            column: text
            for name, cell in record.items()
            for column, text in (plain_cells(name, cell) if isinstance(cell, ShownValue) else {name: cell}).items()
        }
        for record in records
    ]


def _names(records: Records) -> Sequence[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _shared_unit(records: Records, name: str) -> str | None:
    """Returns the unit of a column of measured values; None if they have several units, or are no measured values."""
    cells = [record[name] for record in records if record.get(name) is not None]
    units = {cell.unit if isinstance(cell, ShownValue) else None for cell in cells}
    return units.pop() if len(units) == 1 else None


def _without_unit(value: ShownValue) -> ShownValue:
    return value.model_copy(update={"unit": "1"})
