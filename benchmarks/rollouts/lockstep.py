"""CPU time of the driver per turn: rollouts in lock-step, against the same calls in a campaign's own episodes.

    python -m benchmarks.rollouts.lockstep --out benchmarks/rollouts/lockstep.json

Both are asked by a script in this process, 48 episodes at once, with the checks and the safety screen as fast rungs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, Sampling
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing.model_source import ModelSource
from sciagent.campaign.proposing.source_contract_and_scripts import ProposerSlot, Source
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.campaign_rollouts import no_source, seed_source
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy

TEXT = """
campaign: lockstep
subject: molecule
seed: {seed}
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}
goal: {{kind: graded}}
budget: {{proposals: 100000}}
proposer: {{kind: screen, file: molecules.csv}}
scheduler: {{kind: exhaustive}}
"""
MOLECULES = ("CCCCO", "c1ccccc1O", "CC(=O)NC1CCCC1", "c1ccncc1C", "CCOC(=O)C", "c1ccsc1C", "NCCc1ccccc1", "CC(C)CO")
GROUPS = 6
SIBLINGS = 8


class OneByOne(ScriptedPolicy):
    """The script as a client that answers one question at a time."""

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        [answer] = self.answers([EpisodeQuestion(messages, tools, sampling)])
        if isinstance(answer, PolicyError):
            raise answer
        return answer


def opened(folder: Path, seed: int) -> Built:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES) + "\n")
    text = TEXT.format(seed=seed)
    built = create_or_open(Ledger(str(folder / "ledger.db")), parse_spec(text, base=folder), text, "benchmark").built
    with Driver(built, source=seed_source) as driver:
        driver.run()
    return built


def lockstep(seed: int, turns: int) -> float:
    """CPU milliseconds a turn."""
    with tempfile.TemporaryDirectory() as folder:
        built = opened(Path(folder), seed)
        spec = LlmSpec.model_validate({"kind": "llm", "model": "scripted", "structured": False})
        with Driver(built, source=no_source) as driver:
            runner = RolloutRunner(built, driver.session.lease, driver.worker, ScriptedPolicy(), spec)
            groups = runner.opened(RolloutPlan(GROUPS, SIBLINGS, turns, "scripted"))
            began = time.process_time()
            n = 0
            while (done := runner.step(groups)) is not None:
                n += done.turns
            return 1000 * (time.process_time() - began) / n


def one_by_one(seed: int, turns: int) -> float:
    """CPU milliseconds a turn of a campaign's own episodes, as many at once."""
    with tempfile.TemporaryDirectory() as folder:
        built = opened(Path(folder), seed)
        given = {"kind": "llm", "model": "scripted", "structured": False, "turns": turns}
        spec = LlmSpec.model_validate(given | {"episodes": GROUPS * SIBLINGS, "ahead": 10**6})

        def source(built: Built, lease: Any, worker: Any, bell: Any) -> Source:
            with built.ledger.begin() as connection:
                slot = ProposerSlot("", spec, 1, bell)
                return ModelSource(built, connection, lease, worker, OneByOne(), slot, spec)

        with Driver(built, source=source) as driver:
            asked = driver.intake.source
            n = 0
            began = time.process_time()
            while n < GROUPS * SIBLINGS * turns:
                if asked.prepare():
                    n += asked.take(100) is not None
            return 1000 * (time.process_time() - began) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs = [
        {"seed": seed, "lockstep_ms": lockstep(seed, given.turns), "one_by_one_ms": one_by_one(seed, given.turns)}
        for seed in range(1, given.seeds + 1)
    ]
    for run in runs:
        run["ratio"] = run["one_by_one_ms"] / run["lockstep_ms"]
    rounded = [{name: round(value, 2) for name, value in run.items()} for run in runs]
    found = {"episodes": GROUPS * SIBLINGS, "turns": given.turns, "runs": rounded}
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
