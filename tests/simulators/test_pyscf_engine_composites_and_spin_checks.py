"""Against NWChem 7.0.2 without density fitting, structures of conftest.py. Its input, for water:

    geometry units angstrom noautosym noautoz nocenter ... end
    basis spherical; * library def2-svp; end          (and, for HI: ecp; I library def2-ecp; end)
    dft; xc pbe0; mult 1; grid xfine; convergence energy 1e-8; direct; end
    task dft energy

Density fitting and the smaller grid account for the differences: 4e-5 hartree in benzene, under 1e-3 eV in orbitals.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators import scf_recovery
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, build, check_energy, single_point
from sciagent_simulators.tblite_engine import BOHR, DEBYE, HARTREE

PLAIN = DftSettings(spin_check="off")

# name, charge, multiplicity, energy, HOMO, LUMO (hartree; over both spins)
NWCHEM = [
    ("water", 0, 1, -76.276264283859, -0.3053984, 0.06523942),
    ("water", 1, 2, -75.824321901951, -0.8551466, -0.5923602),
    ("hydrogen iodide", 0, 1, -298.306687980557, -0.2876031, -0.02423436),
    ("formaldehyde", 0, 1, -114.283660312054, -0.2807639, -0.03783463),
    pytest.param("benzene", 0, 1, -231.801975206572, -0.2666604, -0.003155470, marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def plain(structure):
    """A plain single point of a structure by its name, charge and multiplicity, computed once."""
    return cache(lambda *which: single_point(structure(*which), PLAIN))


@pytest.mark.parametrize(("name", "charge", "multiplicity", "energy", "homo", "lumo"), NWCHEM)
def test_energies_and_orbitals_match_nwchem(plain, name, charge, multiplicity, energy, homo, lumo):
    result = plain(name, charge, multiplicity)
    assert result.energy / HARTREE == pytest.approx(energy, abs=1e-4)
    assert result.homo == pytest.approx(homo * HARTREE, abs=3e-3)
    assert result.lumo == pytest.approx(lumo * HARTREE, abs=3e-3)
    assert result.gap == pytest.approx((lumo - homo) * HARTREE, abs=3e-3)


def test_dipoles_match_nwchem(plain):
    """NWChem, e bohr along z about the origin: water -0.790792, H2O+ -0.872967 (centre of mass at z = 0.0516)."""
    assert plain("water", 0, 1).dipole == pytest.approx(0.790792 * DEBYE, abs=2e-3)
    cation = (0.872967 + 0.05165 / BOHR) * DEBYE
    assert plain("water", 1, 2).dipole == pytest.approx(cation, abs=3e-3)


def test_hydrogen_atom_by_hartree_fock_is_near_the_exact_half_hartree():
    """NWChem, `scf; doublet; uhf`: -0.499278 hartree."""
    atom = Geometry((1,), np.zeros((1, 3)), multiplicity=2)
    result = single_point(atom, DftSettings(functional="hf"))
    assert result.energy / HARTREE == pytest.approx(-0.499278, abs=1e-5)
    assert result.diagnostics["s_squared"] == pytest.approx(0.75, abs=1e-6)


def test_iodine_gets_its_effective_core_potential(structure):
    mol = build(structure("hydrogen iodide"), PLAIN)
    assert mol.nelectron == 26  # 25 of iodine beyond its 28, one of hydrogen


def test_a_basis_without_potential_is_refused_beyond_krypton(structure):
    with pytest.raises(SimulatorError) as caught:
        build(structure("hydrogen iodide"), replace(PLAIN, basis="sto-3g"))
    assert (caught.value.outcome, caught.value.reason) == ("refused", "missing_ecp")


def test_an_unknown_basis_is_refused(structure):
    with pytest.raises(SimulatorError) as caught, pytest.warns(UserWarning):
        build(Geometry((58,), np.zeros((1, 3))), PLAIN)
    assert caught.value.outcome == "refused"


def test_two_cycles_without_recovery_are_not_a_result(structure, monkeypatch):
    monkeypatch.setattr(scf_recovery, "STEPS", ("diis",))
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("water"), replace(PLAIN, max_cycles=2))
    assert (caught.value.outcome, caught.value.reason) == ("not_converged", "scf_not_converged")
    assert caught.value.diagnostics["scf_tried"] == ["diis"]


@pytest.mark.parametrize(("cycles", "step"), [(5, "damped"), (2, "newton")])
def test_each_recovery_step_ends_where_plain_iterations_end(structure, plain, cycles, step):
    """The level shift must not stay in the virtual orbitals: it would raise the LUMO by 8 eV."""
    expected = plain("water", 0, 1)
    recovered = single_point(structure("water"), replace(PLAIN, max_cycles=cycles))
    assert recovered.diagnostics["scf_step"] == step
    assert recovered.energy == pytest.approx(expected.energy, abs=1e-6)
    assert recovered.homo == pytest.approx(expected.homo, abs=1e-3)
    assert recovered.lumo == pytest.approx(expected.lumo, abs=1e-3)


def test_a_broken_off_calculation_goes_on_from_its_checkpoint(structure, plain, tmp_path, monkeypatch):
    expected = plain("formaldehyde", 0, 1)
    monkeypatch.setattr(scf_recovery, "STEPS", ("diis",))
    file = tmp_path / "scf.chk"
    short = replace(PLAIN, max_cycles=5)
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("formaldehyde"), short, file)
    assert not caught.value.diagnostics["resumed"]
    resumed = single_point(structure("formaldehyde"), replace(short, max_cycles=6), file)
    assert resumed.diagnostics["resumed"]
    assert resumed.energy == pytest.approx(expected.energy, abs=1e-5)


def test_a_checkpoint_cut_short_is_ignored(structure, tmp_path):
    file = tmp_path / "scf.chk"
    file.write_bytes(b"\x89HDF, and then the power failed")
    assert not single_point(structure("water"), PLAIN, file).diagnostics["resumed"]


def test_overlapping_atoms_and_wrong_parity_are_refused(structure):
    with pytest.raises(SimulatorError, match="overlapping_atoms"):
        single_point(structure("hydrogen atom on hydrogen atom"), PLAIN)
    with pytest.raises(SimulatorError, match="multiplicity"):
        single_point(structure("water", charge=1), PLAIN)


def test_energies_off_the_scale_of_the_free_atoms_are_implausible(structure):
    """PySCF converges overlapping atoms to +50 hartree; half of water's energy and twice it are as wrong."""
    water = structure("water")
    mol = build(water, PLAIN)
    check_energy(-76.2763, mol, water)
    for energy in (50.0, -38.0, -152.0, float("nan")):
        with pytest.raises(SimulatorError, match="implausible_energy"):
            check_energy(energy, mol, water)


def test_hydroxide_in_vacuum_does_not_hold_its_electron_in_def2_svp_but_cyanide_does(structure):
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("hydroxide", charge=-1), PLAIN)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "anion_unbound")
    assert single_point(structure("cyanide", charge=-1), PLAIN).homo < 0


def test_a_contaminated_open_shell_is_named(structure):
    """Three hydrogen atoms far apart: up, down, up is half a quartet."""
    geometry = Geometry((1, 1, 1), np.array([[0, 0, -2.0], [0, 0, 0], [0, 0, 2.0]]), multiplicity=2)
    with pytest.raises(SimulatorError) as caught:
        single_point(geometry, PLAIN)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "spin_contaminated")


def test_dispersion_lowers_the_energy_and_leaves_the_orbitals(structure, plain):
    expected = plain("water", 0, 1)
    with_it = single_point(structure("water"), replace(PLAIN, dispersion="d3bj"))
    assert -0.01 < with_it.energy - expected.energy < 0
    assert with_it.gap == pytest.approx(expected.gap, abs=1e-9)


def test_a_solution_that_is_not_aufbau_is_unstable(structure) -> None:
    settings = DftSettings(functional="pbe", grid_level=0, spin_check="off")
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("oxygen"), settings)
    assert caught.value.outcome in ("unstable", "not_converged")
    assert caught.value.reason in ("scf_unstable", "scf_not_converged")


def test_a_checkpoint_that_was_cut_short_does_no_harm(structure, tmp_path):
    settings = DftSettings(functional="pbe", grid_level=0, spin_check="off")
    whole = tmp_path / "whole.chk"
    expected = single_point(structure("water"), settings, whole)
    content = whole.read_bytes()
    for kept in (0, 1000, len(content) - 1):
        cut = tmp_path / f"cut{kept}.chk"
        cut.write_bytes(content[:kept])
        assert single_point(structure("water"), settings, cut).energy == pytest.approx(expected.energy, abs=1e-5)
    for place in range(0, len(content), len(content) // 4):
        broken = tmp_path / f"broken{place}.chk"
        broken.write_bytes(content[:place] + b"\xff" * 64 + content[place + 64 :])
        assert single_point(structure("water"), settings, broken).energy == pytest.approx(expected.energy, abs=1e-5)
