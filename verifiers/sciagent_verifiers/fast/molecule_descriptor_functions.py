"""Descriptors of the molecular graph by RDKit, by the name of their property.

Each is exact for its definition. RDKit caches shared intermediate results (Crippen contributions, polar surface) on the
molecule. QED therefore uses the same molecule instead of a copy; its value equals that of `rdkit.Chem.QED.qed`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sciagent.verification.verifier_contract import Outcome, Reason, SimulatorError


@cache
def descriptor_functions() -> dict[str, Callable[[Any], float]]:
    """Returns the function of each descriptor, {property name: function of an RDKit molecule}."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors as rd

    return {
        "molecular_weight": rd._CalcMolWt,
        "logp": lambda mol: rd.CalcCrippenDescriptors(mol)[0],
        "tpsa": rd.CalcTPSA,
        "qed": qed,
        "sa_score": sa_score,
        "heavy_atoms": lambda mol: mol.GetNumHeavyAtoms(),
        "net_charge": Chem.GetFormalCharge,
        "rings": rd.CalcNumRings,
        "rotatable_bonds": rd.CalcNumRotatableBonds,
        "hydrogen_bond_donors": rd.CalcNumLipinskiHBD,
        "hydrogen_bond_acceptors": rd.CalcNumLipinskiHBA,
        "aromatic_rings": rd.CalcNumAromaticRings,
        "largest_ring": lambda mol: max(map(len, mol.GetRingInfo().AtomRings()), default=0),
        "stereocentres": rd.CalcNumAtomStereoCenters,
        "fraction_sp3": rd.CalcFractionCSP3,
    }


def qed(mol: Any) -> float:
    """Returns the drug-likeness QED with mean weights, 0 to 1. mol: an RDKit molecule without explicit hydrogens.

    Source: Bickerton et al., Nature Chem. 4, 90 (2012), doi 10.1038/nchem.1243.
    """
    from rdkit import Chem
    from rdkit.Chem import QED
    from rdkit.Chem import rdMolDescriptors as rd

    rdkit_qed: Any = QED
    without_aliphatic_rings = Chem.DeleteSubstructs(Chem.Mol(mol), rdkit_qed.AliphaticRings)
    properties = rdkit_qed.QEDproperties(
        MW=rd._CalcMolWt(mol),
        ALOGP=rd.CalcCrippenDescriptors(mol)[0],
        HBA=sum(len(mol.GetSubstructMatches(pattern)) for pattern in rdkit_qed.Acceptors),
        HBD=rd.CalcNumHBD(mol),
        PSA=rd.CalcTPSA(mol),
        ROTB=rd.CalcNumRotatableBonds(mol, rd.NumRotatableBondsOptions.Strict),
        AROM=len(Chem.GetSSSR(without_aliphatic_rings)),
        ALERTS=sum(map(mol.HasSubstructMatch, rdkit_qed.StructuralAlerts)),
    )
    return float(rdkit_qed.qed(mol, qedProperties=properties))


def sa_score(mol: Any) -> float:
    """Returns the synthetic accessibility score, 1 (easy to make) to 10 (hard). mol: an RDKit molecule with atoms.

    Raises SimulatorError bad_environment (import_failed) where RDKit has no Contrib folder.
    Source: Ertl and Schuffenhauer, J. Cheminf. 1, 8 (2009), doi 10.1186/1758-2946-1-8.
    """
    return float(_scorer().calculateScore(mol))


@cache
def _scorer() -> ModuleType:
    """Returns RDKit's module of the SA score, which lies outside of its package."""
    from rdkit.Chem import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("sciagent_verifiers.fast._sascorer", path)
    if spec is None or spec.loader is None or not path.is_file():
        detail = "this RDKit has no Contrib/SA_Score/sascorer.py; install the rdkit wheel, or leave out sa_score"
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
