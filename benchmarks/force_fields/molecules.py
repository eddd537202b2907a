"""The molecules on which force fields are compared, with distorted geometries and made-up charges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOLECULES = {
    "alkane": "CCC(C)C",
    "cycloalkane": "C1CCC1C",
    "cyclopropane": "CC1CC1",
    "alkene": "C/C=C/C",
    "alkyne": "CC#CC",
    "allene": "CC=C=C",
    "alcohol": "CCO",
    "diol": "OCCO",
    "phenol": "Oc1ccccc1",
    "ether": "COCC",
    "cyclic ether": "C1CCOC1",
    "epoxide": "CC1CO1",
    "ketone": "CC(=O)CC",
    "aldehyde": "CC=O",
    "ester": "CC(=O)OCC",
    "carboxylic acid": "CC(=O)O",
    "acetate": "CC(=O)[O-]",
    "amide": "CC(=O)NC",
    "lactam": "O=C1CCCN1C",
    "amine": "CCN(C)C",
    "ammonium": "C[NH2+]C",
    "aniline": "Nc1ccccc1",
    "nitrile": "CC#N",
    "nitro": "Cc1ccc(cc1)[N+](=O)[O-]",
    "azo": "c1ccccc1/N=N/c1ccccc1",
    "azide": "CCN=[N+]=[N-]",
    "hydrazone": "CC=NNC",
    "thiol": "CCS",
    "sulfide": "CSC",
    "disulfide": "CSSC",
    "sulfoxide": "CS(=O)C",
    "sulfone": "CS(=O)(=O)C",
    "sulfonamide": "CS(=O)(=O)Nc1ccccc1",
    "thioamide": "CC(=S)N",
    "phosphate ester": "COP(=O)(OC)OC",
    "fluoride": "FC(F)C",
    "chloride": "ClCCl",
    "bromide": "CCBr",
    "iodide": "CI",
    "fused aromatic": "c1ccc2ccccc2c1",
    "azulene": "c1ccc2cccc2cc1",
    "azole": "Cn1ccnc1",
    "tetrazole": "Cn1cnnn1",
    "pyridine": "c1ccncc1C",
    "pyridine oxide": "C[n+]1ccccc1[O-]",
    "thiophene": "c1ccsc1Cl",
    "furan": "c1ccoc1",
    "xanthine": "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "alanine zwitterion": "C[C@H]([NH3+])C(=O)[O-]",
}
"""{kind of molecule: SMILES}."""
SEED = 7  # of the geometries, their distortions and the charges
DISTORTION = 0.05  # angstrom, standard deviation of each coordinate


@dataclass(frozen=True)
class ComparedMolecule:
    """A molecule at a geometry that is no minimum, so that every term has an energy."""

    kind: str
    mapped_smiles: str
    """With all hydrogens, and the number of each atom, from 1, as its map number."""
    positions: list[list[float]]
    """n x 3, angstrom."""
    charges: list[float]
    """n, elementary charges; random numbers that add up to the formal charge."""


def compared_molecule(kind: str) -> ComparedMolecule:
    """Returns one of the molecules. Raises ValueError if it cannot be embedded."""
    import numpy as np
    from rdkit import Chem
    from rdkit.Chem import AllChem

    molecule = Chem.AddHs(Chem.MolFromSmiles(MOLECULES[kind]))
    if AllChem.EmbedMolecule(molecule, randomSeed=SEED):
        raise ValueError(f"{kind}: no geometry")
    random = np.random.default_rng(SEED)
    n = molecule.GetNumAtoms()
    places = molecule.GetConformer().GetPositions() + random.normal(0, DISTORTION, (n, 3))
    charges = np.round(random.normal(0, 0.2, n), 4)
    charges[0] = np.round(charges[0] + Chem.GetFormalCharge(molecule) - charges.sum(), 4)
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    smiles = Chem.MolToSmiles(molecule)
    return ComparedMolecule(kind, smiles, np.round(places, 4).tolist(), charges.tolist())


def mapped_molecule(mapped_smiles: str) -> Any:
    """Returns the RDKit molecule whose atoms have the order of their map numbers, which are then removed."""
    from rdkit import Chem

    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    molecule = Chem.MolFromSmiles(mapped_smiles, parameters)
    order = sorted(range(molecule.GetNumAtoms()), key=lambda atom: molecule.GetAtomWithIdx(atom).GetAtomMapNum())
    molecule = Chem.RenumberAtoms(molecule, order)
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(0)
    return molecule
