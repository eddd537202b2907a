"""The ladder in figures: which values of which molecules are compared, and that each molecule counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.evidence import Measured
from sciagent.domain.jobs.states import Standing
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.report.analysis.ladder import Compared, imported
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.reported import Maker
from tests.support.rows import new_evidence

CHEAP, DEAR, MEASURED = Level("GFN2"), Level("SMD", phase="water"), Level("experiment", phase="water")


def solvation(value: float, level: Level, **more: object) -> Measured:
    return Measured("solvation_free_energy", level, Quantity(value, "eV", 0.01, **more))  # type: ignore[arg-type]


@pytest.fixture
def made(own_ledger: Ledger, tmp_path: Path) -> Maker:
    """Six molecules that a file knows, the first one three times; r1 has measured all, r2 the last five."""
    made = Maker(own_ledger, tmp_path)
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O", "CCCCCO"))
    for i in range(6):
        made.answer(i, 1, solvation(-0.1 * i - 0.01, CHEAP))
        if i:
            made.answer(i, 2, solvation(-0.1 * i + 0.02, DEAR))
        made.place(i, Standing.SETTLED, 2 if i else 1, verdict="pass", depth=2 if i else 1, score=0.5)
        for replicate in range(1 if i else 3):
            write(made, i, solvation(-0.1 * i + 0.03 * replicate, MEASURED), replicate)
    return made


def write(made: Maker, i: int, measured: Measured, replicate: int) -> None:
    new = new_evidence(
        made.ids[i], measured, verifier="import", subject=str(i), source="freesolv.csv", replicate=replicate
    )
    with made.ledger.begin() as connection:
        evidence.record(connection, [new])


def comparisons(made: Maker) -> dict[str, Compared]:
    with made.ledger.read() as connection:
        found = imported(connection, made.row, campaigns.rungs(connection, made.row.id))
    return {compared.upper: compared for compared in found}


def test_every_rung_is_compared_with_all_molecules_that_a_file_knows_too(made: Maker) -> None:
    found = comparisons(made)
    assert {rung: (c.seen, c.x_level) for rung, c in found.items()} == {
        "r1": (6, MEASURED.label),
        "r2": (5, MEASURED.label),
    }
    assert found["r2"].figures.bias == pytest.approx(0.02)


def test_replicates_of_an_import_are_averaged_and_count_once(made: Maker) -> None:
    mean_of_the_first = 0.03  # of 0, 0.03 and 0.06; r1 says -0.01
    assert comparisons(made)["r1"].figures.bias == pytest.approx(-(5 * 0.01 + mean_of_the_first + 0.01) / 6)


def test_a_molecule_of_which_a_file_knows_only_a_limit_is_left_out(made: Maker) -> None:
    write(made, 5, solvation(-0.5, MEASURED, censoring=Censoring.BELOW), 1)
    assert {rung: (c.seen, c.censored) for rung, c in comparisons(made).items()} == {"r1": (5, 1), "r2": (4, 1)}
