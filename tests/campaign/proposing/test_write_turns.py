"""A script, a model, a client and rollouts leave the rows of turns, proposals, candidates, bookings and events that are
recorded in tests/campaign/recorded.

Sources, ledger and rungs are the real ones. No driver runs and no paid rung is asked: the sources are asked directly.
Rungs cost what this module says, so that bookings can be compared; ids of rows follow the order of writing.

To record again, after a change that is meant to change rows, run this file with SCIAGENT_RECORD=1.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent.messages_sampling_and_policy_client import (
    EpisodeQuestion,
    Message,
    PolicyError,
    Sampled,
    Sampling,
    Tokens,
    ToolCall,
)
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing import mcp_episode, source_contract_and_scripts
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.campaign.proposing.mcp_episode import McpEpisode
from sciagent.campaign.proposing.model_source import ModelSource
from sciagent.campaign.proposing.source_contract_and_scripts import ProposerSlot, ScriptSource
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.policy_identity import SCRIPT, PolicyIdentity
from sciagent.domain.proposer_interfaces import ProposalIn, ProposalOut
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.table_building_blocks import UtcDateTime
from sciagent.training.rollouts.campaign_rollouts import model_spec
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.verification.sandbox.host import HostResult, Request, Worker

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
RECORDED = Path(__file__).parent.parent / "recorded"
CAMPAIGN = """
campaign: turns
subject: molecule
seed: 3
objectives: [{{property: logp, window: [0, 2]}}]
ladder:
  - {{rung: descriptors, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}
  - {{rung: quick, verifier: bad.quick, inline: true}}
goal: {{kind: graded}}
budget: {{proposals: {proposals}, llm_tokens: 100000, core_seconds: 1000}}
proposer: {proposer}
scheduler: {{kind: exhaustive}}
"""
ISOMERS = "standardise: {stereo: enumerate, most: 3}\n"
MOLECULES = "smiles,id\nCCO,A\nOCC,B\nC((,C\nCC=CC#N,D\nCC(Cl)C(C)Br,E\nO=C(Cl)Cl,F\nCCN,G\nCCCN,H\n"
SCREEN = "{kind: screen, file: molecules.csv, keep: [id], batch: 5}"
MODEL = (
    "{kind: llm, model: fixed, structured: false, seeds: molecules.csv, turns: 6, episodes: 1, "
    "tools: [propose, modify, best, note, finish], batch: 2}"
)
TABLES = (
    *(t.trajectory, t.turn, t.proposal, t.candidate, t.candidate_alias, t.candidate_name, t.candidate_parent),
    *(t.campaign_candidate, t.attempt, t.evidence, t.decision, t.spend, t.cost_observation, t.event, t.rollout_group),
)
NOT_COMPARED = {
    "trajectory": {"code_version", "settings"},
    "turn": {"tool_set_id"},
    "candidate": {"inchikey", "payload", "identity", "library", "standardiser"},
    "attempt": {"owner"},
    "evidence": {"key", "verifier_version", "settings_hash", "diagnostics", "versions", "seal"},
    "cost_observation": {"verifier_version", "settings_hash"},
    "rollout_group": {"code_version", "opening", "opening_hash", "snapshot", "task", "tool_set_id"},
}
"""Columns that name the machine, its libraries and processes, or that hold whole prompts."""


class FixedCosts:
    """A process of rungs whose results cost one core-second, and one more for each carbon atom."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def run(self, request: Request) -> list[HostResult]:
        results = self._worker.run(request)
        costs = [Cost(core_seconds=1.0 + candidate.text.upper().count("C")) for candidate in request.candidates]
        return [
            replace(result, cost=cost, wall_seconds=0.5, own_seconds=0.25)
            for result, cost in zip(results, costs, strict=True)
        ]

    def close(self) -> None:
        """Does nothing: the other kinds of proposers use the process."""


@pytest.fixture(scope="module")
def rungs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    preload = ["safety.screen", "molecule.checks", "bad.quick"]
    with Worker(tmp_path_factory.mktemp("scratch"), preload=preload) as worker:
        yield FixedCosts(worker)


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script computes for a quarter of a second in each turn."""
    clock = itertools.count(step=0.25)
    monkeypatch.setattr(source_contract_and_scripts, "time", SimpleNamespace(thread_time=lambda: next(clock)))


def opened(ledger: Ledger, folder: Path, proposer: str, *, proposals: int = 40, more: str = ISOMERS) -> Built:
    (folder / "molecules.csv").write_text(MOLECULES, encoding="utf-8")
    text = CAMPAIGN.format(proposer=proposer, proposals=proposals) + more
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def lease_of(built: Built) -> DriverLease:
    with built.ledger.begin() as connection:
        return campaigns.take_driver(connection, built.row.id, "driver")


def screened(built: Built, rungs: Any, lease: DriverLease, *, turns: int) -> None:
    """Takes turns of the script of the campaign."""
    [(_, spec)] = built.spec.proposers
    with built.ledger.begin() as connection:
        source = ScriptSource(built, connection, lease, rungs, ProposerSlot("", spec))
    for _ in range(turns):
        source.take(15)


def sampled(*calls: tuple[str, Mapping[str, Any]], number: int, **more: Any) -> Sampled:
    """The answer of a model that calls tools, with its tokens. number: of the answer, from 1."""
    made = [ToolCall(f"call_{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(calls, 1)]
    tokens = Tokens(
        prompt_ids=tuple(range(10 * number)),
        output_ids=(7, 8),
        logprobs=(-0.25, -0.5),
        forced=(False, True),
        mode="raw",
        template_hash="server",
        behaviour=(-0.25, 0.0),
    )
    message = Message("assistant", "", calls=tuple(made))
    return Sampled(message, "calls", tokens, "fixed@1", 10 * number, 2, seconds=1.5, core_seconds=0.125, **more)


def propose(smiles: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "propose", {"smiles": smiles, "rationale": "a guess", **more}


PREDICTED = {"predictions": [{"property": "logp", "value": 0.5, "error": 0.25}]}
FINISH = ("finish", {"reason": "the goal is met"})
MODIFY = ("modify", {"parent": "#1", "edit": "add substituent", "what": "fluoro", "where": None})


class FixedModel:
    """A model that gives the same answers in the same order, and then fails."""

    name = "fixed"

    def __init__(self, answers: Sequence[Sampled]) -> None:
        self._answers = list(answers)

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        if not self._answers:
            raise PolicyError("it is away")
        return self._answers.pop(0)

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [self._answers.pop(0) for _ in questions]

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(served, SCRIPT)

    def close(self) -> None:
        """Does nothing."""


def by_script(ledger: Ledger, folder: Path, rungs: Any, patch: pytest.MonkeyPatch) -> Built:
    """A file with duplicates, a text that is no molecule, stereoisomers and a blocked molecule, in two turns."""
    built = opened(ledger, folder, SCREEN)
    screened(built, rungs, lease_of(built), turns=2)
    return built


def by_model(ledger: Ledger, folder: Path, rungs: Any, patch: pytest.MonkeyPatch) -> Built:
    """Seeds, an episode that its model finishes, and one in which the model fails."""
    built = opened(ledger, folder, MODEL)
    lease = lease_of(built)
    answers = [
        sampled(propose("CCCO", **PREDICTED), ("note", {"text": "alcohols do"}), number=1, refused={"top_p": "no"}),
        sampled(propose("O=C(Cl)Cl"), propose("C(("), propose("CCF"), number=2, refused={"top_p": "no"}),
        sampled(MODIFY, propose("CC=CCO"), number=3),
        sampled(propose("CCO"), FINISH, number=4),
    ]
    [(_, spec)] = built.spec.proposers
    assert isinstance(spec, LlmSpec)
    slot = ProposerSlot("", spec, bell=threading.Event())
    with built.ledger.begin() as connection:
        source = ModelSource(built, connection, lease, rungs, FixedModel(answers), slot, spec)
    for _ in range(8):  # turns of seeds, of an episode, and of one that fails
        if source.prepare():
            source.take(15)
        else:
            slot.bell.wait(10)
            slot.bell.clear()
            source.take(15)
    source.close()
    return built


def by_client(ledger: Ledger, folder: Path, rungs: Any, patch: pytest.MonkeyPatch) -> Built:
    """Calls of two clients. The second one proposes when the first has just made the last proposal of the budget."""
    built = opened(ledger, folder, SCREEN, proposals=16)
    screened(built, rungs, lease_of(built), turns=1)
    patch.setattr(mcp_episode, "Worker", lambda *given, **more: rungs)
    with McpEpisode(built, "first") as first, McpEpisode(built, "second") as second:
        for name, arguments in [
            ("best", {"n": 3}),
            propose("CCCO", **PREDICTED),
            propose("OCCC"),
            propose("O=C(Cl)Cl"),
            propose("C(("),
            propose("CC=CCO"),
            MODIFY,
            ("note", {"text": "alcohols do"}),
            propose("CCF", predictions=[{"property": "logb", "value": 0.5, "error": 0.25}]),
        ]:
            first.call(name, arguments)
        unpatched = AgentWorkbench.propose

        def late(bench: AgentWorkbench, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
            patch.setattr(AgentWorkbench, "propose", unpatched)
            first.call(*propose("CCCCO"))
            return unpatched(bench, proposals)

        patch.setattr(AgentWorkbench, "propose", late)
        second.call(*propose("CCCF"))
        second.call(*propose("CCCCF"))
    return built


def by_rollouts(ledger: Ledger, folder: Path, rungs: Any, patch: pytest.MonkeyPatch, standardise: str = "") -> Built:
    """Two groups of two episodes. Siblings propose the same candidate; one group breaks at a model that fails."""
    built = opened(ledger, folder, SCREEN, more=standardise)
    lease = lease_of(built)
    screened(built, rungs, lease, turns=1)
    first_turns = [
        sampled(propose("CCCO", **PREDICTED), number=1),
        sampled(propose("CCCO"), propose("C(("), number=1),
        sampled(propose("OCCF"), number=1),
        PolicyError("it is away"),
    ]
    second_turns = [sampled(propose("CCCF"), propose("CCO"), number=2), sampled(MODIFY, FINISH, number=2)]
    policy = FixedModel([*first_turns, *second_turns])  # type: ignore[list-item]
    runner = RolloutRunner(built, lease, rungs, policy, model_spec(built))
    groups = runner.opened(RolloutPlan(groups=2, siblings=2, turns=2, policy="fixed"))
    while runner.step(groups) is not None:
        pass
    return built


KINDS: Mapping[str, Callable[[Ledger, Path, Any, pytest.MonkeyPatch], Built]] = {
    "script": by_script,
    "model": by_model,
    "client": by_client,
    "rollouts": by_rollouts,
}


def rows_of(ledger: Ledger) -> list[list[Any]]:
    """[table, row without times] of all rows that turns write, in the order of their ids."""
    found: list[list[Any]] = []
    with ledger.read() as connection:
        for table in TABLES:
            is_left_out = NOT_COMPARED.get(table.name, set())
            columns = [c for c in table.c if not isinstance(c.type, UtcDateTime) and c.name not in is_left_out]
            query = sa.select(*columns).order_by(*table.primary_key)
            found += [[table.name, dict(row)] for row in connection.execute(query).mappings()]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_turns_leave_the_rows_that_are_recorded(
    kind: str, ledger: Ledger, tmp_path: Path, rungs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    KINDS[kind](ledger, tmp_path, rungs, monkeypatch)
    rows = rows_of(ledger)
    file = RECORDED / f"turns_of_{kind}.json"
    if os.environ.get("SCIAGENT_RECORD"):
        file.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    assert rows == json.loads(file.read_text(encoding="utf-8"))


def test_rollouts_write_the_molecule_of_which_stereoisomers_are_proposed(
    ledger: Ledger, tmp_path: Path, rungs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit of the last turn makes a molecule with undefined stereo; both stereoisomers are candidates."""
    by_rollouts(ledger, tmp_path, rungs, monkeypatch, standardise=ISOMERS)
    parent, c, p = t.candidate.alias(), t.candidate_parent.c, t.proposal.c
    query = sa.select(parent.c.text, sa.func.count()).join(t.candidate_parent, c.parent_id == parent.c.id)
    query = query.join(t.proposal, p.id == c.proposal_id).where(c.operation == "isomer", p.text == "CC(O)F")
    with ledger.read() as connection:
        assert [tuple(row) for row in connection.execute(query.group_by(parent.c.text))] == [("CC(O)F", 2)]
