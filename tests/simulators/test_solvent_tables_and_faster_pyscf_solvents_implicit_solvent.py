"""Against Debian's xtb 6.5.1: `xtb NAME.xyz --gfn N --acc 0.01 --MODEL SOLVENT` less the same in vacuum, hartree."""

from __future__ import annotations

import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import GBSA, SOLVENTS, Solvation, unparametrised
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import HARTREE, relax, single_point

XTB = [
    ("water", "GFN1-xTB", "alpb", "water", -0.02142678),
    ("water", "GFN2-xTB", "alpb", "water", -0.01445752),
    ("water", "GFN2-xTB", "gbsa", "water", -0.00959665),
    ("water", "GFN2-xTB", "alpb", "octanol", -0.01010980),
    ("formaldehyde", "GFN2-xTB", "alpb", "water", -0.00144744),
    ("formaldehyde", "GFN1-xTB", "gbsa", "toluene", -0.00551056),
    ("formaldehyde", "GFN2-xTB", "gbsa", "acetonitrile", -0.00435372),
    ("benzene", "GFN2-xTB", "alpb", "water", -0.00084850),
    ("benzene", "GFN1-xTB", "alpb", "acetonitrile", -0.00555648),
    ("benzene", "GFN2-xTB", "alpb", "toluene", -0.00632910),
]


@pytest.mark.parametrize(("name", "method", "model", "solvent", "energy"), XTB)
def test_solvation_matches_xtb(structure, name, method, model, solvent, energy):
    """Both programs take 1 mol/L of gas to 1 mol/L of solution unless told otherwise."""
    geometry = structure(name)
    found = single_point(geometry, method, solvation=Solvation(solvent, model)).energy
    assert (found - single_point(geometry, method).energy) / HARTREE == pytest.approx(energy, abs=1e-7)


@pytest.mark.parametrize("method", ["GFN1-xTB", "GFN2-xTB"])
def test_every_solvent_that_is_offered_is_there_and_no_two_are_one(structure, method):
    """xtb 6.5.1 gives the same two under GBSA the same parameters."""
    found = {}
    for model, solvents in (("alpb", SOLVENTS), ("gbsa", sorted(GBSA[method]))):
        for solvent in solvents:
            energy = single_point(structure("formaldehyde"), method, solvation=Solvation(solvent, model)).energy
            found.setdefault(round(energy, 9), []).append(f"{model} {solvent}")
    shared = [names for names in found.values() if len(names) > 1]
    in_gfn1 = [["gbsa chloroform", "gbsa dichloromethane"]] if method == "GFN1-xTB" else []
    assert sorted(shared) == [["gbsa benzene", "gbsa toluene"], *in_gfn1]


def test_a_solvent_without_parameters_is_refused(structure):
    for solvation in (Solvation("octanol", "gbsa"), Solvation("mercury")):
        with pytest.raises(SimulatorError) as caught:
            single_point(structure("water"), solvation=solvation)
        assert (caught.value.outcome, caught.value.reason) == ("refused", "solvent")
    assert "it has: acetone, " in (unparametrised("GFN2-xTB", "gbsa", "octanol") or "")


def test_a_relaxation_in_a_solvent_ends_where_its_own_forces_vanish(structure):
    geometry, result = relax(structure("formaldehyde"), solvation=Solvation("water"))
    assert result.fmax < 0.05
    assert single_point(geometry, solvation=Solvation("water")).energy == pytest.approx(result.energy, abs=1e-6)


def test_glycine_is_a_zwitterion_in_water():
    """In vacuum its proton jumps back (test_geometry); in water it stays."""
    geometry, _ = prepare("[NH3+]CC(=O)[O-]", 0, 1, GeometryProtocol(conformers=2, solvent="water"), seed=1)
    assert len(geometry.numbers) == 10
