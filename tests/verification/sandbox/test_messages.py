"""Whatever a child says is data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile, Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import DIPOLE, HOMO_LUMO_GAP, Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.safe_text_and_durations import MAX_TEXT
from sciagent.verification.sandbox.messages import (
    MAX_LINE,
    Job,
    Limits,
    Sent,
    WireError,
    dumps,
    finding_from_wire,
    finding_to_wire,
    loads,
    progress_from_wire,
)

KEY = "ab" * 32
LEVEL = Level("GFN2-xTB", geometry="GFN2-xTB//ETKDGv3x10")
FINDING = Finding(
    KEY,
    Outcome.OK,
    (
        Measured(HOMO_LUMO_GAP.name, LEVEL, Quantity(3.1, "eV", uncertainty=0.02, n=2, as_typed="3.10")),
        Measured(DIPOLE.name, LEVEL, Quantity(0.1, "D", censoring=Censoring.BELOW)),
    ),
    detail="π → π*",
    diagnostics={"cycles": 12, "path": [1.5, None, True, {"a": "b"}]},
    artifacts=(ArtifactFile("out.xyz", "deep/out.xyz", "chemical/x-xyz"),),
)
FAILURE = Finding(KEY, Outcome.NOT_CONVERGED, reason=Reason.SCF_NOT_CONVERGED, detail="100 cycles")


def received(wire: dict[str, Any]) -> Finding:
    return finding_from_wire(wire, KEY)


def wired(finding: Finding) -> dict[str, Any]:
    return loads(dumps(finding_to_wire(finding)).rstrip())


COUNTED = Finding(KEY, Outcome.OK, spent=Cost(llm_tokens=1200, money=0.02))
NOTHING_SPENT = Finding(KEY, Outcome.OK, spent=Cost())  # it counted, and there was nothing
VERSIONED = Finding(KEY, Outcome.OK, versions={"gpaw": "22.8.0", "gpaw/ase": "3.22.1"}, share=2.5)


@pytest.mark.parametrize("finding", [FINDING, FAILURE, COUNTED, NOTHING_SPENT, VERSIONED])
def test_a_finding_comes_back_as_it_went(finding: Finding) -> None:
    assert received(wired(finding)) == finding


@pytest.mark.parametrize(
    "spent",
    [
        {"core_seconds": 1},
        {"llm_tokens": -1},
        {"llm_tokens": 1e13},
        {"llm_tokens": True},
        {"llm_tokens": "9"},
        {"gold": 1},
        {"llm_tokens": None},
        [1],
        None,
        3,
    ],
)
def test_what_a_verifier_says_it_spent_is_looked_at(spent: object) -> None:
    with pytest.raises(WireError):
        received(wired(COUNTED) | {"spent": spent})


@pytest.mark.parametrize("versions", [["gpaw"], {"gpaw": 22}, {"gpaw": "2" * 201}, {str(i): "1" for i in range(33)}])
def test_versions_are_a_few_short_texts(versions: object) -> None:
    with pytest.raises(WireError, match="versions"):
        received(wired(VERSIONED) | {"versions": versions})


def test_a_job_comes_back_as_it_went() -> None:
    job = Job(
        7, "xtb.singlepoint", {"a": 1}, (Sent(KEY, "molecule", {"smiles": "C"}),), Limits(3.5, 100, 2), 1, together=True
    )
    assert Job.from_wire(json.loads(dumps(job.to_wire()))) == job


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(wire: dict[str, Any]) -> None:
        target: Any = wire
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


def nested(depth: int) -> object:
    return {"in": nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("candidate_key", value="cd" * 32), "not on candidate"),
        (put("candidate_key", value=None), "not on candidate"),
        (put("outcome", value="splendid"), "not among the known"),
        (put("outcome", value=["ok"]), "not among the known"),
        (put("outcome", value="crashed"), "names its reason"),
        (put("reason", value="scf_not_converged"), "names its reason"),
        (put("reason", value="mercury_retrograde"), "not among the known"),
        (put("detail", value=3), "not a text"),
        (put("detail", value="x" * (MAX_TEXT + 1)), "not a text of at most"),
        (put("surplus", value=1), "exactly the fields"),
        (put("measured", value={}), "not a list"),
        (put("measured", value=[3]), "not a list of eight"),
        (put("measured", 0, value=["dipole", 0, 1.0]), "not a list of eight"),
        (put("measured", 0, 1, value=7), "no place among"),
        (put("measured", 0, 1, value=-1), "no place among"),
        (put("measured", 0, 1, value=True), "no place among"),
        (put("levels", value={}), "not a list"),
        (put("levels", value=[]), "no place among"),
        (put("levels", value=[["RDKit", "", "", "", ""]] * 2), "stands there twice"),
        (put("measured", 0, 0, value="charisma"), "not a registered property"),
        (put("measured", 0, 0, value=["dipole"]), "not a registered property"),
        (put("measured", 0, 3, value="hartree"), "canonical unit is eV"),
        (put("measured", 0, 2, value="3.1"), "not a finite number"),
        (put("measured", 0, 2, value=True), "not a finite number"),
        (put("measured", 0, 2, value=10**400), "not a finite number"),
        (put("measured", 0, 2, value=float("inf")), "not a finite number"),
        (put("measured", 0, 2, value=float("nan")), "not a finite number"),
        (put("measured", 0, 4, value=-1), "non-negative"),
        (put("measured", 0, 5, value="above all"), "not among the known"),
        (put("measured", 0, 6, value=0), "at least 1"),
        (put("measured", 0, 6, value=1.5), "not an integer"),
        (put("levels", 0, value={"method": "x"}), "not five texts"),
        (put("levels", 0, value=["x"]), "not five texts"),
        (put("levels", 0, 1, value=["x"]), "not a text of at most"),
        (put("levels", 0, 0, value="x" * 300), "not a text of at most"),
        (put("diagnostics", value=[]), "not an object"),
        (put("diagnostics", value={"x": nested(20)}), "nested deeper"),
        (put("diagnostics", value={"x": "y" * 70_000}), "diagnostics of more than"),
        (put("diagnostics", value={"x": [float("inf")]}), "not a finite number"),
        (put("artifacts", 0, "name", value="../out"), "an artifact named"),
        (put("artifacts", 0, "name", value=".."), "an artifact named"),
        (put("artifacts", 0, "name", value="a/b"), "an artifact named"),
        (put("artifacts", 0, "media_type", value="<script>"), "an artifact named"),
    ],
)
def test_what_is_not_a_finding_is_refused(change: Callable[[dict[str, Any]], None], says: str) -> None:
    wire = wired(FINDING)
    change(wire)
    with pytest.raises(WireError, match=says):
        received(wire)


def test_one_property_at_one_level_is_measured_once() -> None:
    wire = wired(FINDING)
    wire["measured"].append(wire["measured"][0])
    with pytest.raises(WireError, match="twice"):
        received(wire)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"rubbish",
        b"\xff\xfe",
        '{"a": 1}'.encode("utf-16-le"),
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": "\xff"}',
        b"[]",
        b"3",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'"' + b"x" * MAX_LINE + b'"',
    ],
)
def test_what_is_not_one_json_object_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        loads(line)


def test_texts_lose_what_no_database_takes() -> None:
    wire = wired(FINDING)
    wire["diagnostics"] = {"k\0": ["\ud800"]}
    assert received(wire).diagnostics == {"k\ufffd": ["\ufffd"]}


def test_numpy_numbers_are_numbers() -> None:
    import numpy as np

    finding = Finding(KEY, Outcome.OK, diagnostics={"x": np.float32(1.5), "y": np.arange(3)})
    assert received(wired(finding)).diagnostics == {"x": 1.5, "y": [0, 1, 2]}


@pytest.mark.parametrize("wrong", [{"wall_seconds": 0}, {"wall_seconds": float("nan")}, {"memory_mb": -1}])
def test_limits_are_above_zero(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Limits(**wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
PLACES: st.SearchStrategy[tuple[str | int, ...]] = st.sampled_from(
    [
        *((name,) for name in wired(FINDING)),
        ("measured", 0),
        ("artifacts", 0),
        *(("measured", 0, place) for place in range(8)),
        ("levels", 0),
        *(("levels", 0, place) for place in range(4)),
        *(("artifacts", 0, name) for name in ("name", "path", "media_type")),
    ]
)


@given(place=PLACES, value=JSON)
def test_no_message_whatever_breaks_the_reader(place: tuple[str | int, ...], value: object) -> None:
    wire = wired(FINDING)
    put(*place, value=value)(wire)
    try:
        found = received(wire)
    except WireError:
        return
    assert found.candidate_key == KEY
    assert received(wired(found)) == found


@given(st.binary(max_size=200))
def test_no_bytes_whatever_break_the_reader(line: bytes) -> None:
    try:
        assert isinstance(loads(line), dict)
    except WireError:
        pass


def test_a_report_of_progress_is_one_line_without_control_characters() -> None:
    told = progress_from_wire({"done": 1.0, "of": 2.0, "text": "chunk 2\nstatus: finished\x1b[31m"})
    assert told.text == "chunk 2 status: finished\ufffd[31m"
    with pytest.raises(WireError):
        progress_from_wire({"done": 3.0, "of": 2.0, "text": ""})
