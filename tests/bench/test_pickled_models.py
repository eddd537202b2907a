"""Models are read as scikit-learn evaluates them, and a pickle that names anything else is refused."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from sciagent.errors import UsageError
from sciagent_bench.pmo.pickled_models import BITS, RandomForest, SupportVectors, ecfp4_bits, fcfp6_counts, restored

DRUGS = ("O=C(CCCN1CCC(O)(c2ccc(Cl)cc2)CC1)c1ccc(F)cc1", "CN1CCN(C2=Nc3cc(Cl)ccc3Nc3ccccc32)CC1", "CC(=O)O")


class Command:
    """An object whose pickle runs a command when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch never",)


def pickled(model: object) -> bytes:
    """Returns a pickle that restores arrays as those of old versions do."""
    return pickle.dumps(model, protocol=3)


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.02, (120, BITS)).astype(float)
    labels = (counts[:, :40].sum(axis=1) + rng.normal(0, 0.3, 120) > 0.8).astype(int)
    return counts, labels


def test_a_forest_gives_the_probabilities_of_scikit_learn(data: tuple[np.ndarray, np.ndarray]) -> None:
    bits = (data[0] > 0).astype(float)
    forest = RandomForestClassifier(n_estimators=20, random_state=1).fit(bits[:80], data[1][:80])
    own = RandomForest(pickled(forest))
    expected = forest.predict_proba(bits)[:, 1]
    assert expected.std() > 0.1
    assert [own.probability_of_bits(row) for row in bits] == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:The `probability` parameter")
def test_support_vectors_give_the_probabilities_of_scikit_learn_with_the_coupling_of_libsvm(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    counts, labels = data
    machine = SVC(kernel="rbf", gamma=1 / 64, C=128, probability=True, random_state=1).fit(counts[:80], labels[:80])
    own = SupportVectors(pickled(machine))
    expected = machine.predict_proba(counts)[:, 1]
    assert expected.min() < 0.05 and expected.max() > 0.6
    assert [own.probability_of_counts(row) for row in counts] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("content", [pickle.dumps(Command()), pickle.dumps([Command()], protocol=0)])
def test_a_pickle_with_a_command_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"it names (posix|os)\.system, which is refused"):
        restored(content)


@pytest.mark.parametrize(
    ("module", "name"), [("builtins", "eval"), ("numpy", "load"), ("sklearn.externals", "joblib"), ("pickle", "loads")]
)
def test_every_other_name_is_refused(module: str, name: str) -> None:
    content = f"c{module}\n{name}\n.".encode()
    with pytest.raises(UsageError, match=f"it names {module}.{name}, which is refused"):
        restored(content)


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2])])
def test_what_is_no_model_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="the model cannot be read"):
        restored(content)


def test_the_fingerprints_are_those_of_tdc() -> None:
    for smiles in DRUGS:
        mol = Chem.MolFromSmiles(smiles)
        bits = AllChem.GetMorganFingerprintAsBitVect(mol, 2, nBits=BITS)
        assert ecfp4_bits(mol).tolist() == list(bits)
        counts = np.zeros(BITS)
        features = AllChem.GetMorganFingerprint(mol, 3, useCounts=True, useFeatures=True)
        for feature, count in features.GetNonzeroElements().items():
            counts[feature % BITS] += count
        assert fcfp6_counts(mol).tolist() == counts.tolist()
