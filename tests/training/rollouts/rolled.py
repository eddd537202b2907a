"""A campaign with a few seeds, and runners of its rollouts without a driver process around them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, ToolCall
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.campaign_rollouts import model_spec, seed_source
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy
from sciagent.verification.sandbox.host import Worker

TEXT = """
campaign: rolled
subject: molecule
seed: 1
objectives: [{property: logp, window: [1, 2]}]
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {descriptors: [logp]}}
goal: {kind: graded}
budget: {proposals: 1000, llm_tokens: 1000000}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
safety: {screen: false, reason: molecules of a test}
"""
PLAN = RolloutPlan(groups=1, siblings=8, turns=3, policy="scripted")


FEW = ("CCN", "CCF", "CCS", "COC", "CCCO")


class Crowded(ScriptedPolicy):
    """Every second episode proposes one of a few molecules, so that siblings meet; the others edit at random."""

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [
            proposed(FEW[question.sampling.seed // 2 % len(FEW)]) if question.sampling.seed % 2 else edited
            for question, edited in zip(questions, super().answers(questions), strict=True)
            if question.sampling.seed is not None
        ]


def proposed(smiles: str) -> Sampled:
    message = Message("assistant", "", calls=(ToolCall("call_1", "propose", json.dumps({"smiles": smiles})),))
    return Sampled(message, "calls", None, ScriptedPolicy.name, prompt_tokens=0, output_tokens=0, seconds=0.0)


def seeded(ledger: Ledger, folder: Path, molecules: tuple[str, ...] = ("CO", "CCO"), text: str = TEXT) -> Built:
    """A campaign that has proposed its seeds."""
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n", encoding="utf-8")
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    with Driver(built, source=seed_source) as driver:
        driver.run()
    return open_stored(ledger, built.row.name, "test").built


def runner_of(built: Built, worker: Worker, policy: BatchPolicy | None = None) -> RolloutRunner:
    with built.ledger.begin() as connection:
        lease = campaigns.take_driver(connection, built.row.id, campaigns.new_owner())
    return RolloutRunner(built, lease, worker, policy or Crowded(), model_spec(built))


def let_go(built: Built) -> None:
    """Gives the driver lease back, as the end of a driver does."""
    with built.ledger.begin() as connection:
        connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))


@contextmanager
def copied(built: Built, folder: Path) -> Iterator[Built]:
    """The campaign in a copy of its ledger, a SQLite file."""
    folder.mkdir(parents=True)
    source, target = str(built.ledger.url.database), folder / "ledger.db"
    with closing(sqlite3.connect(source)) as ours, closing(sqlite3.connect(target)) as theirs:
        ours.backup(theirs)
    ledger = Ledger(str(target), artifacts=folder / "artifacts")
    yield open_stored(ledger, built.row.name, "test").built
    ledger.close()


def to_the_end(runner: RolloutRunner, groups: list[Any]) -> int:
    """Steps until all episodes have ended; returns the number of steps."""
    steps = 0
    while runner.step(groups) is not None:
        steps += 1
    return steps


def episodes(built: Built) -> dict[int, list[dict[str, Any]]]:
    """By sibling, all that its turns hold apart from ids, times and measured costs, with its proposals."""
    j, u, p, c = t.trajectory.c, t.turn.c, t.proposal.c, t.candidate.c
    found: dict[int, list[dict[str, Any]]] = {}
    turns = sa.select(j.sibling, u.id, u.number, u.message, u.calls, u.observations, u.cursor, u.sampling)
    turns = turns.select_from(t.turn.join(t.trajectory)).where(j.sibling.is_not(None)).order_by(j.sibling, u.number)
    proposals = sa.select(p.text, p.status, p.reason, p.operation, p.novelty, c.key)
    proposals = proposals.select_from(t.proposal.outerjoin(t.candidate, c.id == p.candidate_id)).order_by(p.id)
    with built.ledger.read() as connection:
        for sibling, id_, *held in connection.execute(turns).all():
            mine = [tuple(row) for row in connection.execute(proposals.where(p.turn_id == id_))]
            found.setdefault(sibling, []).append({"turn": held, "proposals": mine})
    return found
