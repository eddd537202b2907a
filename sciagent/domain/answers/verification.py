"""The result of a rung on a candidate, and the answer of `sciagent verify` on a single molecule."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.values import PropertyValue, ShownValue


class RungResult(AnswerModel):
    """The result of a rung on a candidate, with its cost."""

    rung: str
    """Label of the rung."""
    tier: str
    """Tier of its verifier."""
    outcome: str | None
    """`ok`, or another outcome; null where the rung did not run."""
    verdict: str | None
    """`pass`, `fail`, `not_applicable`, `inconclusive` or `error`, by gate and objectives; null where there is none."""
    reason: str | None
    """Reason why the candidate did not pass."""
    detail: str
    """The reason with numbers."""
    reused: bool
    """Whether the answer comes from earlier evidence."""
    core_seconds: float
    """Cost in core-seconds; 0 for a reused answer."""


class RungAnswer(RungResult):
    """The result of a rung on a molecule of `sciagent verify`, with the measured values."""

    values: Mapping[str, ShownValue]
    """Measured values, by property."""


class Calculation(AnswerModel):
    """The answer of `sciagent calc` on one molecule."""

    text: str
    """The molecule as it was given."""
    key: str | None = None
    """Key of the candidate; null where the text could not be read."""
    smiles: str | None = None
    """Canonical SMILES; null where the text could not be read."""
    outcome: str
    """`ok`, or another outcome; `refused` also where the text could not be read or the safety screen refused."""
    reason: str | None
    """Reason for an outcome other than `ok`."""
    detail: str
    """The reason in words."""
    reused: bool = False
    """Whether the answer comes from earlier evidence."""
    core_seconds: float = 0.0
    """Cost in core-seconds; 0 for a reused answer."""
    values: tuple[PropertyValue, ...] = ()
    """Measured values, in the unit that was asked for."""


class LadderAnswer(AnswerModel):
    """The answer of `sciagent verify`."""

    key: str | None
    """Key of the candidate; null where the text could not be read."""
    smiles: str | None
    """Canonical SMILES; null where the text could not be read."""
    verdict: str
    """`pass` for a hit, `fail` for no hit; `inconclusive` or `error` where the rungs could not decide."""
    reason: str | None
    """Reason why the molecule is not a hit."""
    detail: str
    """The reason with numbers."""
    rungs: tuple[RungAnswer, ...]
    """Answers, one per rung, up to the rung that the molecule failed."""
