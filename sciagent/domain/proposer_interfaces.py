"""Interfaces between packages, so that imports go in one direction.

A proposer sees a `Workbench` and takes a `Turn`; a script, which is a proposer without a model, sees a `ScriptBench`.
A dispatch gets a `Choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.worth import Worth


@dataclass(frozen=True)
class ProposalIn:
    """A proposed candidate: its text, rationale, predicted values by property, and names in a file by column."""

    text: str
    parents: tuple[str, ...] = ()
    """Keys of the candidates that it was made from."""
    operation: str = ""
    rationale: str = ""
    predicted: dict[str, Any] = field(default_factory=dict)
    multiplicity: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposalOut:
    """The workbench's reply to a proposal. status: new | duplicate | refused | filtered (the
    law of the proposer's filter dropped it). standing: after the rungs that answer at
    once. results: what inline rungs measured, one line each, after a line with the worth. candidate: its
    notation, which `best` lists; empty for a text that was refused."""

    text: str
    status: str
    key: str | None = None
    reason: str | None = None
    detail: str = ""
    standing: str | None = None
    results: tuple[str, ...] = ()
    candidate: str = ""


FILTERED = "filtered"
"""Status of a proposal that the law of its proposer's filter dropped; it does not count as a proposal."""
HELD_WORDS = "held by a person: nothing is run for it"


@dataclass(frozen=True)
class KnownCandidate:
    """A candidate as a proposer sees it, with its worth. depth: position of the rung reached. seq: place in
    order of arrival, from 0. operation: as its proposal states."""

    key: str
    text: str
    """Its notation."""
    worth: Worth
    depth: int
    in_seeds: bool = False
    seq: int = 0
    operation: str = ""
    is_held: bool = False
    """Whether a person holds it: nothing is run for it until it is released."""


class Workbench(Protocol):
    """The actions that a proposer may take. The package `campaign` implements them."""

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]: ...
    def best(self, n: int) -> list[KnownCandidate]:
        """Returns the n best candidates that have a worth, the best first."""

    def key_of(self, candidate: Candidate) -> str:
        """Returns the key that the candidate has in this campaign, which may standardise it."""

    def known(self, candidate: Candidate) -> bool: ...
    def missed_gate(self, candidate: Candidate) -> str | None:
        """Returns a line on the gate that the candidate misses, of the gates that need no engine; None if it misses
        none."""


@dataclass(frozen=True)
class Turn:
    """A turn. seed: derived from the campaign's seed, trajectory and turn. cursor: what the proposer returned last."""

    number: int
    seed: int
    cursor: Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """A decision to run the rung at `position` on candidate `id`.

    propensity: probability of this choice. law: version of the law used. price: hits per unit of a resource."""

    id: int
    position: Position
    index: float
    propensity: float = 1.0
    why: str = ""
    law: str | None = None
    price: Mapping[str, float] | None = None


@dataclass(frozen=True)
class MeasuredCandidate:
    """A candidate with a worth, and what was measured of it."""

    text: str
    """Its notation."""
    worth: Worth
    seq: int
    """Place in the order of arrival, from 0."""
    values: Mapping[str, float]
    """Results by property, in canonical units: those of the terminal rung, and those that an earlier rung decides,
    without limits such as `<3`; empty if none of them has answered."""
    key: str
    """Key of the candidate, which proposals made from it state among their `parents`."""


class PastFit(NamedTuple):
    """The part of a law entry that is learnt from its values."""

    transform: str
    log_hyper: Sequence[float]
    """Natural logarithms of the hyper-parameters."""
    calibration: Mapping[str, object]
    """The widths of its predictions, as `WidthCalibration.as_json` gives them."""


class PastProperty(NamedTuple):
    """The values of a property that are remembered."""

    values: Mapping[str, float]
    """{notation of a candidate: value in the canonical unit}"""
    fitted: PastFit | None
    """The fit of a law entry to the values; None if the law is still to be fitted, which then has no calibration."""


PastValues = Mapping[str, PastProperty]
"""{property: the values that are remembered of it}"""


class ScriptBench(Workbench, Protocol):
    """The workbench of scripts."""

    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues:
        """Returns what is remembered of the rungs that decide the objectives.

        campaigns: names of campaigns of the ledger, whose values count as they were when this campaign was made. law: a
        law entry, whose values count instead; None without one.
        """

    def measured(self) -> list[MeasuredCandidate]:
        """Returns the candidates that have a worth, best first."""


class Proposer(Protocol):
    """A source of candidates: a scripted search, a file or a model."""

    name: str

    @property
    def total(self) -> int | None:
        """Total number of candidates that it will propose; None if unknown."""

    def turn(self, workbench: ScriptBench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes at most `limit` candidates. Returns the new cursor, which the ledger keeps, or None at the end."""
