"""How far the values of candidates lie from the limits, and where the method's error is known from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciagent.domain.answers.candidate_and_value_answers import MEASURED
from sciagent.domain.display_units import in_chosen_unit
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.domain.states_and_needs import Standing
from sciagent.report.parts.margins_and_method_errors import MethodErrors, margins, method_errors
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from sciagent_verifiers.method_errors import XTB_SOLVATION
from tests.support.reported import Maker
from tests.support.rows import new_evidence

ALPB = Level("GFN1-xTB+ALPB", phase="water", geometry="GFN2-xTB//ETKDGv3x10")
KCAL = 0.0433641  # eV


class Row:
    """The spec of a campaign, which is all that `margins` reads of its row."""

    def __init__(self, name: str, accept: list[float | None]) -> None:
        self.spec = {"objectives": [{"property": name, "accept": accept}]}


class Answer:
    rung = "alpb"


class Rung:
    def __init__(self, name: str, *decides: str) -> None:
        self.name = name
        self.decides = decides


def of_solvation(value: float, unit: str, level: Level = ALPB, errors: MethodErrors | None = None) -> Any:
    [margin] = margins_of_solvation(value, unit, level, errors, Rung("alpb", "solvation_free_energy"))
    return margin


def margins_of_solvation(value: float, unit: str, level: Level, errors: MethodErrors | None, *ladder: Any) -> Any:
    measured = Measured("solvation_free_energy", level, Quantity(value, "eV", 0.01, uncertainty_kind="class"))
    in_unit = in_chosen_unit(measured, {"solvation_free_energy": unit})
    row: Any = Row("solvation_free_energy", [-6 * KCAL, -2 * KCAL])
    answers: Any = {"solvation_free_energy": (Answer(), in_unit)}
    return margins(row, ladder, answers, errors or MethodErrors({}, {"alpb": XTB_SOLVATION}))


def test_a_lower_rungs_value_has_no_distance_from_limits_on_another_scale() -> None:
    ladder = (Rung("alpb"), Rung("dft", "solvation_free_energy"))
    assert margins_of_solvation(-2.4 * KCAL, "kcal/mol", ALPB, None, *ladder) == ()


def test_margin_and_error_are_in_the_unit_of_the_value() -> None:
    margin = of_solvation(-2.4 * KCAL, "kcal/mol")
    assert (margin.margin, margin.unit) == (pytest.approx(0.4, abs=1e-4), "kcal/mol")
    assert margin.method.mean_absolute_error == pytest.approx(1.146, rel=1e-4)
    assert margin.method.mean_error == pytest.approx(-0.181, rel=1e-4)
    assert margin.repeatability == pytest.approx(0.01 / KCAL, rel=1e-4) and margin.uncertainty_kind == "class"
    in_ev = of_solvation(-2.4 * KCAL, "eV")
    assert in_ev.method.mean_absolute_error == pytest.approx(1.146 * KCAL, rel=1e-4)
    assert of_solvation(-1.0 * KCAL, "kcal/mol").margin == pytest.approx(-1.0, abs=1e-4)


def test_an_error_of_another_level_is_not_taken() -> None:
    assert of_solvation(-0.1, "eV", Level("GFN1-xTB+ALPB", phase="hexane")).method is None


def test_the_error_of_a_calibrated_value_is_the_leave_one_out_error_of_its_fit() -> None:
    fit = Fit("solvation_free_energy", FitKind.LINEAR, "experiment", 1.1, -0.01, 19, 0.03, 0.04, 0.05)
    errors = MethodErrors({}, {"alpb": XTB_SOLVATION}, {"alpb": {"solvation_free_energy": fit}})
    found = of_solvation(-2.4 * KCAL, "kcal/mol", errors=errors).method
    assert found.mean_absolute_error == pytest.approx(0.03 / KCAL, rel=1e-4) and found.mean_error == 0
    assert (found.n, found.unit, found.reference, found.source) == (19, "kcal/mol", "experiment", MEASURED)


def test_errors_from_measured_values_are_in_the_unit_of_the_campaign(own_ledger: Ledger, tmp_path: Path) -> None:
    name = "solvation_free_energy"
    objective = {"property": name, "direction": "limit", "unit": "eV", "accept": [None, 0.0], "scale": 1, "weight": 1}
    made = Maker(own_ledger, tmp_path, objectives=[objective], units={name: "kcal/mol"})
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O"))
    experiment = Level("experiment", phase="water")
    for i in range(5):
        made.answer(i, 2, Measured(name, ALPB, Quantity(-0.2, "eV", 0.01)))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, score=0.5)
        measured = Measured(name, experiment, Quantity(-0.2 - 0.5 * KCAL, "eV"))
        new = new_evidence(made.ids[i], measured, verifier="import", subject=f"m{i}", source="lab.csv")
        with own_ledger.begin() as connection:
            evidence.record(connection, [new])
    with own_ledger.read() as connection:
        [margin] = best(connection, made.row, 1)[0].margins
    assert (margin.unit, margin.method.unit) == ("kcal/mol", "kcal/mol")
    assert margin.method.mean_absolute_error == pytest.approx(0.5, rel=1e-4)
    assert margin.margin == pytest.approx(0.2 / KCAL, rel=1e-4)


def dipole_campaign(ledger: Ledger, folder: Path) -> Maker:
    accept = {
        "property": "dipole",
        "direction": "window",
        "unit": "D",
        "accept": [1.0, 3.0],
        "scale": 0.3,
        "weight": 1.0,
    }
    made = Maker(ledger, folder, objectives=[accept])
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O"))
    for i in range(5):
        made.answer(i, 2, Measured("dipole", ALPB, Quantity(2.0 + 0.1 * i, "D", 0.05)))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, score=0.5)
    return made


def import_dipoles(made: Maker, level: Level, errors: tuple[float, ...]) -> None:
    new = [
        new_evidence(
            made.ids[i], Measured("dipole", level, Quantity(2.0 + 0.1 * i - error, "D", 0.01)), verifier="import",
            subject=f"m{i}", source="dipoles.csv", settings_hash=level.hash,
        )
        for i, error in enumerate(errors)
    ]  # fmt: skip
    with made.ledger.begin() as connection:
        evidence.record(connection, new)


def test_two_measurements_of_a_candidate_count_once(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dipole_campaign(own_ledger, tmp_path)
    for method in ("experiment", "titration"):
        import_dipoles(made, Level(method, phase="gas"), (0.1, -0.3, 0.2))
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        assert method_errors(connection, made.row, ladder).measured == {}, "six values of three candidates are too few"


def test_measured_values_at_hand_come_before_the_benchmark(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dipole_campaign(own_ledger, tmp_path)

    def figures() -> Any:
        with made.ledger.read() as connection:
            ladder = campaigns.rungs(connection, made.row.id)
            return method_errors(connection, made.row, ladder).measured

    import_dipoles(made, Level("PBE0", "def2-TZVP", "gas"), (0.1,) * 5)
    assert figures() == {}, "computed values are no experiment"
    import_dipoles(made, Level("experiment", phase="gas"), (0.1, -0.3, 0.2, 0.2, 0.3))
    [found] = figures().values()
    assert (found.n, found.unit, found.source) == (5, "D", MEASURED)
    assert found.mean_error == pytest.approx(0.1) and found.mean_absolute_error == pytest.approx(0.22)
    import_dipoles(made, Level("calorimetry", phase="gas"), (0.1, -0.3, 0.2, 0.2, 0.3))
    [twice] = figures().values()
    assert twice == found, "a candidate that two methods measured counts once"
    with made.ledger.read() as connection:
        first = next(c for c in best(connection, made.row, 12) if c.smiles == "CO")
    [margin] = first.margins
    assert margin.margin == pytest.approx(1.0) and margin.uncertainty_kind is None
    assert str(margin) == "clear of the limits by 1.0 ± 0.2 D (method), ± 0.05 D (repeatability)"
