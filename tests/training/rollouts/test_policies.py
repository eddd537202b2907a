"""Rollouts by a model in this process, by a server's model and by a script: what is kept of their turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent import conversation_and_asking
from sciagent.agent.install_and_find_models import add_folder
from sciagent.agent.messages_sampling_and_policy_client import NO_TOKENS
from sciagent.agent.policies.endpoint_requests_and_answers import GRAMMAR
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.turns_to_token_rows import Join, behaviour_of, linearise, recorded_calls
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NOT_SAMPLED
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.rollouts.campaign_rollouts import policy_of
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.verification.sandbox.host import Worker
from tests.support.chat_server import ChatServer, calls
from tests.support.tiny_model import write_tiny_model
from tests.training.rollouts.rolled import TEXT, let_go, runner_of, seeded, to_the_end

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
CONTEXT = 8192
PLAN = RolloutPlan(groups=1, siblings=4, turns=3, policy="tiny")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=CONTEXT)
        yield add_folder(folder, "tiny", lambda text: None).name


def opened(ledger: Ledger, folder: Path, more: str) -> Built:
    proposer = f"{{kind: llm, seeds: molecules.csv, tools: [propose, modify, best], context: 8000, {more}}}"
    return seeded(ledger, folder, text=TEXT.replace("{kind: screen, file: molecules.csv}", proposer))


def turns_of(built: Built) -> list[Any]:
    """All turns of rollouts, by episode and number."""
    query = sa.select(t.turn).join(t.trajectory).where(t.trajectory.c.group_id.is_not(None))
    with built.ledger.read() as connection:
        return list(connection.execute(query.order_by(t.turn.c.trajectory_id, t.turn.c.number)).mappings())


def whole(built: Built) -> list[Any]:
    """Returns the samples of each turn, without measured costs."""
    return [(turn["trajectory_id"], turn["number"], turn["message"], turn["output_ids"]) for turn in turns_of(built)]


def test_a_model_in_this_process_is_trainable_and_its_episodes_are_one_row_each(
    ledger: Ledger, tmp_path: Path, tiny: str, worker_of: Any
) -> None:
    built = opened(ledger, tmp_path, f"model: {tiny}, max_tokens: 40, temperature: 0.7")
    with worker_of(built) as worker, policy_of(built, None) as policy:
        runner = runner_of(built, worker, policy)
        to_the_end(runner, runner.opened(PLAN))
    turns = turns_of(built)
    assert len(turns) == 12 and {turn["untrainable"] for turn in turns} == {None}
    model = LocalPolicy(tiny, device="cpu")
    with built.ledger.read() as connection:
        for id_ in sorted({turn["trajectory_id"] for turn in turns}):
            recorded, rows = recorded_calls(connection, id_), proposer_trajectories.turns(connection, id_)
            assert linearise(recorded).joins == {Join.APPEND: 2, Join.REALIGN: 0, Join.FORK: 0}
            for call, row in zip(recorded, rows, strict=True):
                tools = policies_and_roles.tool_set_content(connection, row["tool_set_id"])
                assert call.behaviour == pytest.approx(behaviour_of(model, call, row["sampling"], tools), abs=1e-4)


def test_a_group_of_a_model_goes_on_after_a_stop_as_if_undisturbed(
    ledger: Ledger, tmp_path: Path, tiny: str, worker_of: Any
) -> None:
    found = []
    for stops in (False, True):
        name = f"model: {tiny}, max_tokens: 40"
        built = opened(ledger, tmp_path, name) if not stops else again(ledger, tmp_path, name)
        with worker_of(built) as worker, policy_of(built, None) as policy:
            runner = runner_of(built, worker, policy)
            groups = runner.opened(PLAN)
            if stops:
                runner.step(groups)
                let_go(built)
                runner = runner_of(built, worker, policy)
                groups = runner.continued()
            to_the_end(runner, groups)
            let_go(built)
        found.append([turn[1:] for turn in whole(built)])
    whole_run, stopped = found[0], found[1][len(found[0]) :]
    assert stopped == whole_run


def again(ledger: Ledger, folder: Path, more: str) -> Built:
    """The same campaign under another name."""
    proposer = f"{{kind: llm, seeds: molecules.csv, tools: [propose, modify, best], context: 8000, {more}}}"
    text = TEXT.replace("{kind: screen, file: molecules.csv}", proposer).replace("campaign: rolled", "campaign: again")
    return seeded(ledger, folder, text=text)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_and_asking, "FIRST_PAUSE", 0.01)


def served(ledger: Ledger, folder: Path, server: ChatServer, more: str = "") -> Built:
    return opened(ledger, folder, f"model: m, endpoint: '{server.url}'{more}")


def respond(server: ChatServer, **more: Any) -> None:
    """Each question is answered with a proposal, whose length depends on what the conversation holds."""

    def answer(body: dict[str, Any], n: int) -> tuple[int, Any]:
        smiles = "C" * (2 + len(body["messages"])) + "O"
        return 200, calls(("propose", {"smiles": smiles, "rationale": "", "predictions": []}), n=n, **more)

    server.respond = answer


def rolled_out(built: Built, worker_of: Any) -> tuple[RolloutRunner, str]:
    """Rolls a group out; returns the runner and the group's state."""
    with worker_of(built) as worker, policy_of(built, None) as policy:
        runner = runner_of(built, worker, policy)
        [group] = runner.opened(PLAN)
        to_the_end(runner, [group])
    with built.ledger.read() as connection:
        [row] = group_rows.of_campaign(connection, built.row.id)
    return runner, row.state


@pytest.mark.parametrize(
    ("more", "ids", "why"), [(", strict: false", True, None), ("", True, GRAMMAR), ("", False, NO_TOKENS)]
)
def test_a_servers_turns_are_trainable_where_it_says_what_it_drew_from(
    ledger: Ledger, tmp_path: Path, server: ChatServer, worker_of: Any, more: str, ids: bool, why: str | None
) -> None:
    respond(server, ids=ids)
    built = served(ledger, tmp_path, server, more)
    _, state = rolled_out(built, worker_of)
    turns = turns_of(built)
    assert state == "complete" and len(turns) == 12
    assert {turn["untrainable"] for turn in turns} == {why}
    if ids:
        assert all(turn["logprobs"] == turn["behaviour"] == [-0.25] * 2 for turn in turns)
    else:
        assert {turn["output_ids"] for turn in turns} == {None}
    offered = server.bodies[0]["tools"][0]["function"].get("strict")
    assert offered is (why == GRAMMAR or not ids), "strict is as the campaign file says"
    with built.ledger.read() as connection:
        names = dict(connection.execute(sa.select(t.policy.c.id, t.policy.c.name)).all())
    assert {names[turn["policy_id"]] for turn in turns} == {"m-1"}, "who answered, not whom was asked for"


def test_a_group_that_a_second_model_answers_is_broken(
    ledger: Ledger, tmp_path: Path, server: ChatServer, worker_of: Any
) -> None:
    respond(server)
    first = server.respond
    server.respond = lambda body, n: (200, first(body, n)[1] | {"model": "m-1" if n <= 6 else "m-2"})
    built = served(ledger, tmp_path, server)
    _, state = rolled_out(built, worker_of)
    assert state == "broken" and len(turns_of(built)) == 8
    with built.ledger.read() as connection:
        siblings = group_rows.siblings(connection, group_rows.of_campaign(connection, built.row.id)[0].id)
    assert {each.ended_why for each in siblings} == {"its group is broken: another policy answered: m-2"}


def test_a_script_says_that_no_model_sampled_its_turns(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker)
    runner.step(runner.opened(PLAN))
    assert {turn["untrainable"] for turn in turns_of(built)} == {NOT_SAMPLED}
