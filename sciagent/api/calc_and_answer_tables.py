"""Runs one verifier on molecules, outside of any campaign: `calc` is `sciagent.calc`, and `answers_of` yields its
answers.

The other functions give the cells of the tables that `sciagent calc` shows and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sciagent.api.notebook_tables import ResultTable, heading, plain_cells
from sciagent.api.open_ledger import LedgerLike, open_ledger
from sciagent.campaign.people.verify_calculate_and_add import calculate, check_units, rungs_for, subject_for
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structures_of, subject_of
from sciagent.domain.answers.candidate_and_value_answers import CalculatedCandidate
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.states_and_needs import Hear
from sciagent.inputs.environment_variables import user
from sciagent.report.parts.wording import repeatability_text

MAX_SIDE_BY_SIDE = 4  # properties that stand side by side in a terminal


def calc(
    verifier: str,
    smiles: str | Iterable[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    units: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    column: str | None = None,
    keep: Sequence[str] | None = None,
    ledger: LedgerLike = None,
) -> ResultTable[CalculatedCandidate]:
    """Returns the answers of one verifier on candidates. Evidence in the ledger is reused, and new evidence is stored.

        sciagent.calc("xtb.singlepoint", ["CCO", "c1ccccc1O"], settings={"solvent": "water"}).to_pandas()

    smiles: SMILES, or for a verifier of crystals structures as text. settings: as in a campaign file. units: {property:
    unit of its values}. file: further structures (csv, smi or sdf; cif and others for crystals), which keep their
    names. column: of a csv, the column with the structures. keep: of a csv, the columns with names. The safety screen
    comes first. Raises UsageError for an unknown verifier, setting or property.
    """
    texts = [smiles] if isinstance(smiles, str) else smiles
    path = None if file is None else Path(file)
    opened = open_ledger(ledger, create=True)
    answers = answers_of(verifier, texts, settings or {}, units or {}, path, column, keep, opened)
    return result_table(verifier, list(answers))


def answers_of(
    verifier: str,
    smiles: Iterable[str | StructureRecord],
    settings: Mapping[str, Any],
    units: Mapping[str, str],
    file: Path | None,
    column: str | None,
    keep: Sequence[str] | None,
    ledger: Any,
    hear: Hear | None = None,
) -> Iterator[CalculatedCandidate]:
    """Yields the answers one by one; mistakes in the arguments are raised at once, before any calculation. hear: takes
    the progress of long verifications, with the key of the candidate."""
    listed = list(smiles)
    subject = subject_for(verifier)
    structures = partial(structures_of, listed, file, column, keep, subject)
    rungs = rungs_for(verifier, settings, Path.cwd(), structures())  # charges decide defaults of settings
    check_units(rungs[-1], units)
    return calculate(ledger, rungs, structures(), units, user(), hear=hear)


def result_table(verifier: str, answers: Sequence[CalculatedCandidate]) -> ResultTable[CalculatedCandidate]:
    """Returns the table of the answers; levels have a column if they differ."""
    cells = partial(brief, with_level=len(levels_of(answers)) > 1)
    return ResultTable(answers, verifier, cells, record)


def brief(answer: CalculatedCandidate, with_level: bool) -> Mapping[str, Any]:
    """Returns the displayed cells of a molecule, its properties side by side."""
    failure = f"{answer.outcome}: {answer.reason}" if answer.reason else answer.outcome
    return {
        "name": name_of(answer),
        **{value.property: value for value in answer.values},
        "level": ", ".join(levels_of([answer])) if with_level else None,
        "outcome": None if answer.outcome == Outcome.OK else failure,
        **_structure(answer),
    }


def record(answer: CalculatedCandidate, as_text: bool = False) -> Mapping[str, Any]:
    """Returns all cells of a molecule, for a data frame or a file.

    as_text: whether numbers are texts with the digits that their uncertainty supports; otherwise they are plain.
    """
    cells: dict[str, Any] = {name: ", ".join(texts) for name, texts in answer.names.items()}
    for value in answer.values:
        name = value.property
        if as_text:
            cells |= plain_cells(name, value)
        else:
            cells[heading(name, value.unit)] = value.value
            cells[heading(f"{name} uncertainty", value.unit)] = value.uncertainty
    cells |= {"level": ", ".join(levels_of([answer])), "outcome": answer.outcome, "reason": answer.reason}
    return {**cells, **_structure(answer)}


def rows(answer: CalculatedCandidate) -> Iterator[Mapping[str, Any]]:
    """Yields a row for each property of a molecule."""
    for value in answer.values:
        yield {"property": value.property, "value": value, "name": name_of(answer), **_structure(answer)}


def _structure(answer: CalculatedCandidate) -> Mapping[str, str]:
    """Returns {column of the structure: its text}; a text that could not be read is shown as it was given."""
    is_crystal = answer.structure is not None and answer.smiles is None
    column = "structure" if is_crystal else "smiles"
    return {column: answer.structure or answer.text}


def side_by_side(answers: Sequence[CalculatedCandidate]) -> bool:
    """Returns whether a terminal shows the properties side by side: several molecules with few properties."""
    return len(answers) > 1 and max(len(answer.values) for answer in answers) <= MAX_SIDE_BY_SIDE


def name_of(answer: CalculatedCandidate) -> str | None:
    """Returns the names of a molecule in the first column with names; None without a name."""
    for texts in answer.names.values():
        return ", ".join(texts) or None
    return None


def repeatability_notes(answers: Iterable[CalculatedCandidate]) -> list[str]:
    """Returns what the ± of the molecules' values is, a text for each kind of uncertainty that occurs."""
    kinds: dict[str, None] = {}
    for answer in answers:
        for value in answer.values:
            if answer.smiles and value.uncertainty and value.uncertainty_kind:
                kinds[value.uncertainty_kind] = None
    words = subject_of(MOLECULE_KIND).words
    return [repeatability_text(kind, words) for kind in kinds]


def levels_of(answers: Iterable[CalculatedCandidate]) -> list[str]:
    """Returns the levels of all values, each once."""
    return list(dict.fromkeys(value.level for answer in answers for value in answer.values))
