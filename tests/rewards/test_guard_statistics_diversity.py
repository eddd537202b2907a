from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from sciagent.rewards.guard_statistics import Array, distinct_scaffolds, nearest_distances
from tests.support.subjects import MOLECULES


def test_scaffolds_are_counted_as_if_all_policies_had_proposed_as_many() -> None:
    scaffolds = ["a"] * 30 + ["b"] * 15 + ["c"] * 4 + ["d"]
    rng = random.Random(5)
    drawn = np.mean([len(set(rng.sample(scaffolds, 10))) for _ in range(20_000)])
    assert distinct_scaffolds(Counter(scaffolds).values(), 10) == pytest.approx(drawn, abs=0.02)
    assert distinct_scaffolds(Counter(scaffolds).values(), 50) == pytest.approx(4)
    assert distinct_scaffolds([1, 1], 3) is None
    assert distinct_scaffolds([], 0) is None


def distances(*smiles: str) -> Array:
    return nearest_distances(MOLECULES, [*map(MOLECULES.features, smiles)])


def test_the_nearest_molecule_of_a_group_counts() -> None:
    alike, apart = distances("CCO", "CCO", "c1ccccc1"), distances("CCO", "c1ccccc1")
    assert alike[:2].tolist() == [0, 0], "two siblings with one molecule"
    assert 0.5 < alike[2] <= 1
    assert apart[0] == apart[1] > 0.5
    assert distances("CCO").shape == (0,)
