"""What `calibrate` in a campaign file asks for, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sciagent
from sciagent.campaign.core.calibrate_to_imported_values import fits_of
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec, parse_spec
from sciagent.campaign.people.import_values import import_file
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.errors import SpecError, UsageError
from sciagent.report.status_best_trace import best
from sciagent.store.database.ledger import Ledger
from tests.campaign.driving.test_driver_refitting import CALIBRATE, SPEC, run


@pytest.fixture(autouse=True)
def _seeds(tmp_path: Path) -> None:
    (tmp_path / "alkanes.csv").write_text("smiles\nC\n")


def test_calibrate_is_refused_where_it_has_no_effect_or_stands_twice(tmp_path: Path) -> None:
    text = SPEC.format(name="twice", calibrate=CALIBRATE)
    (tmp_path / "twice.yaml").write_text(text.replace("molecule.checks\n", f"molecule.checks\n    {CALIBRATE}\n"))
    with pytest.raises(SpecError, match='rung "checks", which measures it, states calibrate, too'):
        load_spec(tmp_path / "twice.yaml")


DERIVED = "derived:\n  - {property: twice_logp, formula: 2 * logp}\nladder:"


def test_a_part_of_a_derived_property_is_not_calibrated(tmp_path: Path) -> None:
    both = SPEC.format(name="both", calibrate=CALIBRATE).replace("ladder:", DERIVED)
    (tmp_path / "both.yaml").write_text(both)
    with pytest.raises(SpecError, match=r"(?s)logp is a part of the derived .*calibrate twice_logp instead"):
        load_spec(tmp_path / "both.yaml")
    by_rung = both.replace(CALIBRATE, "weight: 1.0").replace("molecule.checks\n", f"molecule.checks\n    {CALIBRATE}\n")
    (tmp_path / "rung.yaml").write_text(by_rung)
    with pytest.raises(SpecError, match=r"ladder\[0\].calibrate: logp is a part of the derived property"):
        load_spec(tmp_path / "rung.yaml")


def test_a_derived_property_is_calibrated_from_the_values_of_its_parts(ledger: Ledger, tmp_path: Path) -> None:
    text = SPEC.format(name="fitted", calibrate=CALIBRATE).replace("ladder:", DERIVED)
    text = text.replace("property: logp", "property: twice_logp")
    spec = parse_spec(text, base=tmp_path)
    with pytest.raises(UsageError, match="has no imported values of twice_logp"), ledger.read() as connection:
        fits_of(connection, spec)
    alkanes = ["C" * n for n in range(1, 10)]
    file = tmp_path / "lab.csv"
    file.write_text("smiles,value\n" + "".join(f"{smiles},{len(smiles)}\n" for smiles in alkanes))
    import_file(ledger, file, columns=[Column("value", "twice_logp")], level=Level("experiment"))
    with pytest.raises(UsageError, match=r"molecule.checks --file lab.csv$"), ledger.read() as connection:
        fits_of(connection, spec)
    answers = sciagent.calc("molecule.checks", alkanes, ledger=ledger)
    logp = {}
    for answer in answers:
        [logp[answer.text]] = [value.value for value in answer.values if value.property == "logp"]
    with ledger.read() as connection:
        fit = fits_of(connection, spec)[1]["twice_logp"]
    slope, intercept = np.polyfit([2 * logp[smiles] for smiles in alkanes], range(1, 10), 1)
    assert (fit.slope, fit.intercept, fit.n) == (pytest.approx(slope), pytest.approx(intercept), 9)
    (tmp_path / "alkanes.csv").write_text("smiles\n" + "\n".join(alkanes) + "\n")
    forced = text.replace("kind: linear", "kind: linear, force: true")
    built = create_or_open(ledger, parse_spec(forced, base=tmp_path), forced, "test").built
    run(built)
    with ledger.read() as connection:
        shown = {one.smiles: one.values["twice_logp"] for one in best(connection, built.row, 20)}
    for smiles, value in shown.items():
        assert value.value == pytest.approx(slope * 2 * logp[smiles] + intercept)


def test_a_rung_is_not_fitted_to_values_in_another_solvent(ledger: Ledger, tmp_path: Path) -> None:
    text = SPEC.format(name="solvated", calibrate=CALIBRATE).replace("logp", "solvation_free_energy")
    rung = "  - rung: hexane\n    verifier: xtb.solvation\n    settings: {solvent: hexane}\ngoal:"
    spec = parse_spec(text.replace("max: 2.0", "max: 0\n    unit: eV").replace("goal:", rung, 1), base=tmp_path)
    file = tmp_path / "lab.csv"
    file.write_text("smiles,value\n" + "".join("C" * n + f",{-n / 10}\n" for n in range(1, 10)))
    level = Level("experiment", phase="water")
    import_file(ledger, file, columns=[Column("value", "solvation_free_energy")], level=level)
    said = r'hexane computes solvation_free_energy in hexane, and "experiment\(water\)" was measured in water'
    with pytest.raises(UsageError, match=said), ledger.read() as connection:
        fits_of(connection, spec)


def test_a_spec_without_the_key_has_the_hash_that_it_had(tmp_path: Path) -> None:
    (tmp_path / "bare.yaml").write_text(SPEC.format(name="bare", calibrate="weight: 1.0"))
    canonical = load_spec(tmp_path / "bare.yaml").canonical()
    assert "calibrate" not in canonical["objectives"][0]
    assert all("calibrate" not in rung for rung in canonical["ladder"])


def test_the_key_measured_is_left_out_where_it_is_not_set_and_is_part_of_the_identity(tmp_path: Path) -> None:
    text = SPEC.format(name="bare", calibrate="weight: 1.0")
    plain = parse_spec(text, base=tmp_path)
    flag = parse_spec(f"measured: flag{text}", base=tmp_path)
    decide = parse_spec(f"measured: decide{text}", base=tmp_path)
    assert "measured" not in plain.canonical() and flag.hash == plain.hash
    assert decide.identity_hash != plain.identity_hash
    assert decide.diff(plain.canonical()) == ['measured: "flag" -> "decide"']
    assert decide.identity_diff(plain.canonical()) == 'measured: "flag" -> "decide"'
