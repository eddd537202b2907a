"""Each rung is run for some properties, and lines lead from its values to those of the deciding rungs."""

from __future__ import annotations

from pathlib import Path

from sciagent.campaign.core.lines_to_deciding_rungs import lines_of, sparing_properties
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.worth import LineToDecidingRung

SPEC = """
campaign: ladder
subject: molecule
derived:
  - {property: hardness, unit: eV, formula: ip.vertical_ionization_energy - xtb.homo}
objectives:
  - {property: homo_lumo_gap, window: [4.0, 4.6], unit: eV}
  - {property: hardness, min: 1, unit: eV}
ladder:
  - {rung: checks, verifier: molecule.checks, gate: {logp: {max: 3}}}
  - {rung: xtb, verifier: xtb.singlepoint, gate: {homo_lumo_gap: {min: 2.0, max: 2.6, unit: eV}}}
  - {rung: ip, verifier: xtb.ip_ea}
  - {rung: solv, verifier: xtb.solvation, gate: {solvation_free_energy: {max: 0, unit: kcal/mol}}}
  - {rung: dft, verifier: pyscf.scf, settings: {functional: PBE}}
scheduler: {kind: thresholds}
goal: {kind: hits}
budget: {proposals: 5}
proposer: {kind: screen, file: none.csv}
"""


def test_a_rung_is_run_for_its_gates_its_objectives_and_the_formulas_it_is_part_of(tmp_path: Path) -> None:
    spec = parse_spec(SPEC, base=tmp_path, candidates=False)
    labels = [rung.rung for rung in spec.ladder]
    sparing = dict(zip(labels, sparing_properties(spec.ladder, spec.domain_objectives()), strict=True))
    assert sparing.pop("molecule_safety") == sparing.pop("checks") == frozenset(), "fast rungs always run"
    assert sparing == {
        "xtb": {"homo_lumo_gap", "hardness"},
        "ip": {"hardness"},
        "solv": {"solvation_free_energy"},  # no objective, so that no measured value spares the rung
        "dft": {"homo_lumo_gap"},
    }


def test_the_edges_of_a_gate_are_read_as_those_of_the_objective(tmp_path: Path) -> None:
    spec = parse_spec(SPEC, base=tmp_path, candidates=False)
    lines = lines_of(spec.ladder, spec.domain_objectives())
    [line] = [own["homo_lumo_gap"] for own in lines if own]
    assert isinstance(line, LineToDecidingRung)
    assert (line.slope, round(line.intercept, 9)) == (1.0, 2.0), "4.0 to 4.6 lies 2 eV above 2.0 to 2.6"
