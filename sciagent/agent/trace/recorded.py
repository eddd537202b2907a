"""Reads the calls of a model from the ledger, as they were sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.agent.trace import RecordedCall
from sciagent.store.campaign_state import trajectories


def recorded_calls(connection: Connection, trajectory_id: int) -> list[RecordedCall]:
    """Returns the calls of a trajectory in order, with whole prompts. Turns without tokens are left out."""
    return calls_of(trajectories.turns(connection, trajectory_id))


def calls_of(turns: Sequence[Mapping[Any, Any]]) -> list[RecordedCall]:
    """Returns the calls in the turns of one trajectory. turns: all rows of the table, in order.

    Of a prompt the ledger keeps only what follows the first `kept` ids of the turn before and its answer.
    """
    calls, held = list[RecordedCall](), tuple[int, ...]()
    for turn in turns:
        if turn["output_ids"] is None:
            held = ()
            continue
        prompt, output = (*held[: turn["kept"]], *turn["prompt_ids"]), tuple(turn["output_ids"])
        drawn = None if turn["behaviour"] is None else tuple(turn["behaviour"])
        call = RecordedCall(turn["number"], prompt, output, tuple(turn["logprobs"]), tuple(turn["forced"]), drawn)
        calls.append(call)
        held = (*prompt, *output)
    return calls
