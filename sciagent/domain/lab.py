"""The questions that a world verifier asks people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import Property
from sciagent.domain.quantities import Quantity

QUEUE = "world"
"""The queue of jobs that people do. No worker takes from it."""
NOT_OBTAINED = (Reason.SYNTHESIS_FAILED, Reason.DECOMPOSED, Reason.INSOLUBLE, Reason.IMPURE)
"""Reasons for which a person could not measure a candidate that say something about the candidate."""


@dataclass(frozen=True)
class AskedQuantity:
    """A quantity that a person is to measure."""

    property: Property
    units: tuple[str, ...]
    """Units in which it may be entered; the first one is shown."""
    grades: tuple[str, ...] = ()
    """Words for the answer, from the worst to the best; empty for a number."""


@dataclass(frozen=True)
class LabForm:
    """The question about one candidate."""

    asks: tuple[AskedQuantity, ...]
    method: str
    """Name of the method of measurement."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What is to be kept constant, such as `{temperature: 25 °C, solvent: water}`."""
    protocol: str = ""
    """Name of the file with the protocol; empty without one."""
    question: str = ""
    """The question, where a person judges instead of measuring."""


@dataclass(frozen=True)
class LabAnswer:
    """The answer of a person about one candidate. Either it has values or grades, or `not_obtained` says why not."""

    values: Mapping[str, Quantity] = field(default_factory=dict)
    """Values by property, each in one of the units that were asked for."""
    grades: Mapping[str, str] = field(default_factory=dict)
    """Grades by property, where a judgement was asked for."""
    not_obtained: Reason | None = None
    """One of `NOT_OBTAINED`."""
    detail: str = ""
    """What the person adds in words."""
