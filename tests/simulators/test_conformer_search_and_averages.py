"""Against Debian's xtb 6.5.1, `xtb CONFORMER.xyz --opt tight --acc 0.01` from the same geometries, and textbooks.

Against RDKit's GetBestRMS on the molecule without the hydrogens of carbon.
"""

from __future__ import annotations

import numpy as np
import pytest
from ase.io import read
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from sciagent.errors import SimulatorError
from sciagent_simulators.conformer_search_and_averages import (
    KCAL,
    Ensemble,
    gfn2_surface,
    mirror_smiles,
    n_conformers_to_embed,
    search,
    symmetry,
    with_defined_stereo,
)
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import embed
from sciagent_simulators.tblite_engine import HARTREE


def found(smiles, seed=1, **settings):
    mol = Chem.MolFromSmiles(smiles)
    return search(mol, Chem.GetFormalCharge(mol), 1, seed, **settings)


# energies in hartree: butane anti and gauche, 1,2-dichloroethane anti and gauche, ethanol gauche and anti
XTB = [
    ("CCCC", [-13.66512773, -13.66417306, -13.66417306]),
    ("ClCCCl", [-15.41622195, -15.41402380, -15.41402380]),
    ("CCO", [-11.39433899, -11.39433899, -11.39186739]),
]


@pytest.mark.parametrize(("smiles", "energies"), XTB, ids=["butane", "dichloroethane", "ethanol"])
def test_conformers_and_their_energies_match_xtb(smiles, energies):
    """Gauche counts twice. By experiment 0.67 (butane), 1.2 (dichloroethane) and -0.12 kcal/mol (ethanol) over anti:
    GFN2-xTB is wrong by 1.6 kcal/mol for ethanol, in xtb as here."""
    ensemble, _ = found(smiles)
    expected = np.array(energies)
    assert len(ensemble.geometries) == 3
    assert ensemble.energies[0] / HARTREE == pytest.approx(expected[0], abs=3e-5)
    relative = (ensemble.energies - ensemble.energies[0]) / KCAL
    assert relative == pytest.approx((expected - expected[0]) * HARTREE / KCAL, abs=0.05)


def test_the_anti_conformer_of_dichloroethane_has_no_dipole_and_the_gauche_ones_make_the_average():
    """mu^2 = w(gauche) mu(gauche)^2; 298 K: 1.1 D by GFN2-xTB; 1.2 to 1.4 D measured in the gas around room
    temperature."""
    ensemble, _ = found("ClCCCl")
    assert ensemble.dipoles[0] < 0.1 and min(ensemble.dipoles[1:]) > 2
    weight = ensemble.weights(298.15)[1:].sum()
    assert ensemble.dipole(298.15) == pytest.approx(ensemble.dipoles[1] * weight**0.5, abs=0.01)
    assert 1.0 < ensemble.dipole(298.15) < 1.4
    assert ensemble.dipole(1000.0) > ensemble.dipole(298.15)


def test_pentane_has_the_wells_of_the_textbook():
    """tt 1, tg 4 (either end, either sign), gg of one sign 2: nearly 3^2 less the two of the pentane effect."""
    ensemble, _ = found("CCCCC", window=2.0 * KCAL)
    assert len(ensemble.geometries) == 5
    assert ensemble.copies == pytest.approx([1, 2, 2, 1, 1])


def test_weights_follow_boltzmann():
    """Two wells 1 kT apart: 1/(1 + 1/e), and -kT ln(1 + 1/e)."""
    ensemble = Ensemble([], np.array([0.0, 8.617333262e-5 * 300]), np.zeros(2), np.ones(2), np.zeros(2, dtype=bool))
    assert ensemble.weights(300)[0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert ensemble.free_energy(300) == pytest.approx(-8.617333262e-5 * 300 * np.log(1 + np.exp(-1)))
    assert ensemble.free_energy(1e-3) == 0


@pytest.mark.parametrize(("smiles", "number"), [("C", 1), ("c1ccccc1O", 1), ("C1CCCCC1", 1)])
def test_how_many_conformers_a_molecule_has(smiles, number):
    """Methane, phenol, the chair (the twist lies 6 kcal/mol above)."""
    ensemble, told = found(smiles)
    assert len(ensemble.geometries) == number and told["symmetry_complete"]


def test_axial_methylcyclohexane_lies_where_experiment_has_it():
    """1.74 kcal/mol (Booth, Everett, J. Chem. Soc. Chem. Commun. 278 (1976))."""
    ensemble, _ = found("CC1CCCCC1")
    assert len(ensemble.geometries) == 2
    assert np.ptp(ensemble.energies) / KCAL == pytest.approx(1.74, abs=0.4)


def test_a_chiral_molecule_has_no_mirror_images_among_its_conformers_and_a_meso_one_has():
    chiral, meso = (with_defined_stereo(Chem.MolFromSmiles(s)) for s in ("C[C@H](F)Cl", "C[C@H](F)[C@@H](C)F"))
    assert mirror_smiles(chiral) != Chem.MolToSmiles(chiral)
    twin = with_defined_stereo(Chem.MolFromSmiles("C[C@H](F)[C@H](C)F"))
    assert {mirror_smiles(m) == Chem.MolToSmiles(m) for m in (meso, twin)} == {True, False}


@pytest.mark.parametrize(
    ("smiles", "defined"),
    [
        ("CC(F)Cl", True),
        ("CC(F)C(C)Cl", False),
        ("C/C=C/C", True),
        ("CC=CC", False),
        ("CCO", True),
        ("CC(=N)C#N", False),
        ("N=C(N)N", True),
        ("N=C1C=CC(=N)C=C1", False),  # syn and anti, of 2.6 and 0 D, have one SMILES
        ("CN=C=S", True),
        ("CC=C=CC", True),
    ],
    ids=[
        "racemate",
        "two centres",
        "defined alkene",
        "alkene",
        "achiral",
        "imine",
        "guanidine",
        "diimine",
        "isothiocyanate",
        "allene",
    ],
)
def test_undefined_stereo_is_resolved_only_up_to_the_mirror_image(smiles, defined):
    assert (with_defined_stereo(Chem.MolFromSmiles(smiles)) is not None) is defined


def test_embedding_grows_with_what_can_turn():
    numbers = [
        n_conformers_to_embed(Chem.MolFromSmiles(s)) for s in ("c1ccccc1", "CCO", "OCCCO", "CCCCCCCCCO", "C" * 20)
    ]
    assert numbers == sorted(numbers) and numbers[0] == 10 and numbers[-1] == 300


def test_water_favours_the_conformer_with_the_larger_dipole():
    """1,2-dichloroethane: gauche is rare in the gas and the rule in water."""
    gas, _ = found("ClCCCl", embedded=10)
    water, _ = found("ClCCCl", embedded=10, surface=gfn2_surface(Solvation("water")))
    assert water.dipole(298.15) > gas.dipole(298.15) + 0.4


def test_a_molecule_that_is_none_in_the_gas_phase_ends_with_its_reason():
    with pytest.raises(SimulatorError) as caught:
        found("[NH3+]CC(=O)[O-]", embedded=4)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "bond_changed")


def test_the_ensemble_reads_back_in_ase(tmp_path):
    ensemble, _ = found("CCCC", embedded=10)
    (tmp_path / "butane.xyz").write_text(ensemble.to_xyz(298.15))
    frames = read(tmp_path / "butane.xyz", index=":", format="extxyz")
    assert len(frames) == 3
    assert sum(frame.info["weight"] for frame in frames) == pytest.approx(1, abs=1e-4)
    assert frames[1].info["relative_kcal_mol"] == pytest.approx(0.62, abs=0.05)


def reduced(smiles, geometries):
    """The molecule with a conformer for each geometry, hydrogens of carbon removed."""
    full = Chem.AddHs(Chem.MolFromSmiles(smiles))
    for geometry in geometries:
        conformer = Chem.Conformer(full.GetNumAtoms())
        for i, position in enumerate(geometry.positions):
            conformer.SetAtomPosition(i, position.tolist())
        full.AddConformer(conformer, assignId=True)
    editable = Chem.RWMol(full)
    for atom in sorted(full.GetAtoms(), key=lambda a: -a.GetIdx()):
        if atom.GetAtomicNum() == 1 and atom.GetNeighbors()[0].GetAtomicNum() == 6:
            editable.RemoveAtom(atom.GetIdx())
    mol = editable.GetMol()
    Chem.SanitizeMol(mol)
    return mol


@pytest.mark.parametrize("smiles", ["CCCC", "OCC(C)CO", "Cc1ccccc1CCN", "CC(=O)NCC(=O)O"])
def test_distances_are_those_of_rdkit(smiles):
    alike, (geometries, *_) = symmetry(Chem.MolFromSmiles(smiles)), embed(smiles, 0, 1, 5, seed=3)
    mol = reduced(smiles, geometries)
    for i, one in enumerate(geometries):
        for j, other in enumerate(geometries[:i]):
            expected = rdMolAlign.GetBestRMS(Chem.Mol(mol), Chem.Mol(mol), i, j)
            assert alike.distance(one.positions, other.positions) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("smiles", "permutations"),
    [("CC(=O)[O-]", 2), ("CC(=O)O", 1), ("CC=C", 1), ("c1ccccc1", 12), ("CC(C)(C)C", 24), ("C12C3C4C1C5C2C3C45", 48)],
    ids=["acetate", "acetic acid", "propene", "benzene", "neopentane", "cubane"],
)
def test_permutations_are_those_of_the_graph(smiles, permutations):
    alike = symmetry(Chem.MolFromSmiles(smiles))
    assert len(alike.permutations) == permutations and alike.complete
    assert np.array_equal(alike.permutations[0], np.arange(len(alike.atoms)))


def test_a_mirror_image_is_not_the_same():
    """Hydrogen peroxide, twisted by 112 degrees; flat, it is its own mirror image."""
    alike = symmetry(Chem.MolFromSmiles("OO"))
    twist = np.radians(112.0)
    twisted = np.array([[0, 0, 0], [1.45, 0, 0], [-0.1, 0.96, 0], [1.55, 0.96 * np.cos(twist), 0.96 * np.sin(twist)]])
    assert alike.distance(twisted, twisted * [1, 1, -1]) > 0.5
    flat = twisted * [1, 1, 0]
    assert alike.distance(flat, flat * [1, 1, -1]) < 1e-6


def test_copies_are_permutations_over_the_rotational_symmetry_number():
    """Benzene: 12 permutations, symmetry number 12. Water counts its hydrogens: 2 and 2."""
    for smiles, copies in (("c1ccccc1", 1), ("O", 1), ("CO", 1)):
        (geometry, *_), *_ = embed(smiles, 0, 1, 1, seed=1)
        assert symmetry(Chem.MolFromSmiles(smiles)).copies(geometry.positions, 0.1) == copies
