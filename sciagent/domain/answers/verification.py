"""What a rung made of a candidate, and what the ladder says of a molecule that is verified by itself."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.values import ShownValue


class RungResult(AnswerModel):
    """What a rung made of a candidate, and what that cost."""

    rung: str
    """Label of the rung."""
    tier: str
    """Tier of its verifier."""
    outcome: str | None
    """`ok`, or how it ended otherwise; null where it did not run."""
    verdict: str | None
    """`pass`, `fail`, `not_applicable`, `inconclusive` or `error`, by gate and objectives; null where there is none."""
    reason: str | None
    """Why it did not pass."""
    detail: str
    """The same with numbers."""
    reused: bool
    """Whether the ledger knew the answer before."""
    core_seconds: float
    """What it cost, in core-seconds; 0 if it was reused."""


class RungAnswer(RungResult):
    """What a rung says of a molecule that is verified by itself."""

    values: Mapping[str, ShownValue]
    """What it measured, by property."""


class LadderAnswer(AnswerModel):
    """The answer of `sciagent verify`."""

    key: str | None
    """Key of the candidate; null where the text could not be read."""
    smiles: str | None
    """Canonical SMILES; null where the text could not be read."""
    verdict: str
    """`pass`: it is a hit; `fail`; `inconclusive` or `error`: that could not be decided."""
    reason: str | None
    """Why it is no hit."""
    detail: str
    """The same with numbers."""
    rungs: tuple[RungAnswer, ...]
    """An answer a rung, up to the rung that failed it."""
