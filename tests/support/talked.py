"""The campaign of `reported`, where beside a script two models and a person propose, in episodes with predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciagent.agent.messages_sampling_and_policy_client import NO_TOKENS, Message, to_json
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import campaigns, proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn, SampledRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.store.results.evidence import read_watermark
from tests.support.reported import GFN2, PBE0, Maker, gap

LIMITS = {"kind": "llm", "turns": 8, "tokens": 4096, "context": 8192}
ERRORS = {"alpha": 0.4, "beta": 0.1}  # eV, by how much each model is wrong; alpha less with every episode


class Talker(Maker):
    """Writes episodes turn by turn, as the driver does."""

    def begin(self, proposer: str, number: int, opening: str = "Find a gap between 4 and 4.6 eV.") -> int:
        messages = [to_json(Message("system", "You propose molecules.")), to_json(Message("user", opening))]
        with self.ledger.begin() as connection:
            return proposer_trajectories.open_(
                connection, self.row.id, number, proposer=proposer, settings=LIMITS | {"opening": messages}, seed=number
            )

    def say(
        self,
        trajectory: int,
        number: int,
        text: str,
        *,
        thinking: str = "",
        content: str = "",
        seen: str = "new; open",
        tool: str = "propose",
        ok: bool = True,
        tokens: bool = True,
        rationale: str = "one ring more",
        policy: str = "m-1",
    ) -> None:
        """One turn with one call; what is proposed next is of this turn."""
        arguments = json.dumps({"smiles": text, "rationale": rationale})
        message = to_json(Message("assistant", content, thinking))
        used = {"prompt_tokens": 120, "output_tokens": 30, "seconds": 1.5}
        row = SampledRow(message, used)
        if tokens:
            kept = {"kept": 0, "prompt_ids": [1, 2, 3, 4], "output_ids": [1, 2, 3, 4], "logprobs": [-0.1] * 4}
            row = replace(row, **kept, behaviour=[0.0, -0.1, -0.1, -0.1], forced=[True, False, False, False])
        calls = [{"tool": tool, "arguments": arguments, "ok": ok}]
        cost = {"llm_tokens": 150.0}
        if tool == "propose":
            cost["core_seconds"] = 0.5
        with self.ledger.begin() as connection:
            said = [to_json(Message("tool", seen, name=tool[:64]))]
            why = None if tokens else NO_TOKENS
            new = NewTurn(number, {}, calls, said, cost, policy, row, untrainable=why)
            self.turn = proposer_trajectories.write_turn(connection, trajectory, new, read_watermark(connection))
            reservations_and_bookings.book_many(
                connection, [reservations_and_bookings.Bill(self.row.id, None, None, cost)]
            )

    def propose_text(self, text: str) -> None:
        """A proposal of the last turn that no rung has seen."""
        with self.ledger.begin() as connection:
            self.propose(connection, text, "refused")

    def foretell(self, smiles: str, value: float, error: float, **more: Any) -> int:
        """Propose it with a prediction; its place."""
        self.enter((smiles,), predicted={"homo_lumo_gap": {"value": value, "error": error}}, **more)
        return len(self.ids) - 1

    def settle(self, i: int, value: float, seconds: float = 60.0) -> None:
        """Both paid rungs answer; a hit lies between 4 and 4.6 eV."""
        self.answer(i, 1, gap(value - 2.2, GFN2), seconds=2.0)
        self.answer(i, 2, gap(value, PBE0, 0.03), seconds=seconds)
        hit = 4.0 <= value <= 4.6
        self.place(
            i,
            Standing.SETTLED,
            2,
            verdict="pass" if hit else "fail",
            depth=2,
            expected=0.5,
            is_hit=hit,
            utility=1.0 - abs(value - 4.3) / 4,
            reason=None if hit else "above_window",
        )


def talked(ledger: Ledger, folder: Path, episodes: int = 12, turns: int = 2, **changed: Any) -> Talker:
    """`alpha` proposes in the odd episodes, `beta` in the even ones; then `evolve` and a person, one candidate each."""
    made = Talker(ledger, folder, **changed)
    script = made.turn
    size = 0
    for number in range(1, episodes + 1):
        who = "alpha" if number % 2 else "beta"
        trajectory = made.begin(who, number)
        for turn in range(turns):
            size += 1
            text = f"{'C' * (2 + size // 3)}{('O', 'N', 'S')[size % 3]}"
            made.say(trajectory, turn, text, thinking="A heteroatom lowers the gap.", tokens=who == "beta")
            value = 4.2 + (size % 5) * 0.2
            wrong = ERRORS[who] * ((1 - number / (2 * episodes)) if who == "alpha" else 1)
            i = made.foretell(text, value + wrong, 0.2, rationale="a heteroatom")
            if turn < 2 and number < episodes:  # the last episode is not answered yet
                made.settle(i, value)
        with ledger.begin() as connection:
            proposer_trajectories.end(connection, trajectory, "finished by the model")
    made.turn = script
    made.enter(("c1ccccc1",))
    made.settle(len(made.ids) - 1, 4.4)
    with ledger.begin() as connection:
        made.propose(connection, "c1ccccc1", "duplicate", candidate_id=made.ids[-1])
        made.propose(connection, "C1CC", "refused", reason="unparsable", detail="ring 1 is not closed")
    made.enter(("CC#N",), turn_id=None)
    with ledger.read() as connection:
        made.row = campaigns.get(connection, made.row.name)
    return made
