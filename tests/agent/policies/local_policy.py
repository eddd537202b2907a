"""A local policy on a tiny model, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from sciagent.agent.messages_sampling_and_policy_client import Message
from sciagent.agent.policies.local_model import LocalPolicy

FUNCTION = {"name": "propose", "description": "A molecule.", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": FUNCTION}
TALK = (Message("system", "Be brief."), Message("user", "A molecule with a gap below 3 eV?"))


class Proposal(BaseModel):
    model_config = ConfigDict(extra="forbid")
    smiles: str = Field(pattern="^[cCNO1()=]+$", min_length=2, max_length=9)
    n: int = Field(ge=2, le=17)
    kind: Literal["add", "swap"]


@pytest.fixture(scope="module")
def policy(tiny: str) -> Iterator[LocalPolicy]:
    made = LocalPolicy(tiny, device="cpu")
    yield made
    made.close()
