"""The loop a chemist who knows RDKit would write: parse, standardise, identify, refuse, describe, one by one.

The same work as sciagent's fast tier, by RDKit's public functions; only the list of standardising rules and the test
for impossible rings, which RDKit does not have, are sciagent's own.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import QED, Crippen, RDConfig, rdMolDescriptors
from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.rdinchi import MolToInchi

from sciagent.chemistry.molecule_normal_form import RULES
from sciagent_verifiers.fast.impossible_rings import impossible

ELEMENTS = frozenset({"H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I"})


def _scorer() -> Any:
    spec = importlib.util.spec_from_file_location("sascorer", Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PlainLoop:
    """catalogues: names of RDKit filter catalogues whose matches are refused, as `refuse_alerts` has them."""

    def __init__(self, catalogues: tuple[str, ...] = ()) -> None:
        self._silence = rdBase.BlockLogs()  # as long as it lives
        rules = "\n".join(f"{name}\t{smirks}" for name, smirks in RULES)
        self._normaliser = rdMolStandardize.NormalizerFromData(rules, rdMolStandardize.CleanupParameters())
        self._sa_score = _scorer().calculateScore
        self._catalogues = [self._catalogue(name) for name in catalogues]

    @staticmethod
    def _catalogue(name: str) -> Any:
        params = FilterCatalogParams()
        params.AddCatalog(getattr(FilterCatalogParams.FilterCatalogs, name))
        return FilterCatalog(params)

    def __call__(self, text: str) -> dict[str, Any]:
        """`refused` with a reason, or identity and descriptors."""
        mol = Chem.MolFromSmiles(text)
        if mol is None:
            return {"refused": "unparsable"}
        mol = Chem.RemoveHs(self._normaliser.normalize(mol))
        if len(Chem.GetMolFrags(mol)) > 1:
            return {"refused": "fragments"}
        smiles = Chem.MolToSmiles(mol)
        identity = MolToInchi(mol, "/FixedH /RecMet")[0]
        found = {"smiles": smiles, "identity": identity, "inchikey": Chem.MolToInchiKey(mol)}
        found["formula"] = rdMolDescriptors.CalcMolFormula(mol)
        if refused := self._refused(mol):
            return {**found, "refused": refused}
        found["molecular_weight"] = rdMolDescriptors._CalcMolWt(mol)
        found["logp"] = Crippen.MolLogP(mol)
        found["tpsa"] = rdMolDescriptors.CalcTPSA(mol)
        found["hydrogen_bond_donors"] = rdMolDescriptors.CalcNumLipinskiHBD(mol)
        found["hydrogen_bond_acceptors"] = rdMolDescriptors.CalcNumLipinskiHBA(mol)
        found["rotatable_bonds"] = rdMolDescriptors.CalcNumRotatableBonds(mol)
        found["rings"] = rdMolDescriptors.CalcNumRings(mol)
        found["aromatic_rings"] = rdMolDescriptors.CalcNumAromaticRings(mol)
        found["largest_ring"] = max(map(len, mol.GetRingInfo().AtomRings()), default=0)
        found["stereocentres"] = rdMolDescriptors.CalcNumAtomStereoCenters(mol)
        found["fraction_sp3"] = rdMolDescriptors.CalcFractionCSP3(mol)
        found["heavy_atoms"] = mol.GetNumHeavyAtoms()
        found["net_charge"] = Chem.GetFormalCharge(mol)
        found["qed"] = QED.qed(mol)
        found["sa_score"] = self._sa_score(mol)
        return found

    def _refused(self, mol: Any) -> str | None:
        if not 1 <= mol.GetNumHeavyAtoms() <= 100:
            return "size"
        if Chem.GetFormalCharge(mol):
            return "charge"
        for atom in mol.GetAtoms():
            if atom.GetSymbol() not in ELEMENTS:
                return "element"
            if atom.GetNumRadicalElectrons():
                return "radical"
            if atom.GetIsotope():
                return "isotope"
        if impossible(mol):
            return "ring"
        for catalogue in self._catalogues:
            if catalogue.HasMatch(mol):
                return "alert"
        return None
