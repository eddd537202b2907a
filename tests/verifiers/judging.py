"""A judge with a small rubric, asked in a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.sandbox.host import HostResult, Request, Worker
from sciagent_verifiers.simulation.lm_judge import LmJudge
from tests.support.chat_server import ChatServer, Respond, answer

RUBRIC: dict[str, Any] = {
    "name": "dye",
    "criteria": [
        {"name": "bright", "question": "Does it absorb strongly?", "weight": 3, "scale": {0: "no", 1: "so", 2: "yes"}},
        {"name": "stable", "question": "Is it stable?", "scale": {0: "no", 1: "yes"}, "gate": 1},
        {"name": "simple", "question": "Is it simple?", "scale": {0: "no", 1: "yes"}},
    ],
}


@pytest.fixture(scope="module", name="worker")
def make_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUDGE_KEY", "sk-secret-7")
        with Worker(tmp_path_factory.mktemp("scratch")) as worker:
            yield worker


def grades(**by_name: int) -> str:
    return json.dumps({name: {"reason": f"{name} it is", "grade": grade} for name, grade in by_name.items()})


def says(text: str | Callable[[int], str]) -> Respond:
    return lambda body, n: (200, answer(text if isinstance(text, str) else text(n)))


def settings(server: ChatServer, **more: Any) -> dict[str, Any]:
    return {"rubric": RUBRIC, "model": "m-1", "endpoint": server.url, **more}


def judge(worker: Worker, server: ChatServer, smiles: str = "CCO", **more: Any) -> HostResult:
    [result] = worker.run(
        Request("lm.judge", LmJudge(settings(server, **more)).request_settings, (parse_molecule(smiles),))
    )
    return result
