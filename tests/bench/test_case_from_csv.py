"""A table becomes a case, and what is wrong with it is said with file, line and column."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent_bench.case_from_csv import TableRung, parse_rungs, read_case
from sciagent_bench.replay_cases import Case
from sciagent_bench.rungs_of_same_property_and_good_ends import KnownRungs

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


def test_rungs_are_columns_with_their_costs(file: Path) -> None:
    case = read(file)
    np.testing.assert_array_equal(case.truth.scores[:, 0], [1, 2, np.nan, 4, 5])
    assert case.truth.costs.tolist() == [[1.0, 100.0]] * 5
    assert case.truth.exhaustive == 500, "an empty cell costs its price"
    assert case.similarity is None


def test_the_threshold_lies_between_the_last_hit_and_the_rest_in_its_own_unit(file: Path) -> None:
    high, low = read(file), read(file, goal="min")
    assert (high.sign, high.threshold, high.truth.hit.tolist()) == (1, 4.5, [True] + [False] * 4)
    assert (low.sign, low.threshold, low.truth.hit.tolist()) == (-1, 2.0, [False] * 4 + [True])


def test_an_empty_truth_is_never_a_hit(file: Path) -> None:
    assert not read(file, top=0.6).truth.hit[3]
    assert not read(file, goal="min", top=0.6).truth.hit[3]


def test_answers_as_good_as_the_last_hit_are_hits(tmp_path: Path) -> None:
    case = read(tmp_path / "t.csv", "gap\n1\n1\n1\n-1\n-1\n", rungs=(TableRung("gap", 1.0),), top=0.3)
    assert case.truth.hit.tolist() == [True, True, True, False, False]
    assert case.threshold == 0


def test_a_gzipped_table_reads_the_same(file: Path) -> None:
    packed = file.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    np.testing.assert_array_equal(read(packed).truth.scores, read(file).truth.scores)


def test_smiles_are_alike_by_their_fingerprints_and_traits(file: Path) -> None:
    case = read(file, identifier="smiles")
    assert case.similarity is not None
    found = case.similarity.between(ALL, ALL)
    assert np.diag(found) == pytest.approx(1)
    assert found[2, 4] > 0.5 > 0.1 > found[2, 3] > 0, "propane is like butane, not like benzene"


def test_formulas_are_alike_by_their_compositions(tmp_path: Path) -> None:
    text = "id,cheap,gap\nBaTiO3,1,1\nSrTiO3,2,2\nCsPbI3,3,3\nBa0.5Sr0.5TiO3,4,4\n"
    case = read(tmp_path / "t.csv", text, identifier="id")
    assert case.similarity is not None
    found = case.similarity.between(np.arange(4), np.arange(4))
    assert found[0] == pytest.approx([1, 0.8, 0, 0.9])


def test_features_are_numbers_or_labels(file: Path) -> None:
    def alike(*features: str) -> np.ndarray:
        similarity = read(file, identifier="smiles", features=features).similarity
        assert similarity is not None
        return similarity.between(ALL, ALL)

    labels, numbers, both = alike("kind"), alike("size"), alike("kind", "size")
    assert labels[0].tolist() == [1, 1, 0, 0, 0]
    assert numbers[0] == pytest.approx(np.exp(-(np.arange(5.0) ** 2) / (2 * 2.0)))  # variance of 1..5: 2
    assert both == pytest.approx((labels + numbers) / 2)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("", {}, r"t.csv:1:1: no rows"),
        ("cheap,gap\n", {}, r"t.csv:1:1: no rows"),
        ("cheap,gap,gap\n1,2,3\n", {}, r"t.csv:1:1: two columns have the same name"),
        ("cheap,gip\n1,2\n", {}, r't.csv:1:1: no column "gap"; did you mean "gip"\?'),
        ("cheap,gap\n1,2\n\n1,x\n", {}, r't.csv:4:2: gap: "x" is no finite number'),
        ("cheap,gap\n1,2\ninf,2\n", {}, r't.csv:3:1: cheap: "inf" is no finite number'),
        ("cheap,gap\n1,2\n1,2,3\n", {}, r"t.csv:3:1: 3 cells, but the header has 2"),
        ("cheap,gap\n1,\n1,nan\n", {}, r"t.csv:1:2: gap: no answers"),
        ("cheap,gap\n1,2\n1,2\n", {}, r"2 hits among 2 answers; hits must be some, not all"),
        ('cheap,gap\n1,2\n1,"' + "9" * 200_000, {}, r"t.csv:\d+:1: field larger"),
        (
            "cheap,gap,id\n1,2,CCO\n1,3,CC(\n1,4,CN\n",
            {"identifier": "id"},
            r't.csv:3:3: id: "CC\(" is no SMILES, as most others are',
        ),
        (
            "cheap,gap,id\n1,2,CaO\n1,3,BaO2)\n1,4,TiO2\n",
            {"identifier": "id"},
            r't.csv:3:3: id: "BaO2\)" is no formula',
        ),
        ("cheap,gap,id\n1,2,CCO\n1,3,\n1,4,CN\n", {"identifier": "id"}, r't.csv:3:3: id: "" is no SMILES'),
        ("cheap,gap\n1,2\n1,3\n", {"known": KnownRungs(same=("gap",))}, r'unknown lower rung "gap"; known: cheap'),
        ("cheap,gap\n1,2\n1,3\n", {"identifier": "id"}, r't.csv:1:1: no column "id"'),
        ("cheap,gap,x\n1,2,1\n1,3,\n1,4,5\n", {"features": ["x"]}, r"t.csv:3:3: x: empty; a feature needs"),
        ("cheap,gap,x\n1,2,1\n1,3,y\n1,4,5\n", {"features": ["x"]}, r't.csv:3:3: x: "y" is no finite number'),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(
    tmp_path: Path, text: str, more: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "t.csv", text, **more)


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.csv:1:1: cannot be read: No such file"):
        read(tmp_path / "none.csv")
    (tmp_path / "t.csv.gz").write_text(TEXT)
    with pytest.raises(UsageError, match=r"t.csv.gz:1:1: cannot be unpacked"):
        read(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    with pytest.raises(UsageError, match=r"t.csv.gz:1:1: cannot be unpacked"):
        read(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv").write_bytes("cheap,gap\nä,2\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"t.csv:1:1: not UTF-8"):
        read(tmp_path / "t.csv")


def test_rungs_are_parsed() -> None:
    assert parse_rungs("a:0, b (eV):1.5 ,c:d:2e3") == (
        TableRung("a", 0),
        TableRung("b (eV)", 1.5),
        TableRung("c:d", 2000),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", '"a" is not column:cost'),
        ("a:x,b:1", '"a:x" is not column:cost'),
        (":1", '":1" is not column:cost'),
        ("a:1,", '"" is not column:cost'),
        ("a:-1,b:1", "not below 0"),
        ("a:inf,b:1", "is not column:cost"),
        ("a:1,a:2", "rung a is named twice"),
        ("a:1,b:0", "must cost something"),
    ],
)
def test_what_is_wrong_with_the_rungs_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_rungs(text)
