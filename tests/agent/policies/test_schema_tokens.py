"""The tokens that a schema allows, as bits."""

from __future__ import annotations

import multiprocessing

import numpy as np
import torch

from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.policies.schema_tokens import all_allowed, allow_next, packed, unpacked
from tests.agent.policies.local_policy import Proposal, policy

__all__ = ["policy"]


def test_bits_are_the_booleans_that_were_packed() -> None:
    masks = np.random.default_rng(1).random((3, 77)) < 0.5
    assert np.array_equal(unpacked(torch.from_numpy(packed(masks)), 77).numpy(), masks)
    assert unpacked(torch.from_numpy(all_allowed(2, 77)), 77).all()


def test_a_fork_computes_what_its_parent_has_computed(policy: LocalPolicy) -> None:
    """Threads of a parent do not run in its forks: one that waits for them waits for ever."""

    def first() -> list[bytes]:
        answers = {row: policy.constrained(Proposal.model_json_schema()) for row in range(3)}
        bits = all_allowed(3, policy.model.config.vocab_size)
        assert not allow_next(answers, bits)
        return [row.tobytes() for row in bits]

    here = first()
    answered, answer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: answer.send(first()))
    child.start()
    try:
        assert answered.poll(60), "the fork does not answer"
        assert answered.recv() == here and len(set(here)) == 1
    finally:
        child.kill()
        child.join()
