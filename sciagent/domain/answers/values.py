"""Candidates and measured values as answers show them."""

from __future__ import annotations

from datetime import datetime

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.quantities import Censoring


class CandidateName(AnswerModel):
    """A candidate by its key and its structure."""

    key: str
    """Key of the candidate, 64 hexadecimal digits."""
    smiles: str
    """The structure as text."""


class ShownValue(AnswerModel):
    """One number with what makes it one."""

    value: float
    """In `unit`."""
    unit: str
    """The property's canonical unit."""
    uncertainty: float | None
    """Standard uncertainty (k = 1) in `unit`; null where nobody knows it."""
    level: str
    """Level of theory, or the experimental method."""


class RungValue(ShownValue):
    """A property's value at the highest rung that measured it."""

    rung: str
    """Label of the rung."""


class ImportedValue(AnswerModel):
    """A value that a person imported from a file. It stands beside the rungs' values and decides nothing."""

    property: str
    """Name of the property."""
    value: float
    """In `unit`."""
    unit: str
    """The property's canonical unit."""
    uncertainty: float | None
    """Standard uncertainty (k = 1) in `unit`; null where nobody knows it."""
    censoring: Censoring
    """`below` or `above` where the value is a limit of detection."""
    level: str
    """Level of theory, or the experimental method."""
    source: str
    """File or publication."""
    who: str
    """Who imported it."""
    at: datetime
    """When it was imported (UTC)."""
