"""Values with the uncertainty of their class or of the molecule, and which of the two it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import with_kinds_and_isomer
from sciagent.domain.properties_and_levels import DIPOLE, HOMO
from sciagent.domain.quantities import ComputedIsomer
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom, search_freedom
from sciagent_simulators.starting_geometry import embed
from sciagent_verifiers.simulation.xtb_singlepoint import SPREADS, XtbSinglepoint

VERIFIER = XtbSinglepoint()
TURNING = SPREADS[SearchFreedom.TURNING]


def uncertainties(smiles: str, molecule_spread: dict | None = None, further: dict | None = None) -> list[float | None]:
    rows = VERIFIER.measured(
        parse_molecule(smiles), {HOMO: -10.0, DIPOLE: 1.0}, molecule_spread=molecule_spread, further=further
    )
    return [row.quantity.uncertainty for row in rows]


@pytest.mark.parametrize("smiles", ["c1ccccc1", "CCCC", "OC1CCCCC1", "CC1CCCCC1Cl"])
def test_the_class_is_told_by_what_a_conformer_search_has_to_settle(smiles: str) -> None:
    spread = SPREADS[search_freedom(parse_molecule(smiles).mol)]
    assert uncertainties(smiles) == [spread[HOMO], spread[DIPOLE]]


def test_each_class_scatters_more_than_the_one_before() -> None:
    for prop in (HOMO, DIPOLE):
        widths = [SPREADS[freedom][prop] for freedom in SearchFreedom]
        assert widths == sorted(widths)


def test_the_molecules_own_spread_replaces_its_class_and_the_rest_is_added_in_quadrature() -> None:
    assert uncertainties("CCCC", molecule_spread={DIPOLE: 0.012}) == pytest.approx([TURNING[HOMO], 0.013])
    assert uncertainties("CCCC", molecule_spread={DIPOLE: 0.012}, further={DIPOLE: 0.084}) == pytest.approx(
        [TURNING[HOMO], 0.085]
    )


def test_each_property_says_whose_uncertainty_it_has(tmp_path: Path) -> None:
    molecule = parse_molecule("CCCC")
    rows = VERIFIER.measured(molecule, {HOMO: -10.0, DIPOLE: 1.0}, molecule_spread={DIPOLE: 0.01})
    found = VERIFIER.calculated(
        molecule, Context(tmp_path, tmp_path), rows, {"a": 1}, {}, molecule_spread={DIPOLE: 0.01}
    )
    assert found.diagnostics == {"a": 1, "uncertainty_kind": {"homo": "class", "dipole": "molecule"}}


def test_a_value_beyond_the_bounds_of_its_property_is_refused() -> None:
    with pytest.raises(SimulatorError, match="plausible"):
        VERIFIER.measured(parse_molecule("C"), {HOMO: -1000.0})


def embedded(smiles: str) -> Geometry:
    """Returns a force-field geometry of a molecule."""
    molecule = parse_molecule(smiles)
    geometries, _, _ = embed(molecule.mol, molecule.charge, molecule.multiplicity, 1, seed=3)
    return geometries[0]


@pytest.mark.parametrize(("drawn", "label"), [("C/C=C/C#N", "E"), ("C/C=C\\C#N", "Z")])
def test_the_value_of_an_undefined_molecule_is_that_of_the_isomer_of_its_geometry(
    tmp_path: Path, drawn: str, label: str
) -> None:
    molecule = parse_molecule("CC=CC#N")
    rows = VERIFIER.measured(molecule, {HOMO: -10.0})
    context = Context(tmp_path, tmp_path)
    found = VERIFIER.calculated(molecule, context, rows, {}, {"": embedded(drawn), "cation": embedded("CC=CC#N")})
    smiles = parse_molecule(drawn).smiles
    isomer = {"smiles": smiles, "label": label, "possible": 2, "different": 2, "is_upper_bound": False}
    assert found.diagnostics["isomer"] == isomer
    [value] = with_kinds_and_isomer(found.measured, found.diagnostics)
    assert value.quantity.isomer == ComputedIsomer(smiles, label, possible=2, different=2)
    assert value.quantity.uncertainty_kind == "class"
    assert value == rows[0], "neither value nor uncertainty change"


def test_a_molecule_with_defined_stereo_has_no_isomer_in_its_diagnostics(tmp_path: Path) -> None:
    molecule = parse_molecule("C/C=C/C#N")
    rows = VERIFIER.measured(molecule, {HOMO: -10.0})
    found = VERIFIER.calculated(molecule, Context(tmp_path, tmp_path), rows, {}, {"": embedded("C/C=C/C#N")})
    assert "isomer" not in found.diagnostics
