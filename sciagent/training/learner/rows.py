"""Training rows: token ids, which of them are trained, and what each is worth. The learner reads nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class AnswerSpan(NamedTuple):
    """An answer of the model in a row: the tokens from `begin` up to `end`."""

    begin: int
    end: int
    temperature: float = 1.0
    """The temperature at which the answer was drawn; above 0."""
    schema: str | None = None
    """JSON text of the schema that restricted the answer; None without one."""


class RowTurn(NamedTuple):
    """A turn in a row: the tokens from `begin` up to `end` are its answer."""

    number: int
    """Number of the turn in its episode, from 0."""
    begin: int
    end: int


class EpisodeTurns(NamedTuple):
    """The turns of a row's episode, from which a value head makes advantages."""

    episode: str
    """Name of the episode. Rows of the same episode have to be trained in one step."""
    rewards: tuple[float | None, ...]
    """(turns of the episode,) None for an undecided reward."""
    turns: tuple[RowTurn, ...]
    """The turns that the row has."""
    group: str | None = None
    """Name of the group of siblings that the episode belongs to; None without siblings."""


class TurnValue(NamedTuple):
    """The target of the value head for one turn."""

    begin: int
    """Place of the first token of the turn's answer; what is before it is the state that has the value."""
    before: float
    """The value by the value head as it is at the start of a step."""
    target: float


@dataclass(frozen=True)
class TrainingRow:
    """A sequence of t token ids for a causal model. Raises ValueError for arrays that do not fit together."""

    ids: tuple[int, ...]
    """(t,)"""
    mask: tuple[bool, ...]
    """(t,) whether the token is trained; False for context, for forced tokens, and for the first one."""
    advantages: tuple[float, ...]
    """(t,) how much better than expected the token's turn was; 1 for tokens to imitate; 0 where not trained."""
    behaviour: tuple[float, ...] | None = None
    """(t,) natural log-probabilities in the distribution that the tokens were drawn from; 0 where not trained. None for
    tokens that are imitated: then the loss has no ratio."""
    spans: tuple[AnswerSpan, ...] = ()
    """Answers that were drawn at another temperature than 1 or under a schema. The others may be left out."""
    weight: float = 1.0
    """Factor of the row's tokens in the mean over the step."""
    reward: float | None = None
    """Reward of the row's episode, for the metrics; None if unknown."""
    teacher_context: tuple[int, ...] | None = None
    """The tokens that a teacher sees in place of those before the first trained one; None: the same tokens."""
    episode: EpisodeTurns | None = None
    """For a value head; None where advantages are known."""
    values: tuple[TurnValue, ...] = ()
    """For a value head, during a step."""
    regularised: bool = True
    """Whether the entropy bonus and the divergences from the reference and from teachers count for the row's tokens.
    They do not for a row that trains a difference of advantages, since they counted when its tokens were trained."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        lengths = {len(self.mask), len(self.advantages), n if self.behaviour is None else len(self.behaviour)}
        if lengths != {n}:
            raise ValueError(f"a row of {n} ids has mask, advantages or behaviour of another length")
        if not n or self.mask[0]:
            raise ValueError("the first token of a row cannot be trained, since nothing predicts it")
        used = [place for place, masked in enumerate(self.mask) if masked]
        if not all(math.isfinite(self.advantages[place]) for place in used):
            raise ValueError("a trained token has no finite advantage")
        if self.behaviour is not None and not all(math.isfinite(self.behaviour[place]) for place in used):
            raise ValueError("a trained token has no finite log-probability of its behaviour")
        if not all(0 < span.begin <= span.end <= n and span.temperature > 0 for span in self.spans):
            raise ValueError("an answer lies outside its row, or was drawn without chance")

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)
