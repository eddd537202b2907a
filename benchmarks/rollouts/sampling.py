"""Core time of a model in this process per answer: all siblings of a group together, against one after the other.

    python -m benchmarks.rollouts.sampling --out benchmarks/rollouts/sampling.json

A group of 8 episodes is rolled out; each question of a step is answered twice, and the answers are compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rollouts.lockstep import MOLECULES, TEXT
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.campaign_rollouts import model_spec, no_source, seed_source
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan

PROPOSER = (
    "{{kind: llm, seeds: molecules.csv, model: {model}, max_tokens: {tokens}, structured: {grammar}, "
    "tools: [modify, best]}}"
)


class Compared:
    """A model that answers each step together and then one question after the other; the first answers count."""

    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy
        self.name = policy.name
        self.together = 0.0
        self.alone = 0.0
        """Core-seconds."""
        self.tokens = 0
        self.answers_n = 0
        self.compared = 0
        self.differ = 0
        self.largest = 0.0
        """Sampled tokens, answers, answers to equal prompts, those with other tokens, and the largest difference of a
        log-probability among the rest."""

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        many = self._policy.sample_many(questions)
        for question, answer in zip(questions, many, strict=True):
            one = self._policy.sample(*question[:3])
            assert isinstance(answer, Sampled) and answer.tokens and one.tokens
            self.together = self.together + answer.core_seconds
            self.alone = self.alone + one.core_seconds
            self.tokens = self.tokens + answer.output_tokens
            self.answers_n = self.answers_n + 1
            if one.tokens.prompt_ids != answer.tokens.prompt_ids:
                continue  # the prompt begins with the tokens of the last answer, which alone was spelt anew
            self.compared += 1
            if one.tokens.output_ids != answer.tokens.output_ids:
                self.differ += 1
                continue
            pairs = zip(one.tokens.logprobs, answer.tokens.logprobs, strict=True)
            self.largest = max(self.largest, *(abs(first - second) for first, second in pairs))
        return many

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()


def compared(model: str, siblings: int, turns: int, tokens: int, grammar: bool) -> dict[str, Any]:
    """The figures of one group."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES) + "\n")
        proposer = PROPOSER.format(model=model, tokens=tokens, grammar=str(grammar).lower())
        text = TEXT.format(seed=1).replace("{kind: screen, file: molecules.csv}", proposer)
        built = create_or_open(
            Ledger(str(folder / "ledger.db")), parse_spec(text, base=folder), text, "benchmark"
        ).built
        with Driver(built, source=seed_source) as driver:
            driver.run()
        policy = Compared(LocalPolicy(model, device="cpu"))
        with Driver(built, source=no_source) as driver:
            runner = RolloutRunner(built, driver.session.lease, driver.worker, policy, model_spec(built))
            groups = runner.opened(RolloutPlan(1, siblings, turns, model))
            while runner.step(groups) is not None:
                pass
        policy.close()
    return {
        "grammar": grammar,
        "answers": policy.answers_n,
        "sampled_tokens": policy.tokens,
        "together_core_s": round(policy.together, 2),
        "alone_core_s": round(policy.alone, 2),
        "ratio": round(policy.alone / policy.together, 2),
        "compared": policy.compared,
        "differ": policy.differ,
        "largest_logprob_difference": float(f"{policy.largest:.1e}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--siblings", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs = [compared(given.model, given.siblings, given.turns, given.tokens, grammar) for grammar in (True, False)]
    found = {"model": given.model, "siblings": given.siblings, "turns": given.turns, "runs": runs}
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
