"""Rungs that are marked inline: their values are in the tool's answer, and everyone who used them pays."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sciagent
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import RewardedEpisode, show
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts import campaign_snapshot_and_workbench
from sciagent.training.rollouts.campaign_snapshot_and_workbench import EpisodeMemory, SnapshotBench
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.training.rollouts.tool_calls_across_episodes import FastRungs
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import (
    PLAN,
    TEXT,
    Crowded,
    copied,
    episodes,
    let_go,
    proposed,
    runner_of,
    seeded,
    to_the_end,
)

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
XTB = (
    "{rung: xtb, verifier: xtb.singlepoint, settings: {geometry: {method: mmff94, conformers: 1}}, "
    "gate: {homo_lumo_gap: {min: 3, unit: eV}}, inline: true}"
)
GAPS = TEXT.replace("logp, window: [1, 2]", "homo_lumo_gap, window: [2, 9], unit: eV").replace(
    "goal: {kind: graded}", f"  - {XTB}\ngoal: {{kind: hits}}"
)
TOKENS = RewardSpec(prices={"llm_tokens": 1e-4}, unsettled="settled")
SECONDS = RewardSpec(prices={"llm_tokens": 1e-4, "core_seconds": 1.0}, unsettled="settled")


class Talking(Crowded):
    """Pays a token for each character that it reads, so that a reward depends on all that was observed."""

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        read = [sum(len(message.content) for message in question.messages) for question in questions]
        return [
            replace(given, prompt_tokens=n)
            for given, n in zip(super().answers(questions), read, strict=True)
            if isinstance(given, Sampled)
        ]


def rolled_out(built: Built, worker: Worker, folder: Path, order: Sequence[int], spec: RewardSpec) -> dict[int, Any]:
    """By sibling: its turns, proposals and published rewards, rolled out in a copy of the ledger in this order."""
    with copied(built, folder) as other:
        runner = runner_of(other, worker, Talking())
        [group] = runner.continued()
        group.siblings = [group.siblings[number] for number in order]
        to_the_end(runner, [group])
        version = publish(other.ledger, other.row.name, spec).version
        earned = {episode.sibling: earnings(episode) for episode in show(other.ledger, version).episodes}
        return {sibling: (turns, earned[sibling]) for sibling, turns in episodes(other).items()}


def earnings(episode: RewardedEpisode) -> list[Any]:
    """Returns the earnings of the turns, without the comparison with siblings."""
    return [(turn.reward, turn.to_go, turn.terms, turn.candidates) for turn in episode.turns]


def compared(built: Built, worker: Worker, folder: Path, spec: RewardSpec) -> dict[int, Any]:
    """Rolls a group out together, backwards, and each sibling alone; all must be equal. Returns the siblings."""
    runner_of(built, worker, Talking()).opened(PLAN)
    let_go(built)
    together = rolled_out(built, worker, folder / "together", range(PLAN.siblings), spec)
    assert rolled_out(built, worker, folder / "backwards", range(PLAN.siblings)[::-1], spec) == together
    for number in range(PLAN.siblings):
        alone = rolled_out(built, worker, folder / f"alone{number}", [number], spec)
        assert alone[number] == together[number]
    return together


@pytest.mark.long
def test_siblings_observe_and_earn_the_same_alone_backwards_and_beside_the_others(
    ledger: Ledger, tmp_path: Path
) -> None:
    built = seeded(ledger, tmp_path, ("CO", "CCO"), GAPS)
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as worker:
        together = compared(built, worker, tmp_path / "computed", TOKENS)
        observed = [text for turns, _ in together.values() for text in map(str, turns)]
        assert sum("xtb: homo_lumo_gap" in text for text in observed) > PLAN.siblings
        found = Counter(c.key for _, turns in together.values() for *_, candidates in turns for c in candidates)
        assert max(found.values()) > 1, "no candidate was proposed by two siblings, so nothing was tested"
        assert all(reward is not None for _, turns in together.values() for reward, *_ in turns)
        # measured seconds differ from run to run; where all answers are in the ledger, even their cost is the same
        runner = runner_of(built, worker, Talking())
        to_the_end(runner, runner.continued())
        let_go(built)
        known = seeded(ledger, tmp_path, ("CO", "CCO"), GAPS.replace("campaign: rolled", "campaign: again"))
        compared(known, worker, tmp_path / "known", SECONDS)


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    return seeded(ledger, tmp_path, ("CO", "CCO"), GAPS)


def test_two_siblings_with_one_candidate_earn_the_same_and_both_pay_for_it(built: Built, worker: Worker) -> None:
    class Alike(Talking):
        def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
            return [proposed("c1ccccc1") for _ in questions]

    runner = runner_of(built, worker, Alike())
    to_the_end(runner, runner.opened(RolloutPlan(1, 2, 1, "scripted")))
    spec = RewardSpec(prices={"core_seconds": 1e-3}, unsettled="settled")
    first, second = show(built.ledger, publish(built.ledger, built.row.name, spec).version).episodes
    [one], [other] = first.turns, second.turns
    assert one.terms["evidence"] == other.terms["evidence"] == 1.0 and one.terms["cost"] == other.terms["cost"]
    a, e, s, c = t.attempt.c, t.evidence.c, t.spend.c, t.candidate.c
    xtb = sa.select(a.id, a.cost, a.turn_id).where(a.rung_id == built.rungs[-1].id, a.turn_id.is_not(None))
    of_candidate = xtb.join(t.evidence, e.attempt_id == a.id).join(t.candidate, c.id == e.candidate_id)
    with built.ledger.read() as connection:
        [(attempt, cost, _)] = connection.execute(of_candidate.where(c.text == "c1ccccc1")).all()
        booked = connection.execute(sa.select(s.amount).where(s.attempt_id == attempt)).scalars().all()
        charged = connection.execute(
            sa.select(t.turn.c.cost).join(t.trajectory).where(t.trajectory.c.group_id.is_not(None))
        ).scalars()
        assert booked == [cost["core_seconds"]], "it is booked once"
        assert all(each["core_seconds"] >= cost["core_seconds"] > 0 for each in charged), "each turn is charged"


def test_best_lists_the_episodes_own_candidate_once_the_inline_rung_has_answered(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        frozen = campaign_snapshot_and_workbench.take(connection, built)
    memory, rungs = EpisodeMemory(), FastRungs(built, worker)

    def bench() -> SnapshotBench:
        return SnapshotBench(built, worker, rungs, frozen, memory, room=8, trajectory=1)

    assert all(row.worth.expected_utility < 0.5 for row in frozen.board)
    first = bench()
    [out] = first.propose([ProposalIn("c1ccccc1")])
    assert out.standing == "settled" and out.results[0] == "hit, utility 1.00"
    assert out.results[1].startswith("xtb: homo_lumo_gap 4.")
    memory.extend(first.learned())
    assert bench().best(1)[0].text == "c1ccccc1" and bench().results_of(str(out.key)) == [out.results[1]]


@sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.moody", cost=0.01)
def moody(molecule: Any) -> float:
    if molecule.smiles == "CCN":
        time.sleep(60)
    if molecule.smiles == "CCF":
        os.kill(os.getpid(), signal.SIGKILL)
    return float(molecule.heavy_atoms)


MOODY = TEXT.replace("logp, window: [1, 2]", "heavy_atoms, min: 2").replace(
    "goal: {kind: graded}",
    "  - {rung: moody, verifier: fn.moody, inline: true, limits: {wall_seconds: 0.5}}\ngoal: {kind: hits}",
)


def test_a_timeout_and_a_crash_of_one_candidate_do_not_stop_the_step(ledger: Ledger, tmp_path: Path) -> None:
    class Each(Talking):
        def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
            smiles = ["CCN", "CCF", "CCS", "COC"]
            return [proposed(text) for _, text in zip(questions, smiles, strict=True)]

    built = seeded(ledger, tmp_path, ("CO", "CCO"), MOODY)
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as worker:
        runner = runner_of(built, worker, Each())
        groups = runner.opened(RolloutPlan(1, 4, 1, "scripted"))
        runner.step(groups)
    said = [turns[0]["turn"][3][0]["content"] for turns in episodes(built).values()]
    assert "dropped; moody: not measured; wall_limit: more than 0.5 s" in said[0]
    assert "dropped; moody: not measured; kills_workers: 5 processes were lost with it" in said[1]
    assert all("settled; hit, utility 1.00; moody: heavy_atoms 3" in text for text in said[2:])
    published = show(built.ledger, publish(built.ledger, built.row.name, TOKENS).version).episodes
    assert [episode.outcome is None for episode in published] == [True, True, False, False], "None is never 0"
    with built.ledger.read() as connection:
        a = t.attempt.c
        failed = connection.execute(sa.select(a.state, a.outcome).where(a.outcome.in_(("timeout", "crashed"))))
        assert sorted(map(tuple, failed)) == [("failed", "crashed"), ("failed", "timeout")]
