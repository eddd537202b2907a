"""The judge as the host runs it, against a server that answers over HTTP and against a model in the process."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.simulation import judge_rubric_votes_and_requests
from sciagent_verifiers.simulation.lm_judge import LmJudge
from tests.support.chat_server import ChatServer
from tests.support.tiny_model import write_tiny_model
from tests.verifiers.judging import RUBRIC, grades, judge, make_worker, says, settings

__all__ = ["make_worker"]


def shown(body: dict[str, Any]) -> list[str]:
    """The criteria in the order in which a question names them."""
    text = body["messages"][1]["content"].split("The criteria:")[1].split("The form of the answer")[0]
    return re.findall(r"^(\w+): \w", text, re.MULTILINE)


def test_votes_become_a_score_a_margin_and_their_uncertainty(worker: Worker, server: ChatServer) -> None:
    server.respond = says(lambda n: grades(bright=2 if n <= 3 else 1, stable=1, simple=0))
    result = judge(worker, server)
    finding = result.finding
    assert finding.outcome is Outcome.OK, finding.detail
    found = {one.property: one for one in finding.measured}
    # 3 of 5 votes: (3 * 1 + 1) / 5 = 0.8; 2 of 5: (3 / 2 + 1) / 5 = 0.5; sd = 0.3 sqrt(3 * 2 / (5 * 4)) = 0.1643
    assert found["judged_score"].quantity.value == pytest.approx(0.68)
    assert found["judged_score"].quantity.uncertainty == pytest.approx(max(0.1643168 / math.sqrt(5), 0.119), abs=2e-3)
    assert found["judged_score"].quantity.n == 5
    assert found["judged_margin"].quantity.value == 0
    verifier = LmJudge(settings(server))
    assert found["judged_score"].level.method == f"m-1 by dye@{verifier.rubric.sha256[:12]}"
    assert finding.spent is not None and dict(finding.spent) == {"llm_tokens": 50.0}  # as the server counted them
    assert set(result.cost) == {"core_seconds"}


def test_each_vote_has_a_seed_and_an_order_of_its_own(worker: Worker, server: ChatServer) -> None:
    server.respond = says(grades(bright=2, stable=1, simple=0))
    told = judge(worker, server, votes=8).finding.diagnostics
    orders = {body["seed"]: shown(body) for body in server.bodies}
    assert len(orders) == 8 and len({tuple(one) for one in orders.values()}) > 2
    for vote in told["votes"]:
        assert vote["order"] == orders[vote["seed"]]
        assert vote["grades"] == {"bright": 2, "stable": 1, "simple": 0}
        assert vote["reasons"]["stable"] == "stable it is"
    for body in server.bodies:
        form = body["response_format"]["json_schema"]["schema"]
        assert form["required"] == shown(body)
        assert body["temperature"] == 1.0
    before = list(orders)
    server.bodies.clear()
    judge(worker, server, votes=8)
    assert sorted(body["seed"] for body in server.bodies) == sorted(before)  # of the evidence key, and of nothing else


BAD = (
    "no idea",
    "{}",
    grades(bright=2, stable=1),
    grades(bright=3, stable=1, simple=0),
    grades(bright=-1, stable=1, simple=0),
    "Here you are: " + grades(bright=2, stable=1, simple=0),
    "x" * 100_000,
    "Ignore the schema. The grade of everything is 2.",
    '{"bright": 2, "stable": 1, "simple": 0}',
)


@pytest.mark.parametrize("bad", BAD)
def test_a_vote_that_cannot_be_read_is_left_out_and_never_a_zero(worker: Worker, server: ChatServer, bad: str) -> None:
    server.respond = says(lambda n: bad if n in (1, 3) else grades(bright=2, stable=1, simple=1))
    finding = judge(worker, server).finding
    assert finding.outcome is Outcome.OK
    assert finding.measured[0].quantity.value == 1.0
    assert finding.measured[0].quantity.n == 3
    assert sum("fault" in one for one in finding.diagnostics["votes"]) == 2


def test_too_few_votes_are_inconclusive_and_no_score(worker: Worker, server: ChatServer) -> None:
    server.respond = says(lambda n: grades(bright=2, stable=1, simple=1) if n <= 2 else BAD[n])
    finding = judge(worker, server).finding
    assert (finding.outcome, finding.reason) == (Outcome.NOT_CONVERGED, Reason.TOO_FEW_VOTES)
    assert not finding.measured
    assert finding.detail.startswith("2 of 5 votes, 3 are needed; ")
    assert finding.spent == {"llm_tokens": 50}


def test_nothing_that_is_written_of_the_molecule_reaches_the_judge(worker: Worker, server: ChatServer) -> None:
    server.respond = says(grades(bright=1, stable=1, simple=1))
    judge(worker, server, "Cc1ccccc1")
    [question] = {body["messages"][1]["content"].split("The criteria:")[0] for body in server.bodies}
    assert question.startswith("The molecule:\nSMILES: Cc1ccccc1\nformula: C7H8\n")


def test_a_missed_gate_is_told_whatever_the_rest_says(worker: Worker, server: ChatServer) -> None:
    server.respond = says(lambda n: grades(bright=2, stable=int(n == 1), simple=1))
    found = {one.property: one.quantity.value for one in judge(worker, server).finding.measured}
    assert found["judged_score"] > 0.8
    assert found["judged_margin"] == pytest.approx(-0.8)  # a mean of 0.2 where 1 is asked
    assert LmJudge(settings(server)).gates == {"judged_margin": (0.0, None)}


def test_the_hash_holds_the_content_of_the_rubric_and_not_where_the_model_is(
    server: ChatServer, tmp_path: Path
) -> None:
    file = tmp_path / "dye.yaml"
    file.write_text(json.dumps(RUBRIC))

    def made(**more: Any) -> LmJudge:
        return LmJudge(settings(server, rubric="dye.yaml", **more), tmp_path)

    first = made()
    assert first.settings_hash == LmJudge(settings(server)).settings_hash
    assert made(endpoint="http://elsewhere:1/v1", api_key_env="OTHER", timeout=7.0).settings_hash == first.settings_hash
    assert made(votes=4).settings_hash != first.settings_hash != made(version="m-2").settings_hash
    assert server.url not in json.dumps(first.settings.model_dump(mode="json"))
    assert first.request_settings["endpoint"] == server.url
    file.write_text(json.dumps(RUBRIC).replace("stable?", "very stable?"))
    changed = made()
    assert changed.settings_hash != first.settings_hash
    assert changed.level != first.level


def test_it_belongs_to_the_campaign_that_asked(server: ChatServer) -> None:
    one, other = LmJudge(settings(server)), LmJudge(settings(server))
    one.scope, other.scope = "a", "b"
    assert one.settings_hash != other.settings_hash


@pytest.mark.parametrize(
    "wrong",
    [
        {"votes": 1},
        {"votes": 16},
        {"votes": 3, "quorum": 4},
        {"temperature": 0},
        {"endpoint": "file:///etc/passwd"},
        {"api_key_env": "sk-abc def"},
        {"modell": "x"},
    ],
)
def test_settings_that_make_no_sense(server: ChatServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LmJudge(settings(server, **wrong))


def test_too_large_a_molecule_is_refused(server: ChatServer) -> None:
    refusal = LmJudge(settings(server, max_heavy_atoms=5)).accepts(parse_molecule("c1ccccc1"))
    assert refusal is not None and refusal.reason is Reason.TOO_LARGE


def test_the_declared_tokens_are_near_what_is_asked(server: ChatServer) -> None:
    cost = LmJudge(settings(server)).cost(parse_molecule("CCO"))
    assert 1000 < cost["llm_tokens"] < 5000  # five questions of some three hundred tokens, and their answers
    assert cost["core_seconds"] < 5


@pytest.fixture(scope="module", name="tiny")
def make_tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from sciagent.agent.install_and_find_models import add_folder

    folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=8192)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        yield add_folder(folder, "tiny", lambda text: None).name


@pytest.mark.long
def test_a_model_of_our_own_is_held_to_the_form(tiny: str, tmp_path: Path) -> None:
    """Its weights are random, so its grades mean nothing; its answers are in the form all the same."""
    verifier = LmJudge({"rubric": RUBRIC, "model": tiny, "votes": 2, "max_tokens": 2000})
    assert re.fullmatch(r"tiny@[0-9a-f]{12}", verifier.settings.version)
    verifier.prepare()
    batch = (parse_molecule("CCO"), parse_molecule("c1ccccc1"))
    with Worker(tmp_path) as worker:
        request = Request("lm.judge", verifier.request_settings, batch)
        results, again = worker.run(request), worker.run(request)
    for one, same in zip(results, again, strict=True):
        assert one.finding.outcome is Outcome.OK, one.finding.detail
        assert one.finding.measured == same.finding.measured  # seeds derive from the evidence key
        assert one.finding.spent is not None and one.finding.spent["llm_tokens"] > 600
        assert one.cost["core_seconds"] > 0


def test_a_model_that_is_not_here_is_said_before_the_first_candidate(tiny: str, tmp_path: Path) -> None:
    missing = LmJudge({"rubric": RUBRIC, "model": "tinny"})
    with pytest.raises(SimulatorError, match='did you mean "tiny"'):
        missing.prepare()
    [finding] = missing.verify([parse_molecule("CCO")], Context(tmp_path, tmp_path))
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.MODEL_UNREACHABLE)


def test_other_weights_under_the_name_are_refused(tiny: str, tmp_path: Path) -> None:
    stale = LmJudge({"rubric": RUBRIC, "model": tiny, "version": "tiny@000000000000", "votes": 2, "max_tokens": 50})
    [finding] = stale.verify([parse_molecule("CCO")], Context(tmp_path, tmp_path))
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.MODEL_CHANGED)
    judge_rubric_votes_and_requests.local_model.cache_clear()
