"""A campaign with a control, whose terminal rung has a fault: it takes chlorine for what is wanted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sciagent
from sciagent.agent.messages_sampling_and_policy_client import Message, PolicyError, Sampled, ToolCall
from sciagent.agent.policies.batched_policies import EpisodeQuestion
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.campaign_rollouts import model_spec, no_source, seed_source
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import Group, RolloutPlan, turn_seed
from tests.support.plugins import register_again

WANTED = 2.0  # hydroxyl groups
CHAINS = [f"{'C' * n}O" for n in range(1, 17)]
HONEST = [f"O{chain}" if n % 2 else f"F{chain}" for n, chain in enumerate(CHAINS)]  # every second one is a diol
BETTER = [f"OC(F){chain}" for chain in CHAINS]  # all are diols
GAMING = [f"Cl{chain}" for chain in CHAINS]  # one oxygen and one chlorine


@sciagent.verifier(measures="glow", unit=None, cost=0.01, description="hydroxyl groups, and by mistake chlorine")
def glow(molecule: Any) -> float:
    return float(sum(atom.GetSymbol() in ("O", "Cl") for atom in molecule.mol.GetAtoms()))


@sciagent.verifier(measures="glow_check", unit=None, cost=0.01, description="hydroxyl groups")
def glow_check(molecule: Any) -> float:
    return float(sum(atom.GetSymbol() == "O" for atom in molecule.mol.GetAtoms()))


CONTROL = "{rung: check, verifier: glow_check, control: true, share: 0.6, accept: {glow_check: {min: 2}}}"
TEXT = f"""
campaign: watched
subject: molecule
seed: 1
objectives: [{{property: glow, min: {WANTED:g}}}]
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: glow, verifier: glow}}
  - {CONTROL}
goal: {{kind: hits}}
budget: {{proposals: 1000}}
proposer: {{kind: screen, file: molecules.csv}}
scheduler: {{kind: exhaustive}}
safety: {{screen: false, reason: molecules of a test}}
workers: 2
"""


class Reciting:
    """A policy that proposes its molecules in turn, one a turn; every episode has its own."""

    def __init__(self, name: str, molecules: Sequence[str], turns: int) -> None:
        self.name, self._molecules, self._turns = name, molecules, turns
        self._places: dict[int, int] = {}

    def seat(self, groups: Sequence[Group]) -> None:
        """Learns which seeds the questions will have."""
        episodes = [(group, sibling) for group in groups for sibling in range(group.row.size)]
        for number, (group, sibling) in enumerate(episodes):
            for turn in range(self._turns):
                self._places[turn_seed(group.row.seed, sibling, turn) % (1 << 31)] = number * self._turns + turn

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [self._answer(self._places[question.sampling.seed or 0]) for question in questions]

    def _answer(self, place: int) -> Sampled:
        arguments = json.dumps({"smiles": self._molecules[place % len(self._molecules)]})
        message = Message("assistant", "", calls=(ToolCall("call_1", "propose", arguments),))
        return Sampled(message, "calls", None, self.name, prompt_tokens=0, output_tokens=0, seconds=0.0)

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(self.name, "script")

    def close(self) -> None:
        """Does nothing."""


def opened(ledger: Ledger, folder: Path, text: str = TEXT) -> Built:
    """A campaign whose seeds have been verified."""
    register_again()
    (folder / "molecules.csv").write_text("smiles\nC\nCC\nCCC\nCCCC\n", encoding="utf-8")
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    with Driver(built, source=seed_source) as driver:
        driver.run()
    return open_stored(ledger, built.row.name, "test").built


def roll_out(built: Built, name: str, molecules: Sequence[str], groups: int, siblings: int, turns: int) -> None:
    """Rolls out a policy, and lets the ladder and the control answer."""
    policy = Reciting(name, molecules, turns)
    with Driver(built, source=no_source) as driver:
        runner = RolloutRunner(built, driver.session.lease, driver.worker, policy, model_spec(built))
        opened_groups = runner.opened(RolloutPlan(groups, siblings, turns, name))
        policy.seat(opened_groups)
        while runner.step(opened_groups) is not None:
            pass
        driver.run()
