"""From the turns of one trajectory to rows that can be trained.

A row is one sequence of ids for a causal model. Two rules hold of the rows together:

- every sampled token stands in them once as sampled, with its log-probability;
- what stands before it in its row is exactly what the model saw: the prompt of its turn and the answer so far.

So a conversation that only grows is one row. Where a prompt takes back some of what is held (the last prompt and its
answer), two continuations of one prefix have been sampled, and a causal model needs two rows for that. They share the
prefix; the sampled tokens of the prefix are trained in one of them and are context in the other. `Join` says which.
A prompt that shares nothing, as after a compaction, is the same case with an empty prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sciagent.agent.messages import Tokens
from sciagent.agent.trace.deltas import delta_of

DRIFT_LIMIT = 32  # tokens; a seam that was tokenised anew is shorter, a thought that was stripped mostly longer
CONTEXT = -1  # the turn of a token that was not sampled in its row


class Join(StrEnum):
    """How a prompt goes on from what is held.

    append: it starts with all of it. What it adds is context.

    realign: it differs from somewhere inside an answer on, and at most `drift_limit` tokens are held from there. Such
    drift comes of an answer that was parsed, rendered and tokenised anew. The row goes on with the prompt's tokens as
    context. The tokens they replace go aside, to a row of their own behind a copy of their prefix. To train them where
    they were would train what follows on ids the model did not see; to drop them would bias training against whatever
    drifts.

    fork: anything else. The row ends as it is, and a new one starts with the whole prompt as context.

    Both realign and fork cost one row and lose nothing. They differ in where the signal lies: a row aside trains at
    most `drift_limit` tokens, so a trainer short of compute can leave these rows out and knows what it loses
    (`Linearised.drifted`). No row of a fork can be left out like that. For the same reason a prompt that takes back
    the answer and puts nothing in its place is a fork: the model was asked again, and what it said first is as much its
    doing as what it said then.
    """

    APPEND = "append"
    REALIGN = "realign"
    FORK = "fork"


@dataclass(frozen=True)
class Recorded:
    """One call of the model. prompt_ids: (p,), p > 0. output_ids, logprobs, forced: (n,) each, as in `Tokens`.

    Raises ValueError with the turn where these do not fit each other.
    """

    turn: int
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    forced: tuple[bool, ...]

    def __post_init__(self) -> None:
        n = len(self.output_ids)
        if not n == len(self.logprobs) == len(self.forced):
            raise ValueError(
                f"turn {self.turn}: {n} sampled ids, {len(self.logprobs)} log-probabilities and {len(self.forced)} "
                "flags of what was forced; there must be one of each for every sampled id"
            )
        if not self.prompt_ids:
            raise ValueError(f"turn {self.turn}: the prompt has no ids, so nothing predicts the first sampled one")
        if self.turn < 0:
            raise ValueError(f"turn {self.turn}: turns are numbered from 0")

    @classmethod
    def of(cls, turn: int, tokens: Tokens) -> Recorded:
        return cls(turn, tokens.prompt_ids, tokens.output_ids, tokens.logprobs, tokens.forced)


@dataclass(frozen=True)
class Row:
    """ids, mask, logprobs, turns: (t,) each.

    mask: trained here, which is sampled here and not forced. logprobs: as recorded where a token was sampled, 0.0
    elsewhere. turns: the turn that sampled the token, or `CONTEXT`. aside: holds what a realignment replaced.
    """

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    turns: tuple[int, ...]
    aside: bool = False

    @property
    def sampled(self) -> tuple[bool, ...]:
        return tuple(turn != CONTEXT for turn in self.turns)


@dataclass(frozen=True)
class Linearised:
    """rows: in the order in which they ended. joins: how often each `Join` was made, the first turn left out.
    drifted: sampled tokens that lie in rows aside."""

    rows: tuple[Row, ...]
    joins: dict[Join, int]
    drifted: int


def linearise(records: Iterable[Recorded], drift_limit: int = DRIFT_LIMIT) -> Linearised:
    """The rows of one trajectory. records: its calls in order; they are read once, one at a time.

    drift_limit: the most held tokens a realignment may replace; 0 to fork always. A row in which nothing was sampled
    is left out. Time and memory are linear in the ids of the records.

    Raises ValueError where turns do not increase or drift_limit < 0.
    """
    if drift_limit < 0:
        raise ValueError(f"drift_limit is {drift_limit}; it must be 0 or more")
    rows: list[Row] = []
    joins = Counter(dict.fromkeys(Join, 0))
    drifted = 0
    draft = _Draft()
    last = None
    for record in records:
        if last is not None and record.turn <= last:
            raise ValueError(f"turn {record.turn} comes after turn {last}; turns must increase")
        kept, new_ids = delta_of(draft.ids, record.prompt_ids)
        if last is not None:
            join = draft.join(kept, replaced=bool(new_ids), drift_limit=drift_limit)
            joins[join] += 1
            if join is Join.REALIGN:
                aside = draft.aside(kept)
                drifted += sum(aside.sampled)
                rows.append(aside)
                draft.cut(kept)
            elif join is Join.FORK:
                rows.append(draft.row())
                draft, new_ids = _Draft(), record.prompt_ids
        draft.add_context(new_ids)
        draft.add_answer(record)
        last = record.turn
    rows.append(draft.row())
    return Linearised(tuple(row for row in rows if any(row.sampled)), dict(joins), drifted)


class _Draft:
    """The row being written. Its ids are always the last prompt and its answer."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.mask: list[bool] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []

    def join(self, kept: int, *, replaced: bool, drift_limit: int) -> Join:
        """kept: how many ids the prompt keeps. replaced: it has others in place of those it does not keep."""
        drift = len(self.ids) - kept
        if drift == 0:
            return Join.APPEND
        in_answer = self.turns[kept] != CONTEXT
        return Join.REALIGN if in_answer and replaced and drift <= drift_limit else Join.FORK

    def add_context(self, ids: tuple[int, ...]) -> None:
        self.ids += ids
        self.mask += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.turns += [CONTEXT] * len(ids)

    def add_answer(self, record: Recorded) -> None:
        self.ids += record.output_ids
        self.mask += [not forced for forced in record.forced]
        self.logprobs += record.logprobs
        self.turns += [record.turn] * len(record.output_ids)

    def cut(self, kept: int) -> None:
        for column in (self.ids, self.mask, self.logprobs, self.turns):
            del column[kept:]

    def row(self) -> Row:
        return Row(tuple(self.ids), tuple(self.mask), tuple(self.logprobs), tuple(self.turns))

    def aside(self, kept: int) -> Row:
        """What a cut would lose, behind the rest as context."""
        return Row(
            tuple(self.ids),
            (False,) * kept + tuple(self.mask[kept:]),
            (0.0,) * kept + tuple(self.logprobs[kept:]),
            (CONTEXT,) * kept + tuple(self.turns[kept:]),
            aside=True,
        )
