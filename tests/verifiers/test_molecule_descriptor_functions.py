"""The descriptors are RDKit's own numbers, however they are computed."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import QED, Descriptors, Lipinski

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import properties
from sciagent_verifiers.fast.molecule_descriptor_functions import descriptor_functions

MOLECULES = (
    "CC(=O)Oc1ccccc1C(=O)O", "[H][H]", "[2H]C([2H])O", "C[Si](C)(C)C", "[NH3+]CC(=O)[O-]", "C" * 60, "I",
    "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CC[C@@H](O)C[C@@H](O)CC(=O)O",
    "CN1CCC23C4C1CC5=C2C(=C(C=C5)O)OC3C(C=C4)O", "O=[N+]([O-])c1ccc(N=Nc2ccc(O)cc2)cc1", "c1ccc2c(c1)Sc1ccccc1N2",
    "N=C(CCSCc1csc(N=C(N)N)n1)NS(N)(=O)=O", "[CH3]", "F[B-](F)(F)F", "C1CC1C#N", "O=S(=O)(c1ccccc1)N1CCOCC1",
)  # fmt: skip
THEIRS = {
    "molecular_weight": Descriptors.MolWt,
    "logp": Descriptors.MolLogP,
    "tpsa": Descriptors.TPSA,
    "qed": QED.qed,
    "hydrogen_bond_donors": Lipinski.NHOHCount,
    "hydrogen_bond_acceptors": Lipinski.NOCount,
    "rotatable_bonds": Lipinski.NumRotatableBonds,
    "rings": Lipinski.RingCount,
    "aromatic_rings": Lipinski.NumAromaticRings,
    "fraction_sp3": Lipinski.FractionCSP3,
    "heavy_atoms": Lipinski.HeavyAtomCount,
    "stereocentres": Lipinski.NumAtomStereoCenters,
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_number_is_the_one_of_rdkit_s_public_function(name: str, smiles: str) -> None:
    molecule = parse_molecule(smiles)
    for function in descriptor_functions().values():  # in any order, on one shared molecule
        function(molecule.mol)
    ours, theirs = descriptor_functions()[name](molecule.mol), THEIRS[name](Chem.MolFromSmiles(molecule.smiles))
    assert ours == theirs


def test_every_descriptor_is_a_registered_property() -> None:
    assert set(descriptor_functions()) <= set(properties())


@pytest.mark.parametrize(
    ("smiles", "published"),
    [  # the examples of the authors, as RDKit documents them
        ("N=C(CCSCc1csc(N=C(N)N)n1)NS(N)(=O)=O", 0.253),
        ("CNC(=NCCSCc1nc[nH]c1C)NC#N", 0.234),
        ("CCCCCNC(=N)NN=Cc1c[nH]c2ccc(CO)cc12", 0.234),
    ],
)
def test_qed_of_the_published_examples(smiles: str, published: float) -> None:
    assert descriptor_functions()["qed"](parse_molecule(smiles).mol) == pytest.approx(published, abs=1e-3)
