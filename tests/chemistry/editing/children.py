"""Canonical SMILES and rings of the children of an edit."""

from __future__ import annotations

from rdkit import Chem


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))


def rings_of(smiles: str) -> list[set[int]]:
    mol = Chem.MolFromSmiles(smiles)  # ring information does not outlive its molecule
    return [set(ring) for ring in mol.GetRingInfo().AtomRings()]
