"""Clients bring the policy: what they do is answered, recorded, charged and rewarded as rollouts are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sciagent.domain.states_and_needs import Verb
from sciagent.errors import EpisodeError, StaleLeaseError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import Environment, LadderEpisode
from tests.training.environment.served import FAST, PAID, REWARDS, played, proposing, texts, trajectories, turns
from tests.training.rollouts.rolled import let_go

Serve = Callable[..., Environment]
sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_an_episode_is_recorded_charged_and_rewarded_as_a_rollout(serve: Serve, ledger: Ledger) -> None:
    with serve(turns=3) as environment:
        episode = environment.open(0, policy="mine@7")
        assert [message["role"] for message in episode.messages] == ["system", "user"]
        assert "#1 CCO: no hit, expected utility 0.13" in str(episode.messages[1]["content"])
        function = {"name": "propose", "arguments": '{"smiles": "CCCO"}'}
        message = {"role": "assistant", "content": "longer", "tool_calls": [{"id": "a", "function": function}]}
        first = episode.turn(message, {"prompt_tokens": 300, "completion_tokens": 20})
        assert first.messages[0]["tool_call_id"] == "a"
        second, third = played(episode, proposing("CCO", "CCCCO"))
        assert [reply.done for reply in (first, second, third)] == [False, False, True]
        assert texts([second])[0].startswith("duplicate #1: CCO")
        found = episode.end()
    written = turns(ledger)
    assert [turn["message"]["content"] for turn in written] == ["longer", "", ""]
    assert {turn["policy_version"] for turn in written} == {"mine@7"}
    assert {turn["untrainable"] for turn in written} == {
        "not sampled here: a client stated the answer, without its tokens"
    }
    assert [turn["cost"].get("llm_tokens", 0) for turn in written] == [320, 0, 0]
    assert all(turn["asked_watermark"] is not None and turn["output_ids"] is None for turn in written)
    [published] = show(ledger, publish(ledger, "rolled", REWARDS).version).episodes
    assert found.outcome == published.outcome and found.outcome is not None and found.outcome > 0.3
    for mine, theirs in zip(found.turns, published.turns, strict=True):
        assert mine == theirs.model_copy(update={"advantage": None})
    assert [reply.reward for reply in (first, second, third)] == [turn.reward for turn in published.turns]
    assert published.turns[0].terms["cost"] == pytest.approx(-320e-6, rel=0.1)


@sqlite
def test_siblings_at_once_get_what_they_get_one_after_the_other(serve: Serve, ledger: Ledger) -> None:
    calls = [("modify", {"parent": "#1", "edit": "add substituent", "what": None, "where": None}), *proposing("CCCO")]

    def play(episode: LadderEpisode) -> list[str]:
        return texts(played(episode, calls))

    with serve(turns=3) as environment:
        alike = [environment.open(seed=11, group="together", siblings=6) for _ in range(6)]
        assert [each.opened.sibling for each in alike] == list(range(6))
        with ThreadPoolExecutor(6) as threads:
            together = list(threads.map(play, alike))
        for each in alike:
            each.end()
        with pytest.raises(EpisodeError, match="episode 1 has ended: ended by the client"):
            alike[0].call("budget")
        assert all(answers[-1].startswith("new #4: CCCO") for answers in together), "no sibling sees another"
        found = environment.rewards(alike[3].number)
        assert found.turns[0].advantage is not None, "the group is complete, so siblings are compared"
    assert {state for state, _ in trajectories(ledger).values()} == {"complete"}
    assert len(turns(ledger)) == 12


@sqlite
def test_the_ladder_decides_while_a_client_waits(serve: Serve) -> None:
    with serve(PAID, turns=2) as environment:
        episode = environment.open()
        reply = episode.call("propose", {"smiles": "C=O"})
        assert reply.reward is None, "the paid rung has not answered, which is not 0"
        found = episode.end(wait=60)
    [turn] = found.turns
    assert turn.reward is not None and turn.candidates[0].settled
    assert turn.candidates[0].value == 1.0 and turn.candidates[0].resources["core_seconds"] > 0


@sqlite
def test_a_request_that_is_sent_again_is_not_carried_out_again(serve: Serve, ledger: Ledger) -> None:
    with serve(turns=2) as environment:
        number = environment.open().number
        first = environment.call(number, "propose", {"smiles": "CCCO"}, turn=0)
        assert environment.call(number, "propose", {"smiles": "CCCO"}, turn=0) == first
        with pytest.raises(EpisodeError, match="the next one has the number 1, not 0") as refused:
            environment.call(number, "propose", {"smiles": "CCN"}, turn=0)
        assert refused.value.status == 409
        last = environment.call(number, "finish", {"reason": "enough"}, turn=1)
        assert last.ended == "finished by the model"
        assert environment.call(number, "finish", {"reason": "enough"}, turn=1) == last, (
            "the answer that ended the episode was lost"
        )
    assert len(turns(ledger)) == 2


@sqlite
def test_an_episode_whose_client_is_silent_ends_and_its_group_is_not_complete(serve: Serve, ledger: Ledger) -> None:
    with serve(idle_seconds=1.5, turns=1000) as environment:
        environment.open(group="pair", siblings=2)
        kept = environment.open(group="pair", siblings=2)
        until = time.monotonic() + 20
        while environment.n_open == 2 and time.monotonic() < until:
            kept.call("budget")
        assert environment.n_open == 1
        kept.end()
    assert [why for _, why in trajectories(ledger).values()] == [
        "its client was silent for 1.5 s",
        "ended by the client",
    ]
    assert {state for state, _ in trajectories(ledger).values()} == {"broken"}


@sqlite
def test_the_budget_of_proposals_holds_for_clients(serve: Serve, ledger: Ledger) -> None:
    with serve(FAST.replace("proposals: 1000", "proposals: 3")) as environment:
        episode = environment.open()
        assert not episode.call("propose", {"smiles": "CCCO"}).done
        with pytest.raises(EpisodeError, match="the budget of 3 proposals is used") as refused:
            episode.call("propose", {"smiles": "CCN"})
        assert refused.value.status == 409
        with pytest.raises(EpisodeError, match="the budget of 3 proposals is used"):
            environment.open()
        assert episode.end().outcome is not None


@pytest.mark.long
@sqlite
def test_a_pause_holds_turns_and_a_stop_ends_the_environment(serve: Serve, ledger: Ledger) -> None:
    with serve() as environment:
        episode = environment.open()
        with ledger.begin() as connection:
            row = campaigns.get(connection, "rolled")
            directives.write(connection, row.id, Verb.PAUSE, who="me", why="a test")
        time.sleep(0.6)
        with ThreadPoolExecutor(1) as threads:
            held = threads.submit(episode.call, "propose", {"smiles": "CCCO"})
            time.sleep(0.6)
            assert not held.done()
            with ledger.begin() as connection:
                directives.write(connection, row.id, Verb.RESUME, who="me", why="")
            assert texts([held.result(timeout=10)])[0].startswith("new #3: CCCO")
        with ledger.begin() as connection:
            directives.write(connection, row.id, Verb.STOP, who="me", why="enough")
        with pytest.raises(EpisodeError, match=r"stopped by me: enough") as refused:
            for _ in range(50):
                episode.call("budget")
                time.sleep(0.1)
        assert refused.value.status in (409, 503)
    assert list(trajectories(ledger).values()) == [("broken", "stopped by me: enough")]


@sqlite
def test_clients_hear_of_an_error_of_the_ladder(serve: Serve, ledger: Ledger) -> None:
    environment = serve()
    with pytest.raises(StaleLeaseError), environment:
        episode = environment.open()
        let_go(environment.built)
        with ledger.begin() as connection:
            campaigns.take_driver(connection, environment.built.row.id, campaigns.new_owner())
        with pytest.raises((StaleLeaseError, EpisodeError)):
            episode.call("propose", {"smiles": "CCCO"})
        with pytest.raises(EpisodeError, match="the ladder failed") as refused:
            environment.open()
        assert refused.value.status == 503
    assert turns(ledger) == []


@sqlite
def test_rewards_by_a_law_come_once_there_are_answers(serve: Serve) -> None:
    posterior = RewardSpec(prices={"core_seconds": 1e-4}, unsettled="posterior")
    with serve(rewards=posterior, turns=1) as environment:
        found = environment.open().call("propose", {"smiles": "CCCO"})
    assert found.reward is not None


@sqlite
def test_what_no_environment_can_do_is_refused(serve: Serve) -> None:
    with pytest.raises(Exception, match="only lottery draws with a known chance"):
        serve(rewards=RewardSpec(prices={"core_seconds": 1e-4}, unsettled="robust"))
    with pytest.raises(Exception, match="watermark: an environment rewards by the evidence of now"):
        serve(rewards=RewardSpec(prices={"core_seconds": 1e-4}, unsettled="settled", watermark=3))
    with pytest.raises(Exception, match="turns: 0 is not above 0"):
        serve(turns=0)


@pytest.mark.long
@sqlite
def test_a_waiting_client_is_released_when_the_environment_closes(serve: Serve) -> None:
    environment = serve(PAID, turns=2)
    with environment:
        number = environment.open().number
        environment.call(number, "propose", {"smiles": "CCCCCCCCCCO"})
        started = threading.Event()

        def wait() -> float | None:
            started.set()
            return environment.rewards(number, wait=300).outcome

        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(wait)
            started.wait()
            environment.close(now=True)
            waiting.result(timeout=20)
