"""The contract of reward terms: what a term reads, what it returns, and how the installed terms are found.

A term is a class of the entry point group `sciagent.reward_terms`. A description of rewards names it under `terms`,
with a weight, and its settings under `term_settings`. Its name, version and settings enter the hash of the description.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from sciagent.errors import LedgerAwayError, UnknownNameError, UsageError
from sciagent.verification.verifier_registry import OURS, installed

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.campaign.core.built_campaign_and_derived_values import Built
    from sciagent.store.learning.reward_inputs import EpisodeRow, EpisodeTurn

GROUP = "sciagent.reward_terms"
RESERVED_PARTS = ("evidence", "cost")
"""Parts of a turn's reward that are no terms."""
ROUNDING = 1e-9  # the most by which rounding lifts a mean of values above their limit, 1

Unsettled = Literal["settled", "posterior", "robust"]
"""The key `unsettled` of a description of rewards: how candidates without an answer of the terminal rung are valued."""


class Settlement(StrEnum):
    """The degree to which evidence has decided about a candidate."""

    ANSWERED = "answered"
    """The terminal rung has answered."""
    REFUSED = "refused"
    """A gate, a check or the terminal rung has thrown the candidate out."""
    KNOWN = "known"
    """The candidate was in the snapshot that its episode began with."""
    UNDECIDED = "undecided"
    """A job is under way, has crashed, was lost, or its answer decides nothing."""
    OPEN = "open"
    """All rungs that were bought for the candidate have answered, and the terminal rung is not among them."""


class CandidateState(NamedTuple):
    """The state of a candidate at a watermark."""

    settlement: Settlement
    payoff: float | None = None
    """Payoff by the terminal rung's answer; set if `settlement` is `ANSWERED`."""
    expected: float | None = None
    """Payoff that the law (the model that predicts the answers of rungs) expects of a terminal verification; None
    without a law."""
    chance: float | None = None
    """Probability with which the candidate was drawn for the terminal rung; None if no lot was drawn."""
    screened: bool = False
    """Whether a fast rung has thrown the candidate out."""


class TermSettings(BaseModel):
    """Base of the settings of a term: unknown keys are refused, and the values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class TermInputs:
    """The episodes of a version of rewards, and what the ledger knows of their candidates."""

    built: Built
    """The campaign with its subject and its ladder."""
    as_of: int
    """The watermark of the rewards. Later evidence must not count."""
    unsettled: Unsettled
    """How the rewards value candidates that the terminal rung has not answered."""
    episodes: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]]
    """Each episode with its turns in order; those of a group stand one after the other."""
    states: Mapping[int, CandidateState]
    """The state at the watermark by candidate id, of all candidates that were new in a turn; without expectations."""
    notations: Mapping[int, str]
    """The notation by candidate id, of the same candidates: of molecules SMILES."""


@dataclass(frozen=True)
class TurnOfEpisode:
    """A turn within its episode."""

    episode: EpisodeRow
    turns: Sequence[EpisodeTurn]
    """All turns of the episode, in order."""
    position: int
    """Index of the turn in `turns`, from 0."""

    @property
    def turn(self) -> EpisodeTurn:
        """The turn itself, with its proposals."""
        return self.turns[self.position]

    @property
    def earlier(self) -> Sequence[EpisodeTurn]:
        """The turns of the episode before this one."""
        return self.turns[: self.position]

    @property
    def is_last(self) -> bool:
        """Whether no turn of the episode follows."""
        return self.position == len(self.turns) - 1


class RewardTerm(ABC):
    """A named term of the reward of a turn, beside the evidence and its cost.

    Raise `version` whenever the values change for the same settings: the rewards then have another hash. A term must
    be a function of the evidence up to the watermark, so that a version of rewards can be computed again.
    """

    name: ClassVar[str]
    """The name of its entry point, as descriptions of rewards state it."""
    version: ClassVar[str]
    Settings: ClassVar[type[TermSettings]] = TermSettings

    def __init__(self, settings: Any) -> None:
        """settings: an instance of `Settings`."""
        self.settings = settings

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        """Reads once what `of` needs for all episodes. Does nothing by default. connection: reads the ledger only."""
        return None

    @abstractmethod
    def of(self, turn: TurnOfEpisode) -> float | None:
        """Returns the term of a turn before its weight, from -1 to 1; None while it is undecided."""


def _entry_points() -> Mapping[str, EntryPoint]:
    return installed(GROUP, "reward term")


def term_names() -> tuple[str, ...]:
    """Returns the names of the installed terms, sorted."""
    return tuple(sorted(_entry_points()))


def package_of(name: str) -> str:
    """Returns `package version` of the distribution that offers an installed term."""
    dist = _entry_points()[name].dist
    return f"{dist.name} {dist.version}" if dist else "unknown"


def term_class(name: str) -> type[RewardTerm]:
    """Returns the class of an installed term. Raises UnknownNameError, or UsageError if its package does not load or
    the class breaks the contract."""
    points = _entry_points()
    if name not in points:
        raise UnknownNameError("reward term", name, points)
    where = f'reward term "{name}" of {package_of(name)}'
    kind: Any
    try:
        kind = points[name].load()
    except Exception as error:  # whatever the package raises
        raise UsageError(f"{where} does not load: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, RewardTerm)):
        raise UsageError(f"{where}: {kind!r} is no subclass of sciagent.rewards.reward_term_contract.RewardTerm")
    missing_methods = sorted(kind.__abstractmethods__)
    if missing_methods:
        raise UsageError(f"{where}: {kind.__name__} lacks {', '.join(missing_methods)}")
    if getattr(kind, "name", None) != name:
        raise UsageError(f"{where}: its class has to state name = {name!r}, as its entry point does")
    if name in RESERVED_PARTS:
        raise UsageError(f"{where}: every reward has a part of this name; give the term another one")
    version: object = getattr(kind, "version", None)
    if not isinstance(version, str) or not version:
        raise UsageError(f'{where}: version must be a text such as "1", not {version!r}')
    settings: object = kind.Settings
    if not (isinstance(settings, type) and issubclass(settings, TermSettings)):
        raise UsageError(f"{where}: Settings must be a subclass of sciagent.rewards.reward_term_contract.TermSettings")
    return kind


class UsedTerm:
    """A term with the settings of a description of rewards. If a term of another package fails, the error names it."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        """settings: as the description states them."""
        self.name = name
        kind = term_class(name)
        with _named_faults(name):
            self._term = kind(kind.Settings.model_validate(settings))

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        """Lets the term read what it needs. Raises UsageError for whatever another package raises."""
        with _named_faults(self.name):
            self._term.prepare(connection, inputs)

    def of(self, turn: TurnOfEpisode) -> float | None:
        """Returns the term of a turn. Raises UsageError for whatever another package raises, and for an answer that is
        neither None nor a number from -1 to 1."""
        where = f"in turn {turn.turn.number} of episode {turn.episode.number}"
        with _named_faults(self.name, where):
            value: Any = self._term.of(turn)
        if value is None:
            return None
        if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1 + ROUNDING:
            what = f"returns {value!r:.80} {where}, which is neither None nor a number from -1 to 1"
            raise UsageError(f'the reward term "{self.name}" of {package_of(self.name)} {what}; {_WAY_OUT}')
        return float(value)


_WAY_OUT = "no rewards were written; correct the package, or leave the term out"


@contextmanager
def _named_faults(name: str, where: str = "") -> Iterator[None]:
    """Raises UsageError, which names term and package, for whatever a term of another package raises.

    where: the turn, if the term fails at one.
    """
    try:
        yield
    except LedgerAwayError:  # no fault of the package
        raise
    except Exception as error:
        dist = _entry_points()[name].dist
        if dist is None or dist.name == OURS:
            raise
        fails = f"fails {where}".strip()
        fault = f"{type(error).__name__}: {error}"
        raise UsageError(f'the reward term "{name}" of {package_of(name)} {fails}: {fault}; {_WAY_OUT}') from error
