"""Molecules that arrive one after another are as alike as if all had been there from the start."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.chemistry.fingerprint import structure_of
from sciagent.scheduling.law.growing import WIDTH, GrowingStructures, GrowingTanimoto
from sciagent_bench.structure import of_identifiers

SMILES = ["CCO", "c1ccccc1", "C=CC=CC=C", "CC(=O)N", "O=C1C=CC(=O)C=C1", "CCCCCCCC", "c1ccncc1", "C"]


def test_it_grows_to_what_the_whole_is() -> None:
    grown, places = GrowingStructures(), np.arange(len(SMILES))
    for start in (0, 3, 4):
        grown.add([structure_of(s) for s in SMILES[start : {0: 3, 3: 4, 4: 8}[start]]])
    assert len(grown) == len(SMILES)
    assert grown.between(places, places) == pytest.approx(of_identifiers(SMILES).between(places, places), abs=1e-6)


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
