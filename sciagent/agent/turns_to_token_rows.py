"""Converts the turns of a trajectory to training rows, from the calls as they were sampled.

A row is a sequence of token ids for a causal model. Two rules hold for the rows of a trajectory:

- every sampled token is trained in one row, as it was sampled, with its log-probability;
- the tokens before it in that row are exactly what the model saw: the prompt of its turn and the answer so far.

A conversation that only grows is one row. If a prompt replaces part of the held tokens (the last prompt and its
answer), the same prefix has two sampled continuations, and a causal model needs two rows. Both rows contain the prefix;
its sampled tokens are trained in the first row and are context in the second. `Join` names the cases. A prompt without
a shared prefix, as after a compaction, is the same case with an empty prefix.

The log-probabilities of drawn tokens can be computed again from what the ledger holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.messages_sampling_and_policy_client import NO_CHANCE, Tokens, shared_prefix
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.policies.schema_tokens import allowed_sets, unpacked
from sciagent.store.campaign_state import proposer_trajectories

DRIFT_LIMIT = 32  # tokens; text that was tokenised again is usually shorter, a stripped thought usually longer
CONTEXT = -1  # stands for the turn of a token that was not sampled in its row


class _Mark(NamedTuple):
    """A token of a row, without its id. `Row` explains the fields."""

    mask: bool
    logprob: float
    behaviour: float | None
    turn: int


_GIVEN = _Mark(mask=False, logprob=0.0, behaviour=None, turn=CONTEXT)  # of a token that was not sampled in its row


class Join(StrEnum):
    """The ways in which a prompt can continue a row. REALIGN and FORK each add a row and lose no tokens."""

    APPEND = "append"
    """The prompt begins with all held tokens. The added tokens are context."""
    REALIGN = "realign"
    """From a place inside an answer on, the prompt has other tokens than the held ones, of which at most `drift_limit`
    follow that place: the answer was parsed, rendered and tokenised again. The row continues with the prompt's tokens
    as context. The replaced tokens move to a row of their own, after a copy of their prefix, and are trained there
    after what the model saw. A trainer with little compute can leave such rows out (`Linearised.drifted`)."""
    FORK = "fork"
    """Any other case, including a prompt that only removes part of an answer. The row ends, and a new one starts with
    the whole prompt as context."""


@dataclass(frozen=True)
class RecordedCall:
    """The tokens of one call of the model. Raises ValueError, which names the turn, if the lengths differ."""

    turn: int
    prompt_ids: tuple[int, ...]
    """(p,) with p > 0."""
    output_ids: tuple[int, ...]
    """(n,)"""
    logprobs: tuple[float, ...]
    """(n,) as in `Tokens`."""
    forced: tuple[bool, ...]
    """(n,) as in `Tokens`."""
    behaviour: tuple[float, ...] | None = None
    """(n,) as in `Tokens`."""

    def __post_init__(self) -> None:
        n = len(self.output_ids)
        if self.behaviour is not None and len(self.behaviour) != n:
            raise ValueError(f"turn {self.turn}: {n} sampled ids and {len(self.behaviour)} behaviour log-probabilities")
        if not n == len(self.logprobs) == len(self.forced):
            raise ValueError(
                f"turn {self.turn}: {n} sampled ids, {len(self.logprobs)} log-probabilities and {len(self.forced)} "
                "flags of what was forced; every sampled id needs both"
            )
        if not self.prompt_ids:
            raise ValueError(f"turn {self.turn}: the prompt has no ids, so nothing predicts the first sampled id")
        if self.turn < 0:
            raise ValueError(f"turn {self.turn}: turns are numbered from 0")

    @classmethod
    def of(cls, turn: int, tokens: Tokens) -> RecordedCall:
        return cls(
            turn=turn,
            prompt_ids=tokens.prompt_ids,
            output_ids=tokens.output_ids,
            logprobs=tokens.logprobs,
            forced=tokens.forced,
            behaviour=tokens.behaviour,
        )


@dataclass(frozen=True)
class Row:
    """One training sequence of t tokens."""

    ids: tuple[int, ...]
    """(t,)"""
    mask: tuple[bool, ...]
    """(t,) whether the token is trained here: it was sampled in this row and not forced."""
    logprobs: tuple[float, ...]
    """(t,) as recorded for sampled tokens; 0.0 elsewhere."""
    behaviour: tuple[float | None, ...]
    """(t,) log-probability of a sampled token in the distribution that it was drawn from; None if unknown, and
    elsewhere."""
    turns: tuple[int, ...]
    """(t,) turn in which the token was sampled, or `CONTEXT`."""
    aside: bool = False
    """Whether the row holds the tokens that a realignment replaced."""

    @property
    def sampled(self) -> tuple[bool, ...]:
        """(t,) whether the token was sampled in this row."""
        return tuple(turn != CONTEXT for turn in self.turns)


@dataclass(frozen=True)
class Linearised:
    """The training rows of a trajectory."""

    rows: tuple[Row, ...]
    """In the order in which the rows ended."""
    joins: dict[Join, int]
    """Number of joins of each kind; the first turn has none."""
    drifted: int
    """Number of sampled tokens in rows with `aside`."""


def linearise(records: Iterable[RecordedCall], drift_limit: int = DRIFT_LIMIT) -> Linearised:
    """Returns the training rows of a trajectory. records: its calls in order; iterated once.

    drift_limit: largest number of held tokens that a realignment may replace; 0 always forks. Rows without sampled
    tokens are left out. Time and memory are linear in the number of ids. Raises ValueError if the turns do not increase
    or drift_limit < 0.
    """
    if drift_limit < 0:
        raise ValueError(f"drift_limit is {drift_limit}; it must be 0 or more")
    rows: list[Row] = []
    joins = Counter(dict.fromkeys(Join, 0))  # with an entry for each kind
    drifted = 0
    draft = _Draft()
    last = None
    for record in records:
        if last is not None and record.turn <= last:
            raise ValueError(f"turn {record.turn} comes after turn {last}; turns must increase")
        kept = shared_prefix(draft.ids, record.prompt_ids)
        new_ids = record.prompt_ids[kept:]
        if last is not None:
            join = draft.join(kept, replaced=bool(new_ids), drift_limit=drift_limit)
            joins[join] += 1
            if join is Join.REALIGN:
                aside = draft.row(kept)
                drifted += sum(aside.sampled)
                rows.append(aside)
                draft.cut(kept)
            elif join is Join.FORK:
                rows.append(draft.row())
                draft = _Draft()
                new_ids = record.prompt_ids
        draft.add(new_ids, record)
        last = record.turn
    rows.append(draft.row())
    return Linearised(tuple(row for row in rows if any(row.sampled)), dict(joins), drifted)


class _Draft:
    """The row being written. It always holds the ids of the last prompt and its answer."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._marks: list[_Mark] = []

    def join(self, kept: int, *, replaced: bool, drift_limit: int) -> Join:
        """Returns how the next prompt continues the row. kept: shared ids. replaced: whether other ids follow."""
        drift = len(self.ids) - kept
        if drift == 0:
            return Join.APPEND
        differs_in_answer = self._marks[kept] != _GIVEN
        if differs_in_answer and replaced and drift <= drift_limit:
            return Join.REALIGN
        return Join.FORK

    def add(self, context: tuple[int, ...], record: RecordedCall) -> None:
        """Adds a prompt's new ids as context, and the answer."""
        self.ids += (*context, *record.output_ids)
        self._marks += [_GIVEN] * len(context)
        drawn = record.behaviour or (None,) * len(record.output_ids)
        self._marks += [
            _Mark(not forced, logprob, chance, record.turn)
            for forced, logprob, chance in zip(record.forced, record.logprobs, drawn, strict=True)
        ]

    def cut(self, kept: int) -> None:
        """Drops the tokens from `kept` on."""
        del self.ids[kept:], self._marks[kept:]

    def row(self, kept: int = 0) -> Row:
        """Returns the row. With `kept` it stands aside and trains only the later tokens; earlier ones are context."""
        marks = [_GIVEN] * kept + self._marks[kept:]
        return Row(
            ids=tuple(self.ids),
            mask=tuple(mark.mask for mark in marks),
            logprobs=tuple(mark.logprob for mark in marks),
            behaviour=tuple(mark.behaviour for mark in marks),
            turns=tuple(mark.turn for mark in marks),
            aside=kept > 0,
        )


def schema_of(sampling: Mapping[str, Any], tool_set: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the schema that restricted a whole answer; None without one. sampling, tool_set: as in the ledger."""
    is_restricted = sampling["grammar"] and tool_set["structured"]
    return in_order(tool_set["answer_schema"]) if is_restricted else None


def in_order(schema: Any) -> Any:
    """Returns a schema whose objects have their properties in the order of `required`, which names all of them.

    A grammar follows the order of the properties. PostgreSQL keeps the order of lists, but not the order of properties.
    """
    if isinstance(schema, list):
        return [in_order(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    ordered = {name: in_order(value) for name, value in schema.items()}
    required = ordered.get("required")
    if isinstance(required, list) and "properties" in ordered:
        properties = ordered["properties"]
        ordered["properties"] = {name: properties[name] for name in [*required, *properties]}
    return ordered


def behaviour_of(
    policy: LocalPolicy, call: RecordedCall, sampling: Mapping[str, Any], tool_set: Mapping[str, Any]
) -> tuple[float, ...]:
    """Returns (n,) natural log-probabilities of the n output ids in the distribution that they were drawn from.

    The whole sequence is computed at once; the grammar is made again from the schema of the tool set. sampling,
    tool_set: as in the ledger. Raises ValueError for an answer that was drawn without chance, or if the schema does not
    allow an output id.
    """
    import torch

    if sampling["temperature"] <= 0:
        raise ValueError(f"turn {call.turn}: {NO_CHANCE}")
    ids = torch.tensor([[*call.prompt_ids, *call.output_ids[:-1]]], device=policy.model.device)
    n = len(call.output_ids)
    with torch.inference_mode():
        logits = policy.model(input_ids=ids, use_cache=False, logits_to_keep=n).logits[0].float()
    schema = schema_of(sampling, tool_set)
    if schema is not None:
        bits = torch.from_numpy(_allowed(policy, schema, call)).to(logits.device)
        logits = logits.masked_fill(~unpacked(bits, logits.shape[-1]), -torch.inf)
    table = torch.log_softmax(logits / sampling["temperature"], dim=-1)
    output_ids = torch.tensor(call.output_ids, device=table.device)
    drawn = table[torch.arange(n), output_ids]
    return tuple(drawn.tolist())


def _allowed(policy: LocalPolicy, schema: Mapping[str, Any], call: RecordedCall) -> Any:
    """Returns (n, words) bits: the tokens that the schema allowed at each place of the answer."""
    try:
        return allowed_sets(policy.constrained(schema), call.output_ids)
    except ValueError as error:
        raise ValueError(f"turn {call.turn}: {error}") from None


def recorded_calls(connection: Connection, trajectory_id: int) -> list[RecordedCall]:
    """Returns the calls of a trajectory in order, with whole prompts. Turns without tokens are left out."""
    return calls_of(proposer_trajectories.turns(connection, trajectory_id))


def calls_of(turns: Sequence[Mapping[Any, Any]]) -> list[RecordedCall]:
    """Returns the calls in the turns of one trajectory. turns: all rows of the table, in order.

    The ledger does not repeat the first `kept` ids of a prompt: the last prompt and its answer begin with them, too.
    """
    calls = list[RecordedCall]()
    held = tuple[int, ...]()
    for turn in turns:
        if turn["output_ids"] is None:
            held = ()
            continue
        prompt = (*held[: turn["kept"]], *turn["prompt_ids"])
        output = tuple(turn["output_ids"])
        drawn = None if turn["behaviour"] is None else tuple(turn["behaviour"])
        call = RecordedCall(
            turn=turn["number"],
            prompt_ids=prompt,
            output_ids=output,
            logprobs=tuple(turn["logprobs"]),
            forced=tuple(turn["forced"]),
            behaviour=drawn,
        )
        calls.append(call)
        held = (*prompt, *output)
    return calls
