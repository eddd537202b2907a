"""The places of an episode's answers in its training rows, and the conditions under which they were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.trace import CONTEXT, Row
from sciagent.agent.trace.recomputing import schema_of
from sciagent.agent.trace.recorded import calls_of
from sciagent.store.campaign_state.trajectories import untrainable
from sciagent.store.learning.tool_sets import tool_set_content


class SampledTokens(NamedTuple):
    """The tokens of one answer as they were sampled."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """(n,)"""
    mask: tuple[bool, ...]
    """(n,) whether the token may be trained: it was not forced, and its distribution is known."""
    drawn: Mapping[str, object]
    """Temperature and schema."""


class SampledAnswers:
    """The answers of one episode."""

    def __init__(self, connection: Connection, turns: Sequence[Mapping[Any, Any]]) -> None:
        """turns: rows of the table."""
        self._all = turns
        self._turns = {turn["number"]: turn for turn in turns if turn["output_ids"] is not None}
        ids = {turn["tool_set_id"] for turn in self._turns.values()} - {None}
        self._tool_sets = {id_: tool_set_content(connection, id_) for id_ in ids}

    def spans(self, row: Row) -> list[Mapping[str, object]]:
        """Returns for each turn that a row trains where its answer lies, and what it was drawn under.

        The end of an answer may be replaced in a row. A row that stands aside has the beginning of its answer as
        context, so the answer is counted from its end.
        """
        found: list[Mapping[str, object]] = []
        for number in dict.fromkeys(turn for turn in row.turns if turn != CONTEXT):
            turn, begin = self._turns[number], row.turns.index(number)
            end = begin + row.turns.count(number)
            if row.aside:
                begin = end - len(turn["output_ids"])
            found.append({"turn": number, "begin": begin, "end": end, **self._drawn(turn)})
        return found

    def tokens(self) -> dict[int, SampledTokens]:
        """Returns the tokens of the answers by the number of their turn; turns without tokens are left out."""
        found = {}
        for call in calls_of(self._all):
            turn = self._turns[call.turn]
            known = untrainable(turn) is None
            mask = tuple(known and not forced for forced in call.forced)
            found[call.turn] = SampledTokens(call.prompt_ids, call.output_ids, mask, self._drawn(turn))
        return found

    def _drawn(self, turn: Mapping[Any, Any]) -> Mapping[str, object]:
        return {"temperature": turn["sampling"].get("temperature", 1.0), "schema": self._schema(turn)}

    def _schema(self, turn: Mapping[Any, Any]) -> Mapping[str, Any] | None:
        if not turn["sampling"].get("grammar") or turn["tool_set_id"] is None:
            return None
        return schema_of(turn["sampling"], self._tool_sets[turn["tool_set_id"]])
