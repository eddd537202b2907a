"""The workbench of a rollout shows the snapshot and the episode's own candidates, by score and by key."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.training.rollouts import campaign_snapshot_and_workbench
from sciagent.training.rollouts.campaign_snapshot_and_workbench import EpisodeMemory, SnapshotBench, stored
from sciagent.training.rollouts.tool_calls_across_episodes import FastRungs
from sciagent.verification.sandbox.host import Worker

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def bench_of(built: Built, worker: Worker, memory: EpisodeMemory, room: int = 8) -> SnapshotBench:
    with built.ledger.read() as connection:
        frozen = campaign_snapshot_and_workbench.take(connection, built)
    return SnapshotBench(built, worker, FastRungs(built, worker), frozen, memory, room=room, trajectory=1)


def test_a_candidate_is_ranked_in_the_next_turn_of_its_own_episode(built: Built, worker: Worker) -> None:
    memory = EpisodeMemory()
    first = bench_of(built, worker, memory)
    [out] = first.propose([ProposalIn("CCCCCO")])  # its log P of 1.17 lies in the window, those of the seeds do not
    assert out.status == "new" and out.key is not None
    memory.extend(first.learned())
    second = bench_of(built, worker, memory)
    assert [row.text for row in second.best(3)] == ["CCCCCO", "CCO", "CO"]
    assert second.known(parse_molecule("OCCCCC")) and second.known(parse_molecule("CO"))
    assert second.propose([ProposalIn("OCCCCC")])[0].status == "duplicate"
    assert second.results_of(out.key) == ["checks: logp 1.169"]
    assert [past["text"] for past in second.recent(2)] == ["CCCCCO", "CCO"]
    other = bench_of(built, worker, EpisodeMemory())
    assert not other.known(parse_molecule("CCCCCO")) and [row.text for row in other.best(3)] == ["CCO", "CO"]


def test_a_memory_comes_back_from_what_is_stored_of_it(built: Built, worker: Worker) -> None:
    bench, memory = bench_of(built, worker, EpisodeMemory()), EpisodeMemory()
    bench.propose([ProposalIn("CCCCO"), ProposalIn("CO"), ProposalIn("C1CC")])
    memory.restore(stored(bench.learned()))
    assert memory.proposals == bench.learned()
    assert [each.status for each in memory.proposals] == ["new", "duplicate", "refused"]


def test_the_room_of_a_turn_and_the_budget_are_those_of_the_snapshot(built: Built, worker: Worker) -> None:
    bench = bench_of(built, worker, EpisodeMemory(), room=1)
    assert [out.reason for out in bench.propose([ProposalIn("CCCCO"), ProposalIn("CCCCCO")])] == [None, "too_many"]
    assert bench.left() == {"llm_tokens": 1e6, "proposals": 998.0}


def test_structures_of_other_episodes_are_not_compared(built: Built, worker: Worker) -> None:
    bench = bench_of(built, worker, EpisodeMemory())
    methanol = parse_molecule("CO")
    family = built.subject.features(built.subject.notation(methanol)).family_hash, methanol.formula
    assert [each.key for each in CampaignWorkbench._campaign_family(bench, *family)] == [methanol.key]
    assert bench._campaign_family(*family) == []
