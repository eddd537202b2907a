"""The judge's model as it is asked: one that stumbles, refuses, or is another one."""

from __future__ import annotations

import json

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.verification.sandbox.host import Worker
from sciagent_verifiers.simulation.lm_judge import LmJudge
from tests.support.chat_server import ChatServer, answer
from tests.verifiers.judging import grades, judge, make_worker, says, settings

__all__ = ["make_worker"]


def test_an_answer_that_was_cut_off_is_no_vote(worker: Worker, server: ChatServer) -> None:
    server.respond = lambda body, n: (200, answer(grades(bright=2, stable=1, simple=1), finish="length"))
    assert "cut off after 3 tokens" in judge(worker, server).finding.detail


def test_another_model_than_was_named_is_refused(worker: Worker, server: ChatServer) -> None:
    server.respond = says(grades(bright=2, stable=1, simple=1))
    finding = judge(worker, server, model="m").finding  # the server calls itself m-1
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.MODEL_CHANGED)
    assert "set version to it" in finding.detail
    named = judge(worker, server, model="m", version="m-1").finding
    assert named.outcome is Outcome.OK
    assert named.measured[0].level.method.startswith("m-1 by ")


def test_a_server_that_stumbles_is_asked_again(worker: Worker, server: ChatServer) -> None:
    server.respond = lambda body, n: (
        (429, {"error": {"message": "later"}}) if n == 1 else (200, answer(grades(bright=2, stable=1, simple=1)))
    )
    finding = judge(worker, server, votes=2).finding
    assert (finding.outcome, finding.measured[0].quantity.n) == (Outcome.OK, 2)


def test_a_server_that_refuses_says_nothing_of_the_molecule(worker: Worker, server: ChatServer) -> None:
    server.respond = lambda body, n: (401, {"error": {"message": "bad key sk-secret-7"}})
    finding = judge(worker, server, api_key_env="JUDGE_KEY").finding
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.MODEL_UNREACHABLE)
    assert "401" in finding.detail
    assert "sk-secret" not in finding.detail + json.dumps(finding.diagnostics)


def test_a_key_that_is_not_there_is_said_before_the_first_candidate(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(SimulatorError, match="NO_SUCH_KEY"):
        LmJudge(settings(server, api_key_env="NO_SUCH_KEY")).prepare()
    monkeypatch.setenv("NO_SUCH_KEY", "k")
    LmJudge(settings(server, api_key_env="NO_SUCH_KEY")).prepare()
