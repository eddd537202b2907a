"""How far the values of candidates lie from the limits, and where the method's error is known from."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from sciagent.domain import derived_properties
from sciagent.domain.answers.candidate_and_value_answers import MEASURED, PROPAGATED, plain
from sciagent.domain.display_units import in_chosen_unit
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.domain.states_and_needs import Standing
from sciagent.report.export.parquet_tables import candidate_rows
from sciagent.report.export.spreadsheets import TableSelection, write_csv
from sciagent.report.parts.export_rows import write_jsonl
from sciagent.report.parts.margins_and_method_errors import (
    Certainty,
    MethodErrors,
    certainty,
    interval_of_mean_absolute_error,
    method_errors,
)
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from sciagent.verification.verifier_contract import ChargeClass, MethodError
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
    def __init__(self, *measured: Measured, rung: str = "alpb") -> None:
        self.rung = rung
        self.measured = measured


class Imported(Answer):
    def _replace(self, rung: str) -> Imported:
        return Imported(*self.measured, rung=rung)


class Rung:
    def __init__(self, name: str, *decides: str) -> None:
        self.name = name
        self.decides = dict.fromkeys(decides, "water")


def of_solvation(value: float, unit: str, level: Level = ALPB, errors: MethodErrors | None = None) -> Any:
    [margin] = certainty_of_solvation(value, unit, level, errors, Rung("alpb", "solvation_free_energy")).margins
    return margin


def certainty_of_solvation(
    value: float, unit: str, level: Level, errors: MethodErrors | None, *ladder: Any, charge: int = 0
) -> Certainty:
    measured = Measured("solvation_free_energy", level, Quantity(value, "eV", 0.01, uncertainty_kind="class"))
    in_unit = in_chosen_unit(measured, {"solvation_free_energy": unit})
    row: Any = Row("solvation_free_energy", [-6 * KCAL, -2 * KCAL])
    answers: Any = [Answer(in_unit)]
    return certainty(row, ladder, answers, errors or MethodErrors({}, {"alpb": XTB_SOLVATION}), charge)


def test_a_lower_rungs_value_has_no_distance_from_limits_on_another_scale() -> None:
    ladder = (Rung("alpb"), Rung("dft", "solvation_free_energy"))
    assert certainty_of_solvation(-2.4 * KCAL, "kcal/mol", ALPB, None, *ladder) == Certainty((), None, ())


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


@pytest.mark.parametrize("charge", [2, -1])
def test_the_benchmark_of_neutral_molecules_says_nothing_of_ions(charge: int) -> None:
    ladder = (Rung("alpb", "solvation_free_energy"),)
    neutral = certainty_of_solvation(-2.4 * KCAL, "kcal/mol", ALPB, None, *ladder)
    assert neutral.p_limits is not None and neutral.unknown == ()
    ion = certainty_of_solvation(-2.4 * KCAL, "kcal/mol", ALPB, None, *ladder, charge=charge)
    [margin] = ion.margins
    assert (ion.p_limits, ion.words, margin.method) == (None, "unknown: solvation_free_energy", None)
    assert str(margin).endswith("the method's error is not known for ions")


def test_the_chance_of_true_values_within_the_limits_is_that_of_drawn_errors() -> None:
    """-2.4 kcal/mol between -6 and -2, with the errors of FreeSolv; a standard error of 0.002 with 40,000 draws."""
    true = -2.4 - np.random.default_rng(1).normal(
        -0.181, math.hypot(math.sqrt(1.61**2 - 0.181**2), 0.01 / KCAL), 40_000
    )
    expected = np.mean((true > -6) & (true < -2))
    for unit in ("kcal/mol", "eV"):
        assert of_solvation(-2.4 * KCAL, unit).p_inside == pytest.approx(expected, abs=0.01)


def chance_beside_measurement(
    computed: Quantity, measured: Quantity | None, mode: str = "flag", phase: str = ""
) -> Certainty:
    """Certainty of a hydration energy, in kcal/mol between -6 and -2, beside an imported experimental value."""
    row: Any = Row("solvation_free_energy", [-6 * KCAL, -2 * KCAL])
    row.spec["measured"] = mode
    row.units = {"solvation_free_energy": "kcal/mol"}
    row.limits = {"solvation_free_energy": (-6.0, -2.0)}
    answers: Any = [Answer(Measured("solvation_free_energy", ALPB, computed))]
    imported: Any = []
    if measured is not None:
        imported = [Imported(Measured("solvation_free_energy", Level("experiment", phase=phase), measured))]
    errors = MethodErrors({}, {"alpb": XTB_SOLVATION})
    return certainty(row, (Rung("alpb", "solvation_free_energy"),), answers, errors, 0, imported)  # type: ignore[arg-type]


def kcal(value: float, uncertainty: float | None = None, censoring: Censoring = Censoring.NONE) -> Quantity:
    return Quantity(value, "kcal/mol", uncertainty, censoring)


@pytest.mark.parametrize("mode", ["flag", "decide"])
def test_the_chance_within_the_limits_comes_from_the_candidates_own_measured_value(mode: str) -> None:
    """A normal of -1.5 ± 0.2 kcal/mol has the probability Φ(-2.5) below -2; the computed -4 lies safely inside."""
    computed = kcal(-4.0, 0.2)
    alone = chance_beside_measurement(computed, None, mode).p_limits
    assert alone is not None and alone > 0.75
    told = chance_beside_measurement(computed, kcal(-1.5, 0.2), mode)
    assert told.p_limits == pytest.approx(float(ndtr(-2.5)), rel=1e-4)
    assert told.words == "1 % with the measured solvation_free_energy"
    [margin] = told.margins
    assert margin.p_inside == told.p_limits
    assert margin.margin == pytest.approx(2.0 if mode == "flag" else -0.5), (
        "the distance is that of the value that decides"
    )


@pytest.mark.parametrize("mode", ["flag", "decide"])
def test_a_value_measured_in_another_solvent_says_nothing(mode: str) -> None:
    """The rung that decides computes in water."""
    computed = kcal(-4.0, 0.2)
    alone = chance_beside_measurement(computed, None, mode)
    assert chance_beside_measurement(computed, kcal(-1.5, 0.2), mode, "hexane") == alone
    for phase in ("water", "gas", ""):
        assert chance_beside_measurement(computed, kcal(-1.5, 0.2), mode, phase).measured == ("solvation_free_energy",)


def test_one_measured_value_far_outside_is_enough_before_other_rungs_have_answered() -> None:
    row: Any = Row("solvation_free_energy", [-6 * KCAL, -2 * KCAL])
    row.spec["objectives"].append({"property": "dipole", "accept": [1.0, None]})
    row.units = {"solvation_free_energy": "kcal/mol"}
    row.limits = {"solvation_free_energy": (-6.0, -2.0), "dipole": (1.0,)}
    ladder: Any = (Rung("alpb", "solvation_free_energy"), Rung("dft", "dipole"))
    for value, words in ((-1.4, "< 1 % with the measured solvation_free_energy"), (-4.0, "")):
        measured = Measured("solvation_free_energy", Level("experiment"), kcal(value, 0.2))
        imported: Any = [Imported(measured)]
        assert certainty(row, ladder, [], MethodErrors({}, {}), 0, imported).words == words


def test_a_measured_value_without_an_uncertainty_leaves_the_chance_unknown() -> None:
    told = chance_beside_measurement(kcal(-4.0, 0.2), kcal(-1.5))
    assert told.p_limits is None
    assert told.words == "unknown: solvation_free_energy (measured without an uncertainty)"


def test_a_bound_beyond_a_limit_decides_the_chance_and_one_on_either_side_does_not() -> None:
    above, below = Censoring.ABOVE, Censoring.BELOW
    assert chance_beside_measurement(kcal(-4.0, 0.2), kcal(-1.0, None, above)).words.startswith("0 % with")
    computed = chance_beside_measurement(kcal(2.0, 0.2, above), None)
    assert computed.p_limits is not None and computed.words == "< 1 %" and computed.margins == ()
    undecided = chance_beside_measurement(kcal(-4.0, 0.2, below), None)
    assert (undecided.p_limits, undecided.unknown) == (None, ("solvation_free_energy",))
    beside_undecided = chance_beside_measurement(kcal(-4.0, 0.2), kcal(-4.0, None, below))
    assert beside_undecided == chance_beside_measurement(kcal(-4.0, 0.2), None), "the bound says nothing"


def test_a_bound_inside_a_limit_on_one_side_is_sure() -> None:
    row: Any = Row("solvation_free_energy", [None, -2 * KCAL])
    answers: Any = [Answer(Measured("solvation_free_energy", ALPB, kcal(-9.0, 0.2, Censoring.BELOW)))]
    errors = MethodErrors({}, {"alpb": XTB_SOLVATION})
    told = certainty(row, (Rung("alpb", "solvation_free_energy"),), answers, errors, 0)  # type: ignore[arg-type]
    assert told.p_limits is not None and told.words == "> 99 %"


def test_the_interval_of_a_mean_absolute_error_covers_19_of_20() -> None:
    """The test draws 4000 samples of 12 normal errors, whose mean absolute error is sqrt(2 / pi)."""
    samples = np.abs(np.random.default_rng(2).normal(size=(4000, 12))).mean(axis=1)
    intervals = np.array([interval_of_mean_absolute_error(absolute, 12) for absolute in samples])
    is_covered = (intervals[:, 0] < math.sqrt(2 / math.pi)) & (math.sqrt(2 / math.pi) < intervals[:, 1])
    assert np.mean(is_covered) == pytest.approx(0.95, abs=0.015)
    low, high = interval_of_mean_absolute_error(0.46, 12)
    assert (round(low, 2), round(high, 2)) == (0.32, 0.79)


IP = "adiabatic_ionization_energy"
EA = "adiabatic_electron_affinity"
XTB = Level("IPEA1-xTB")
DERIVED = {
    "property": "hardness",
    "unit": "eV",
    "formula": "(adiabatic_ionization_energy - adiabatic_electron_affinity) / 2",
    "parts": {IP: ["xtb", IP], EA: ["xtb", EA]},
    "after": "xtb",
}


def hardness(
    ip: MethodError | None, ea: MethodError | None, charge: int = 0, ea_uncertainty: float = 0.01
) -> Certainty:
    derived_properties.register("hardness", "eV")
    row: Any = Row("hardness", [4.0, None])
    answers: Any = [
        Answer(
            Measured(IP, XTB, Quantity(9.0, "eV", 0.0)),
            Measured(EA, XTB, Quantity(0.5, "eV", ea_uncertainty)),
            Measured("hardness", XTB, Quantity(4.25, "eV", 0.005)),
            rung="xtb",
        )
    ]
    declared = tuple(error for error in (ip, ea) if error is not None)
    errors = MethodErrors({}, {"xtb": declared}, derived={"hardness": DERIVED})
    return certainty(row, (Rung("xtb", "hardness"),), answers, errors, charge)  # type: ignore[arg-type]


def declared_error(name: str, mean: float, absolute: float, square: float, charge: Any = "any") -> MethodError:
    return MethodError(
        name, "IPEA1-xTB", 30, mean, absolute, "eV", "organics", "a", root_mean_square=square, charge=charge
    )


def test_a_derived_value_has_the_errors_of_its_parts() -> None:
    ip = declared_error(IP, 0.165, 0.241, 0.359)
    ea = declared_error(EA, 0.349, 0.391, 0.456, charge="neutral")
    [margin] = hardness(ip, ea).margins
    spread = 0.5 * math.sqrt(0.359**2 - 0.165**2) + 0.5 * math.sqrt(0.456**2 - 0.349**2)  # one rung: they add
    assert margin.method is not None and margin.method.n == 30
    assert margin.method.mean_error == pytest.approx((0.165 - 0.349) / 2)
    assert margin.method.spread == pytest.approx(spread) and margin.method.source == PROPAGATED
    [of_one] = hardness(ip, None, ea_uncertainty=0.0).margins  # an exact value has no error
    assert of_one.method is not None
    assert of_one.method.mean_absolute_error == pytest.approx(0.241 / 2), "half of what the benchmark measured"
    no_ea = hardness(ip, None)
    assert no_ea.unknown == ("hardness",) and no_ea.margins[0].method_unknown == f"not known for {EA}"
    assert hardness(ip, ea, charge=1).margins[0].method_unknown == "not known for ions"


def test_the_error_of_a_calibrated_value_is_the_leave_one_out_error_of_its_fit() -> None:
    fit = Fit("solvation_free_energy", FitKind.LINEAR, "experiment", 1.1, -0.01, 19, 0.03, 0.04, 0.05)
    errors = MethodErrors({}, {"alpb": XTB_SOLVATION}, {"alpb": {"solvation_free_energy": fit}})
    found = of_solvation(-2.4 * KCAL, "kcal/mol", errors=errors).method
    assert found.mean_absolute_error == pytest.approx(0.03 / KCAL, rel=1e-4) and found.mean_error == 0
    assert (found.n, found.unit, found.own.reference, found.source) == (19, "kcal/mol", "experiment", MEASURED)
    far = replace(fit, center=-1.0, squared_deviations=0.01)
    errors = MethodErrors({}, {}, {"alpb": {"solvation_free_energy": far}})
    widened = of_solvation(-2.4 * KCAL, "kcal/mol", errors=errors).method.mean_absolute_error
    computed = (-2.4 * KCAL + 0.01) / 1.1
    assert widened * KCAL == pytest.approx(0.03 * ((1 + 1 / 19 + (computed + 1) ** 2 / 0.01) / (1 + 2 / 19)) ** 0.5)
    of_neutral = MethodErrors({}, {}, {"alpb": {"solvation_free_energy": replace(fit, charges="neutral")}})
    ladder = (Rung("alpb", "solvation_free_energy"),)
    ion = certainty_of_solvation(-2.4 * KCAL, "kcal/mol", ALPB, of_neutral, *ladder, charge=1)
    assert ion.margins[0].method_unknown == "not known for ions" and ion.p_limits is None


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


ALCOHOLS = ("CO", "CCO", "CCCO", "CCCCO", "CC(C)O")


def dipole_campaign(ledger: Ledger, folder: Path, texts: tuple[str, ...] = ALCOHOLS) -> Maker:
    accept = {
        "property": "dipole",
        "direction": "window",
        "unit": "D",
        "accept": [1.0, 3.0],
        "scale": 0.3,
        "weight": 1.0,
    }
    made = Maker(ledger, folder, objectives=[accept])
    made.enter(texts)
    for i in range(len(texts)):
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


def test_neutral_molecules_and_ions_have_errors_of_their_own(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dipole_campaign(own_ledger, tmp_path, (*ALCOHOLS, "C[O-]", "C[NH3+]", "CC[O-]", "CC[NH3+]"))
    file = io.StringIO()
    lines = io.StringIO()
    import_dipoles(made, Level("experiment", phase="gas"), (0.1, -0.3, 0.2, 0.2, 0.3, 5.0, 5.0))
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        measured = method_errors(connection, made.row, ladder).measured
        shown = {candidate.smiles: candidate for candidate in best(connection, made.row, 9)}
        columns = "smiles,p_limits,dipole margin [D],dipole method error [D]"
        write_csv(connection, made.row, file, selection=TableSelection(columns))
        [*_, arrow] = candidate_rows(connection, made.row).rows
        write_jsonl(connection, made.row, lines)
    [((_, name, charge), found)] = measured.items()
    assert (name, charge, found.n) == ("dipole", ChargeClass.NEUTRAL, 5), "two ions are too few, and no neutral ones"
    assert found.mean_absolute_error == pytest.approx(0.22) and found.root_mean_square == pytest.approx(0.054**0.5)
    assert shown["CO"].margins[0].method is not None and shown["CO"].p_limits is not None
    assert shown["CC[O-]"].margins[0].method_unknown == "not known for ions"
    assert (shown["CC[O-]"].p_limits, shown["CC[O-]"].p_limits_unknown) == (None, ("dipole",))
    assert (shown["C[O-]"].p_limits, shown["C[O-]"].p_limits_measured) == (0.0, ("dipole",)), "measured at -2.5 D"
    cells = list(csv.reader(file.getvalue().splitlines()))
    assert [float(cell) for cell in cells[1][1:]] == pytest.approx([shown["CO"].p_limits, 1.0, 0.22])
    assert cells[8][1] == cells[8][3] == "" and float(cells[8][2]) == pytest.approx(0.3)
    assert arrow["text"] == "CC[NH3+]" and (arrow["p_limits"], arrow["dipole method error [D]"]) == (None, None)
    assert arrow["dipole margin [D]"] == pytest.approx(0.2)
    first = json.loads(lines.getvalue().splitlines()[0])
    assert first["p_limits"] == shown["CO"].p_limits and first["margins"] == plain(shown["CO"].margins[:1])


def test_measured_values_at_hand_count(own_ledger: Ledger, tmp_path: Path) -> None:
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
    import_dipoles(made, Level("experiment", phase="hexane"), (5.0,) * 5)
    assert list(figures().values()) == [twice], "a value in hexane says nothing of the error of one in water"
    with made.ledger.read() as connection:
        first = next(c for c in best(connection, made.row, 12) if c.smiles == "CO")
    [margin] = first.margins
    assert margin.margin == pytest.approx(1.0) and margin.uncertainty_kind is None
    assert str(margin) == "clear of the limits by 1.0 ± 0.2 D (method), ± 0.05 D (standard uncertainty)"
