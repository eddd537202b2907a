"""Cases of replays: arrivals in another order, with the similarity that belongs to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent_bench.case_from_csv import TableRung, read_case
from sciagent_bench.replay_cases import Case, OfTable

TEXT = """smiles,cheap,gap,kind,size
CCO,1.0,5.0,a,1
CCN,2.0,3.0,a,2
CCC,,4.0,b,3
c1ccccc1,4.0,nan,b,4
CCCC,5.0,1.0,b,5
"""


RUNGS = (TableRung("cheap", 1.0), TableRung("gap", 100.0))


ALL = np.arange(5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def read(path: Path, text: str | None = None, **more: object) -> Case:
    if text is not None:
        path.write_text(text, encoding="utf-8")
    asked = {"rungs": RUNGS, "goal": "max", "top": 0.25} | more
    return read_case(path, **asked)  # type: ignore[arg-type]


def test_a_seed_shuffles_the_arrivals_and_similarity_follows(file: Path) -> None:
    case = read(file, identifier="smiles")
    one, again, other = OfTable(case)(1), OfTable(case)(1), OfTable(case)(3)
    np.testing.assert_array_equal(one.truth.scores, again.truth.scores)
    assert not np.array_equal(one.truth.scores, other.truth.scores, equal_nan=True)
    assert one.threshold == case.threshold
    assert case.similarity is not None and one.similarity is not None
    benzene, propane = (int(np.flatnonzero(f(one.truth.scores))[0]) for f in (_benzene, _propane))
    butane = int(np.flatnonzero(one.truth.scores[:, 1] == 1)[0])
    found = one.similarity.between(ALL, ALL)
    assert found[propane, benzene] < 0.1 < 0.5 < found[propane, butane]


def _benzene(scores: np.ndarray) -> np.ndarray:
    return np.isnan(scores[:, 1])


def _propane(scores: np.ndarray) -> np.ndarray:
    return np.isnan(scores[:, 0])
