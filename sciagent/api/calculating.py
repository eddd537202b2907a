"""The numbers of one verifier on molecules, outside of any campaign: `sciagent.calc` and `sciagent calc`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sciagent.api.ledger import LedgerLike, open_ledger
from sciagent.api.tables import ResultTable, heading, plain_cells
from sciagent.campaign.people.calculating import calculate, check_units, molecules_of, rungs_for
from sciagent.domain.answers.values import CalculatedMolecule, PropertyValue
from sciagent.domain.outcomes import Outcome
from sciagent.settings import user

MOST_COLUMNS = 4  # properties that stand side by side in a terminal


def calc(
    verifier: str,
    smiles: str | Iterable[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    units: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    column: str = "smiles",
    keep: Sequence[str] | None = None,
    ledger: LedgerLike = None,
) -> ResultTable[CalculatedMolecule]:
    """Returns the answers of one verifier on molecules. What is known is reused, what is new is kept in the ledger.

        sciagent.calc("xtb.singlepoint", ["CCO", "c1ccccc1O"], settings={"solvent": "water"}).to_pandas()

    settings: as in a campaign file. units: unit of a property. file: further molecules (csv, smi or sdf), whose names
    stay with them; column, keep: of a csv, the column with the structures and those with names. The safety screen comes
    first. Raises UsageError for an unknown verifier, setting or property.
    """
    given = [smiles] if isinstance(smiles, str) else smiles
    path = None if file is None else Path(file)
    found = answers_of(verifier, given, settings or {}, units or {}, path, column, keep, open_ledger(ledger, True))
    return result_table(verifier, list(found))


def answers_of(
    verifier: str,
    smiles: Iterable[str],
    settings: Mapping[str, Any],
    units: Mapping[str, str],
    file: Path | None,
    column: str,
    keep: Sequence[str] | None,
    ledger: Any,
) -> Iterator[CalculatedMolecule]:
    """Yields the answers one by one; mistakes in the arguments are raised at once, before any calculation."""
    rungs = rungs_for(verifier, settings, Path.cwd())
    check_units(rungs[-1], units)
    return calculate(ledger, rungs, molecules_of(smiles, file, column, keep), units, user())


def result_table(verifier: str, answers: Sequence[CalculatedMolecule]) -> ResultTable[CalculatedMolecule]:
    return ResultTable(answers, verifier, partial(brief, levels=len(levels_of(answers)) > 1), record)


def brief(answer: CalculatedMolecule, levels: bool) -> Mapping[str, Any]:
    """Returns the displayed cells of a molecule, its properties side by side. levels: whether to show the level."""
    return {
        "name": name_of(answer),
        **{value.property: value for value in answer.values},
        "level": ", ".join(levels_of([answer])) if levels else None,
        "outcome": failure(answer),
        "smiles": answer.smiles or answer.text,
    }


def record(answer: CalculatedMolecule) -> Mapping[str, Any]:
    """Returns all cells of a molecule with plain numbers, for a data frame."""
    cells: dict[str, Any] = {name: ", ".join(texts) for name, texts in answer.names.items()}
    for value in answer.values:
        name, unit = value.property, value.unit
        cells |= {heading(name, unit): value.value, heading(f"{name} uncertainty", unit): value.uncertainty}
    return {**cells, **_end(answer)}


def line(answer: CalculatedMolecule) -> Mapping[str, Any]:
    """Returns the cells of `record` as text, numbers with the digits that their uncertainty supports."""
    cells: dict[str, Any] = {name: ", ".join(texts) for name, texts in answer.names.items()}
    for value in answer.values:
        cells |= plain_cells(value.property, value)
    return {**cells, **_end(answer)}


def _end(answer: CalculatedMolecule) -> Mapping[str, Any]:
    about = {"level": ", ".join(levels_of([answer])), "outcome": answer.outcome, "reason": answer.reason}
    return {**about, "smiles": answer.smiles or answer.text}


def rows(answer: CalculatedMolecule) -> Iterator[Mapping[str, Any]]:
    """Yields a row for each property of a molecule."""
    about = {"name": name_of(answer), "smiles": answer.smiles}
    for value in answer.values:
        yield {"property": value.property, "value": value, **about}


def side_by_side(answers: Sequence[CalculatedMolecule]) -> bool:
    """Whether a terminal shows the properties side by side: several molecules with few properties."""
    return len(answers) > 1 and max(len(answer.values) for answer in answers) <= MOST_COLUMNS


def failure(answer: CalculatedMolecule) -> str | None:
    """Returns the outcome with its reason; None for a molecule that has its numbers."""
    if answer.outcome == Outcome.OK:
        return None
    return f"{answer.outcome}: {answer.reason}" if answer.reason else answer.outcome


def name_of(answer: CalculatedMolecule) -> str | None:
    return ", ".join(next(iter(answer.names.values()), ())) or None


def levels_of(answers: Iterable[CalculatedMolecule]) -> tuple[str, ...]:
    values: Iterator[PropertyValue] = (value for answer in answers for value in answer.values)
    return tuple(dict.fromkeys(value.level for value in values))
