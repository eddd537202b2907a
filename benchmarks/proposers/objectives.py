"""Eight goal-directed objectives of GuacaMol, from the formulas of the paper; each maps a SMILES to [0, 1].

Five are reported (REPORTED); the other three are what the search was tuned on (TUNED_ON), so that no reported one
was. Fingerprints are unfolded Morgan counts with Tanimoto on counts: ECFP4 has radius 2, ECFP6 radius 3, FCFP4
radius 2 on pharmacophoric features; AP are atom-pair counts up to distance 10. Several terms combine by their
geometric mean.

Source: Brown, Fiscato, Segler, Vaucher, J. Chem. Inf. Model. 59, 1096 (2019), section 3.2 and its tables. Checked
against scores from that paper's own package (guacamol 0.5.5) in tests/benchmarks. Plain RDKit: the peer's environment
runs the same file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rdkit import Chem
from rdkit.Chem import QED, Crippen, rdFingerprintGenerator, rdMolDescriptors
from rdkit.DataStructs import TanimotoSimilarity

Term = Callable[[Any], float]

_FEATURES = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
_FINGERPRINTS = {
    "ECFP4": rdFingerprintGenerator.GetMorganGenerator(radius=2),
    "ECFP6": rdFingerprintGenerator.GetMorganGenerator(radius=3),
    "FCFP4": rdFingerprintGenerator.GetMorganGenerator(radius=2, atomInvariantsGenerator=_FEATURES),
    "AP": rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=10),
}


def gaussian(x: float, mu: float, sigma: float) -> float:
    return math.exp(-0.5 * ((x - mu) / sigma) ** 2)


def similar(smiles: str, kind: str, *, up_to: float = 1.0) -> Term:
    """Tanimoto similarity to the molecule, divided by `up_to` and cut at 1."""
    make = _FINGERPRINTS[kind].GetSparseCountFingerprint
    target = make(Chem.MolFromSmiles(smiles))
    return lambda mol: min(TanimotoSimilarity(make(mol), target) / up_to, 1.0)


def around(value: Term, mu: float, sigma: float) -> Term:
    return lambda mol: gaussian(value(mol), mu, sigma)


def below(value: Term, mu: float, sigma: float) -> Term:
    """1 up to mu, a falling Gaussian above it."""
    return lambda mol: gaussian(max(value(mol), mu), mu, sigma)


def above(value: Term, mu: float, sigma: float) -> Term:
    """1 from mu on, a falling Gaussian below it."""
    return lambda mol: gaussian(min(value(mol), mu), mu, sigma)


def mean(*terms: Term) -> Term:
    """Geometric mean."""
    return lambda mol: math.prod(term(mol) for term in terms) ** (1 / len(terms))


def formula(counts: dict[str, int]) -> Term:
    """Geometric mean of Gaussians of each element's count (sigma 1) and of the number of atoms (sigma 2)."""
    total = sum(counts.values())

    def score(mol: Any) -> float:
        symbols = [atom.GetSymbol() for atom in Chem.AddHs(mol).GetAtoms()]
        scores = [gaussian(symbols.count(element), n, 1.0) for element, n in counts.items()]
        return math.prod([*scores, gaussian(len(symbols), total, 2.0)]) ** (1 / (len(scores) + 1))

    return score


_PERINDOPRIL = "O=C(OCC)C(NC(C(=O)N1C(C(=O)O)CC2CCCCC12)C)CCC"
_AMLODIPINE = r"Clc1ccccc1C2C(=C(/N/C(=C2/C(=O)OCC)COCCN)C)\C(=O)OC"
_ZALEPLON = "O=C(C)N(CC)C1=CC=CC(C2=CC=NC3=C(C=NN23)C#N)=C1"
_OSIMERTINIB = "COc1cc(N(C)CCN(C)C)c(NC(=O)C=C)cc1Nc2nccc(n2)c3cn(C)c4ccccc34"
_FEXOFENADINE = "CC(C)(C(=O)O)c1ccc(cc1)C(O)CCCN2CCC(CC2)C(O)(c3ccccc3)c4ccccc4"
_CAMPHOR = "CC1(C)C2CCC1(C)C(=O)C2"
_MENTHOL = "CC(C)C1CCC(C)CC1O"
_TADALAFIL = "O=C1N(CC(N2C1CC3=C(C2C4=CC5=C(OCO5)C=C4)NC6=C3C=CC=C6)=O)C"
_SILDENAFIL = "CCCC1=NN(C2=C1N=C(NC2=O)C3=C(C=CC(=C3)S(=O)(=O)N4CCN(CC4)C)OCC)C"


def _logp(mol: Any) -> float:
    return float(Crippen.MolLogP(mol))


def _tpsa(mol: Any) -> float:
    return float(rdMolDescriptors.CalcTPSA(mol))


_TERMS: dict[str, Term] = {
    "perindopril_mpo": mean(
        similar(_PERINDOPRIL, "ECFP4"), around(rdMolDescriptors.CalcNumAromaticRings, mu=2, sigma=0.5)
    ),
    "median1": mean(similar(_MENTHOL, "ECFP4"), similar(_CAMPHOR, "ECFP4")),
    "zaleplon_mpo": mean(similar(_ZALEPLON, "ECFP4"), formula({"C": 19, "H": 17, "N": 3, "O": 2})),
    "osimertinib_mpo": mean(
        similar(_OSIMERTINIB, "FCFP4", up_to=0.8),
        below(similar(_OSIMERTINIB, "ECFP6"), mu=0.85, sigma=0.1),
        above(_tpsa, mu=100, sigma=10),
        below(_logp, mu=1, sigma=1),
    ),
    "qed": QED.qed,
    "amlodipine_mpo": mean(similar(_AMLODIPINE, "ECFP4"), around(rdMolDescriptors.CalcNumRings, mu=3, sigma=0.5)),
    "median2": mean(similar(_TADALAFIL, "ECFP6"), similar(_SILDENAFIL, "ECFP6")),
    "fexofenadine_mpo": mean(
        similar(_FEXOFENADINE, "AP", up_to=0.8), above(_tpsa, mu=90, sigma=10), below(_logp, mu=4, sigma=1)
    ),
}
REPORTED = ("perindopril_mpo", "median1", "zaleplon_mpo", "osimertinib_mpo", "qed")
TUNED_ON = ("amlodipine_mpo", "median2", "fexofenadine_mpo")


def objective(name: str) -> Callable[[str], float]:
    """The objective as a function of SMILES; what cannot be read scores 0. Raises KeyError for a name that is none."""
    term = _TERMS[name]

    def score(smiles: str) -> float:
        mol = Chem.MolFromSmiles(smiles)
        return 0.0 if mol is None or mol.GetNumAtoms() == 0 else float(term(mol))

    return score
