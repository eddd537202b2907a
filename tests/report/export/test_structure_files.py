"""SD files of a campaign, read back by RDKit: geometries where there are some, and texts that cannot end an entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.chemistry.isomers_and_tautomers import cxsmiles
from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.molecule_files import read_structures
from sciagent.errors import UsageError
from sciagent.report.export.structure_files import one_line, placed, write_sdf
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.reported import PBE0, SMILES, Maker, gap, xyz


def test_sdf_has_the_geometry_where_there_is_one(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "a.sdf"
    with told.ledger.read() as connection, path.open("w", encoding="utf-8") as file:
        counts = write_sdf(connection, told.row, told.ledger.artifacts, file)
    mols = list(Chem.SDMolSupplier(str(path), removeHs=False))
    assert counts == (12, 6) and len(mols) == 12 and all(mols)
    assert [m.GetConformer().Is3D() for m in mols] == [True] * 6 + [False] * 6
    assert [Chem.MolToSmiles(Chem.RemoveHs(m)) for m in mols] == [Chem.CanonSmiles(s) for s in SMILES]
    paracetamol = mols[2]
    stored = (told.folder / "2-1.xyz").read_text().splitlines()[2].split()
    assert list(paracetamol.GetConformer().GetAtomPosition(0)) == pytest.approx(
        [float(x) for x in stored[1:]], abs=1e-4
    )
    assert float(paracetamol.GetProp("r2.homo_lumo_gap [eV]")) == 4.1
    assert paracetamol.GetProp("r2.homo_lumo_gap level").startswith("PBE0/def2-SVP")
    assert float(paracetamol.GetProp("r2.homo_lumo_gap uncertainty [eV]")) == 0.03
    assert mols[11].GetProp("reason") == "element" and mols[11].GetProp("geometry") == "2D"


def test_a_text_cannot_end_an_sd_entry() -> None:
    assert "\n" not in one_line("a\n\n$$$$\nb") and "$$$$" not in one_line("a\n\n$$$$\nb")


def test_sdf_of_crystals_is_refused(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path, subject="crystal")
    with made.ledger.read() as connection, (tmp_path / "a.sdf").open("w") as file, pytest.raises(UsageError):
        write_sdf(connection, made.row, made.ledger.artifacts, file)


@pytest.mark.parametrize("smiles", ["CC(=O)Nc1ccc(O)cc1", "C#N", "[NH3+]CC(=O)[O-]", "C/C=C/C"])
def test_bonds_are_put_on_a_geometry_of_the_molecule(smiles: str) -> None:
    molecule = parse_molecule(smiles)
    mol = placed(molecule, xyz(molecule.smiles))
    assert mol is not None and mol.GetConformer().Is3D()
    assert Chem.MolToSmiles(Chem.RemoveHs(mol)) == molecule.smiles


def test_a_geometry_of_something_else_is_refused() -> None:
    molecule = parse_molecule("CCO")
    lines = xyz("CCO").splitlines()
    assert placed(molecule, xyz("CCN")) is None  # other elements
    assert placed(molecule, xyz("COC")) is None  # the same elements, otherwise bonded
    assert placed(molecule, "\n".join(lines[:-1])) is None  # an atom short
    assert placed(molecule, "") is None and placed(molecule, "3\n\nC x y z") is None
    far = lines[:]
    far[2] = "C 9.0 9.0 9.0"
    assert placed(molecule, "\n".join(far)) is None


def test_no_stereo_is_written_that_was_not_stated(own_ledger: Ledger, tmp_path: Path) -> None:
    """A geometry has a configuration at every centre; a molecule whose text leaves it open has none in the file."""
    made = Maker(own_ledger, tmp_path)
    smiles = ("CC=CC#N", "CCC(C)O", "C[C@H](F)[C@H](Cl)Br", "C/C=C/C")
    mixture = "C[C@H](F)[C@H](Cl)Br |&1:1,3|"
    made.enter(smiles[:2])
    made.enter(smiles[2:3], text=mixture)  # as it was proposed
    made.enter(smiles[3:])
    with own_ledger.begin() as connection:
        note = {"id": "rac", "standardised": "a mixture of stereoisomers (&1), taken as drawn"}
        candidates.enter_names(connection, made.row.id, [(made.ids[2], note)])
    for place in range(len(smiles)):
        made.answer(place, 2, gap(4.0, PBE0), geometry=True)
    path = tmp_path / "a.sdf"
    with own_ledger.read() as connection, path.open("w", encoding="utf-8") as file:
        assert write_sdf(connection, made.row, own_ledger.artifacts, file) == (4, 4)
    mols = list(Chem.SDMolSupplier(str(path)))
    assert all(mol.GetConformer().Is3D() for mol in mols)
    stated = [cxsmiles(mol) for mol in mols]
    assert stated == [Chem.CanonSmiles(smiles[0]), Chem.CanonSmiles(smiles[1]), mixture, Chem.CanonSmiles(smiles[3])]
    records = list(read_structures(path))
    assert [record.text for record in records] == stated, "read again, it is what it was"
