"""Derived properties in a campaign file: what they may name, where they are known, and what they leave unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.errors import SpecError

TEXT = """
campaign: derived
subject: molecule
{derived}objectives: [{objective}]
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: sp, verifier: xtb.singlepoint{gate}}}
  - {{rung: ip, verifier: xtb.ip_ea}}
goal: {{kind: best}}
budget: {{core_seconds: 50}}
proposer: {{kind: screen, file: molecules.csv}}
scheduler: {{kind: {scheduler}}}
"""
HARDNESS = "{property: hardness, unit: kJ/mol, formula: (vertical_ionization_energy - vertical_electron_affinity) / 2}"
OBJECTIVE = "{property: hardness, unit: kJ/mol, minimise: [900, 400]}"


def spec(
    tmp_path: Path,
    *derived: str,
    objective: str = "{property: qed, min: 0.5}",
    gate: str = "",
    scheduler: str = "thresholds",
) -> CampaignSpec:
    (tmp_path / "molecules.csv").write_text("smiles\nC\n")
    listed = f"derived: [{', '.join(derived)}]\n" if derived else ""
    return parse_spec(TEXT.format(derived=listed, objective=objective, gate=gate, scheduler=scheduler), base=tmp_path)


def test_a_derived_property_belongs_to_the_last_rung_that_it_needs(tmp_path: Path) -> None:
    shift = "{property: shift, unit: eV, formula: hardness - sp.homo_lumo_gap / 2 - 0.1 eV}"
    size = "{property: size, unit: g/mol, formula: molecular_weight / 2}"
    made = spec(tmp_path, HARDNESS, shift, size, objective=OBJECTIVE)
    by_rung = {rung.rung: [prop.definition.name for prop in rung.derived] for rung in made.ladder}
    assert by_rung == {"molecule_safety": [], "checks": ["size"], "sp": [], "ip": ["hardness", "shift"]}
    hardness, both = made.ladder[-1].derived
    assert hardness.level.label.startswith("IPEA1-xTB//") and " and GFN2-xTB//" in both.level.label
    assert made.chosen_units() == {"hardness": "kJ/mol"} and hardness.definition.unit == "eV"
    accept = made.domain_objectives()[0].ramp
    assert accept is not None and accept == pytest.approx((900 / 96.485332, 400 / 96.485332))


def test_without_derived_properties_the_canonical_form_has_no_such_key(tmp_path: Path) -> None:
    assert "derived" not in spec(tmp_path).canonical()
    [stated] = spec(tmp_path, HARDNESS).canonical()["derived"]
    assert stated["after"] == "ip" and stated["parts"]["vertical_electron_affinity"][0] == "ip"


@pytest.mark.parametrize(
    ("derived", "fault"),
    [
        ("{property: x, unit: eV, formula: homo - lummo}", r'derived\[0\].formula: .*"lummo"; did you mean "lumo"'),
        (
            "{property: x, unit: eV, formula: homo - dipole}",
            r"has a difference of homo \(eV\) and dipole \(D\), whose units",
        ),
        ("{property: x, unit: D, formula: homo - lumo}", "gives .*, and D is"),
        ("{property: x, unit: eV, formula: check.homo}", 'labelled "check"; did you mean "checks"'),
        ("{property: x, unit: eV, formula: checks.homo}", 'rung "checks" does not measure "homo"'),
        ("{property: x, unit: ev2, formula: homo}", r"derived\[0\].unit: .*no unit"),
        ("{property: x, unit: eV, formula: 'homo ** 2'}", "is no formula"),
        ("{property: homo, unit: eV, formula: lumo}", 'property "homo".*another name'),
        ("{property: x, unit: eV, formula: x}", '"x"'),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, derived: str, fault: str) -> None:
    with pytest.raises(SpecError, match=fault):
        spec(tmp_path, derived)


def test_a_gate_stands_at_the_rung_after_which_the_property_is_known(tmp_path: Path) -> None:
    gap = "{property: half_gap, unit: eV, formula: homo_lumo_gap / 2}"
    gate = ", gate: {half_gap: {max: 300, unit: kJ/mol}}"
    window = spec(tmp_path, gap, gate=gate).ladder[2].window_gates()["half_gap"]
    assert window.high == pytest.approx(300 / 96.485332)
    with pytest.raises(SpecError, match=r'gate.hardness: "hardness" is not known after this rung\n.*the rung "ip"'):
        spec(tmp_path, HARDNESS, gate=", gate: {hardness: {max: 3, unit: eV}}")
    with pytest.raises(SpecError, match="not known after this rung"):
        spec(tmp_path, gate=", gate: {hardness: {max: 3, unit: eV}}")  # it is another campaign's


def test_parts_of_two_paid_rungs_need_a_scheduler_that_skips_none(tmp_path: Path) -> None:
    shift = "{property: shift, unit: eV, formula: vertical_ionization_energy + homo}"
    objective = "{property: shift, unit: eV, max: 1}"
    assert spec(tmp_path, shift, objective=objective).canonical()
    assert spec(tmp_path, HARDNESS, objective=OBJECTIVE, scheduler="priced").canonical()
    with pytest.raises(SpecError, match="priced may skip one of the rungs that it needs: ip, sp"):
        spec(tmp_path, shift, objective=objective, scheduler="priced")
