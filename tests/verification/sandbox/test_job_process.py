"""What the process of a job says of a verifier that fails, refuses, or works."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from sciagent.verification.sandbox.host import Limits, Worker
from tests.verification.sandbox.working import ABC, ETHANOL, run, said


def test_a_crash_tells_what_was_printed_last(worker: Worker) -> None:
    [result] = run(worker, "bad.segfault")
    assert result.finding.detail == "signal 11 (SIGSEGV)"
    assert "Segmentation fault" in result.finding.diagnostics["output_tail"]


def test_an_exception_is_told_by_its_last_line(worker: Worker) -> None:
    [result] = run(worker, "bad.raises")
    detail, diagnostics = result.finding.detail, result.finding.diagnostics
    assert re.fullmatch(r"__init__\.py:\d+ in one", diagnostics["frame"])
    assert detail == f"bad.raises in verify: ZeroDivisionError: division by zero ({diagnostics['frame']})"
    assert "1 / 0" in diagnostics["traceback"]


@pytest.mark.parametrize(
    ("verifier", "settings", "said_is"),
    [
        ("bad.raises", {"early": True}, r"bad\.raises in accepts: ValueError: early \(__init__\.py:\d+ in accepts\)"),
        ("bad.cost", {}, r"bad\.cost in cost: ValueError: cost core_seconds = -1 .* \(__init__\.py:\d+ in cost\)"),
        ("bad.cost", {"how": "none"}, r"bad\.cost in cost: TypeError: a NoneType, not a Cost"),
        ("bad.cost", {"how": "huge"}, r"bad\.cost in cost: ValueError: core_seconds = 1e\+300; at most 1e\+12"),
    ],
)
def test_an_exception_names_the_verifier_and_the_method(
    worker: Worker, verifier: str, settings: dict[str, Any], said_is: str
) -> None:
    [result] = run(worker, verifier, **settings)
    assert re.fullmatch(said_is, result.finding.detail)


def test_a_refusal_inside_a_batch_keeps_the_order(worker: Worker) -> None:
    results = run(worker, "bad.noop", *ABC, refuse="CCN")
    assert said(results) == ["ok", "refused/too_large", "ok", "ok"]
    assert results[1].cost.get("core_seconds", 0.0) < 0.05


def test_a_candidate_of_another_key_is_not_verified(worker: Worker) -> None:
    forged = replace(ETHANOL)
    vars(forged)["key"] = "0" * 64
    [result] = run(worker, "bad.noop", forged)
    assert said([result]) == ["bad_environment/bad_result"]


def test_threads_reach_the_engine(worker: Worker) -> None:
    [result] = run(worker, "bad.noop", limits=Limits(5, 300, threads=2))
    assert result.finding.diagnostics["threads"] == "2"
