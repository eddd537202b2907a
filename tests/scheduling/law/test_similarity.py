"""Likeness of molecules is RDKit's, and likeness of compositions is what they share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from rdkit.Chem import MolFromSmiles
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from rdkit.DataStructs import TanimotoSimilarity, ULongSparseIntVect
from scipy.sparse import csr_matrix

from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.scheduling.law.similarity import MAX_COUNT, WIDTH, GrowingStructures, GrowingTanimoto
from sciagent_bench.candidate_similarity import Overlap, of_identifiers

Array = NDArray[np.float64]

SMILES = [
    "CCO", "CCN", "c1ccccc1", "Cc1ccccc1", "c1ccc2ccccc2c1", "CC(=O)Oc1ccccc1C(=O)O", "O=C1c2ccccc2C(=O)N1",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "C1CCOC1", "FC(F)(F)c1ccncc1", "c1ccsc1", "N#Cc1ccc(N)cc1", "CCO",
]  # fmt: skip
EVERYONE = np.arange(len(SMILES))


def fingerprints(radius: int = 2) -> list[ULongSparseIntVect]:
    generator = GetMorganGenerator(radius=radius)
    return [generator.GetSparseCountFingerprint(MolFromSmiles(text)) for text in SMILES]


def counts_of(found: list[ULongSparseIntVect]) -> csr_matrix:
    elements = [print_.GetNonzeroElements() for print_ in found]
    column = {bit: place for place, bit in enumerate(sorted({bit for each in elements for bit in each}))}
    counts = np.zeros((len(found), len(column)), dtype=np.int64)
    for row, each in enumerate(elements):
        for bit, count in each.items():
            counts[row, column[bit]] = count
    return csr_matrix(counts)


def tanimoto_of(counts: csr_matrix) -> GrowingTanimoto:
    likeness = GrowingTanimoto()
    likeness.add([dict(enumerate(row)) for row in counts.toarray().tolist()])
    return likeness


def test_the_likeness_of_molecules_is_that_of_rdkit() -> None:
    prints = fingerprints()
    counts = counts_of(prints)
    assert counts.max() <= MAX_COUNT
    expected = [[TanimotoSimilarity(a, b) for b in prints] for a in prints]
    assert tanimoto_of(counts).between(EVERYONE, EVERYONE) == pytest.approx(np.array(expected), abs=1e-12)


def test_the_likeness_of_molecules_is_positive_semi_definite() -> None:
    found = tanimoto_of(counts_of(fingerprints())).between(EVERYONE, EVERYONE)
    assert np.array_equal(found, found.T)
    assert np.diag(found).tolist() == [1.0] * len(SMILES)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_counts_at_random_are_compared_by_minima_and_maxima() -> None:
    counts = np.random.default_rng(0).poisson(1.0, (60, 20))
    assert counts.max() <= MAX_COUNT
    less, more = np.minimum(counts[:, None], counts[None, :]).sum(2), np.maximum(counts[:, None], counts).sum(2)
    found = tanimoto_of(csr_matrix(counts)).between(np.arange(60), np.arange(60))
    assert found == pytest.approx(less / more, abs=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_only_those_asked_for_are_compared_in_the_order_asked() -> None:
    likeness = tanimoto_of(counts_of(fingerprints()))
    one, other = np.array([3, 0, 3]), np.array([12, 5])
    assert np.array_equal(likeness.between(one, other), likeness.between(EVERYONE, EVERYONE)[np.ix_(one, other)])
    assert likeness.between(np.array([0]), np.array([12])).tolist() == [[1.0]]  # the same molecule twice


def test_a_feature_that_occurs_very_often_counts_as_eight() -> None:
    likeness = tanimoto_of(csr_matrix(np.array([[20, 0], [MAX_COUNT, 0], [4, 0]])))
    assert likeness.between(np.array([0]), np.array([1, 2])).tolist() == [[1.0, 0.5]]


def test_a_molecule_without_features_is_like_none() -> None:
    likeness = tanimoto_of(csr_matrix(np.array([[0, 0], [1, 2]])))
    assert likeness.between(np.array([0, 1]), np.array([0, 1])).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert tanimoto_of(csr_matrix((3, 5), dtype=np.int64)).between(np.arange(3), np.arange(2)).max() == 0.0


def compositions() -> Array:
    rng = np.random.default_rng(0)
    parts = rng.poisson(0.8, (25, 6)) + np.eye(6)[rng.integers(6, size=25)]
    fractions: Array = parts / parts.sum(1, keepdims=True)
    return np.hstack([fractions, np.zeros((25, 1))])  # an element that none contains


def test_the_likeness_of_compositions_is_the_sum_of_minima() -> None:
    fractions = compositions()
    one, other = np.array([3, 0, 3]), np.arange(25)
    expected = [[sum(min(a, b) for a, b in zip(fractions[i], fractions[j], strict=True)) for j in other] for i in one]
    assert Overlap(fractions).between(one, other) == pytest.approx(np.array(expected), abs=1e-12)


def test_the_likeness_of_compositions_is_positive_semi_definite_and_1_of_one_with_itself() -> None:
    found = Overlap(compositions()).between(np.arange(25), np.arange(25))
    assert np.diag(found) == pytest.approx(1.0)
    assert found.max() <= 1 + 1e-12
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_compositions_without_a_common_element_are_unlike() -> None:
    assert Overlap(np.eye(3)).between(np.array([0]), np.arange(3)).tolist() == [[1.0, 0.0, 0.0]]


# Molecules that arrive one after another

ARRIVING = ["CCO", "c1ccccc1", "C=CC=CC=C", "CC(=O)N", "O=C1C=CC(=O)C=C1", "CCCCCCCC", "c1ccncc1", "C"]


def test_it_grows_to_what_the_whole_is() -> None:
    grown, places = GrowingStructures(), np.arange(len(ARRIVING))
    for start in (0, 3, 4):
        grown.add([structure_of(s) for s in ARRIVING[start : {0: 3, 3: 4, 4: 8}[start]]])
    assert len(grown) == len(ARRIVING)
    assert grown.between(places, places) == pytest.approx(of_identifiers(ARRIVING).between(places, places), abs=1e-6)


def test_what_has_no_structure_is_unlike_all_others() -> None:
    grown = GrowingStructures()
    grown.add([None])
    grown.add([structure_of("CCO"), None, structure_of("CCN")])
    found = grown.between(np.arange(4), np.arange(4))
    assert not found[[0, 2]].any() and not found[:, [0, 2]].any()
    assert found[1, 1] == pytest.approx(1) and 0 < found[1, 3] < 1


def test_nothing_but_strangers_has_no_likeness() -> None:
    grown = GrowingStructures()
    grown.add([None, None])
    assert not grown.between(np.arange(2), np.arange(2)).any()


def test_features_that_fold_onto_one_count_together() -> None:
    folded, single = GrowingTanimoto(), GrowingTanimoto()
    folded.add([{5: 1, 5 + WIDTH: 2}, {5: 1}, {7: 4}])
    single.add([{5: 3}, {5: 1}, {7: 4}])
    places = np.arange(3)
    found = folded.between(places, places)
    assert found.tolist() == single.between(places, places).tolist() == [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]]
