"""Campaigns in which a model talked: groups of episodes with messages and tokens, answered by the test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sciagent.agent.conversation_and_asking import opening
from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall, to_json
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.chemistry.molecule import molecule_or_none
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn, Purpose, SampledRow
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.store.results import candidates
from sciagent.store.results.evidence import read_watermark
from tests.support.campaigns import write_campaign
from tests.support.rewarded import DFT, XTB, Rewarded

TOOLS = {"tools": [{"type": "function", "function": {"name": "propose", "parameters": {"type": "object"}}}]}
ANSWER = 4  # token ids of an answer


class Conversing(Rewarded):
    """A campaign whose episodes have messages and tokens."""

    def talk(
        self,
        number: int,
        turns: Sequence[str],
        *,
        group: int | None = None,
        sibling: int = 0,
        purpose: Purpose = "rollout",
        rationale: str = "a small one",
        thinking: str = "",
        learned: str = "",
    ) -> None:
        """Writes an episode. turns: the SMILES of each turn, separated by spaces; what is no molecule is refused.
        learned: the digest of results in the opening."""
        said = opening(briefing_and_workbench.goal(self.built), learned, "no limit", [], structured=False)
        with self.ledger.begin() as connection:
            proposed = {
                text: molecule
                for turn in turns
                for text in turn.split()
                if (molecule := molecule_or_none(text)) is not None
            }
            ids = candidates.enter(connection, proposed.values())
            offered = policies_and_roles.enter_tool_set(connection, TOOLS)
            trajectory = proposer_trajectories.open_(
                connection,
                self.built.row.id,
                number,
                proposer="tiny",
                settings={"opening": [to_json(message) for message in said]},
                seed=number,
                purpose=purpose,
                group_id=group,
                sibling=None if group is None else sibling,
            )
            held = 0
            for place, turn in enumerate(turns):
                texts = turn.split()
                said_of = [json.dumps({"smiles": text, "rationale": rationale}) for text in texts]
                calls = [ToolCall(f"call_{place}_{n}", "propose", said) for n, said in enumerate(said_of)]
                answer = Message("assistant", "", thinking, calls=tuple(calls))
                seen = [
                    Message("tool", "new; open" if text in proposed else "refused", call_id=call.id, name="propose")
                    for text, call in zip(texts, calls, strict=True)
                ]
                prompt = [50 * number + held + i for i in range(3)]
                sampled = SampledRow(
                    to_json(answer),
                    {"temperature": 1.0, "grammar": False},
                    kept=held,
                    prompt_ids=prompt,
                    output_ids=[10 + place] * ANSWER,
                    logprobs=[-0.25] * ANSWER,
                    behaviour=[0.0, -0.5, -0.5, -0.5],
                    forced=[True, False, False, False],
                )
                held += len(prompt) + ANSWER
                more: Any = {"tool_set_id": offered, "untrainable": None}
                new = NewTurn(
                    place,
                    {},
                    [],
                    [to_json(message) for message in seen],
                    {"llm_tokens": 7.0},
                    "tiny@0",
                    sampled,
                    **more,
                )
                turn_id = proposer_trajectories.write_turn(connection, trajectory, new, read_watermark(connection))
                for text in texts:
                    if text in proposed:
                        self._propose(connection, turn_id, text, ids[proposed[text].key])
                        continue
                    values = {"turn_id": turn_id, "text": text, "status": "refused", "reason": "unparsable"}
                    values |= {"campaign_id": self.built.row.id, "at": db_now(connection)}
                    connection.execute(sa.insert(t.proposal).values(values))
            proposer_trajectories.end(connection, trajectory, "finished by the model")

    def verify(self, smiles: str, gap: float, uncertainty: float = 0.05) -> None:
        """Lets all rungs answer; a hit lies from 3 to 9 eV."""
        self.check(smiles)
        for position, value in ((XTB, 8.0), (DFT, gap)):
            self.order(smiles, position)
            self.answer(smiles, position, {"homo_lumo_gap": value}, uncertainty=uncertainty)


def conversing(
    ledger: Ledger, folder: Path, name: str = "small", window: tuple[float, float] = (3.0, 9.0)
) -> Conversing:
    path = write_campaign(folder, name=name, window=window)
    built = create_or_open(ledger, load_spec(path), path.read_text(encoding="utf-8"), "test").built
    return Conversing(built)
