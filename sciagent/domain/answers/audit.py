"""The results of the scheduler's audit of its own choices."""

from __future__ import annotations

from sciagent.domain.answers.model import AnswerModel


class EstimateWithInterval(AnswerModel):
    """An estimate and its 95 % interval."""

    low: float
    """Lower end of the 95 % interval."""
    estimate: float
    """Best estimate."""
    high: float
    """Upper end of the 95 % interval."""


class GuardState(AnswerModel):
    """The conformal guard: the chance of a hit below which candidates could be dropped."""

    threshold: float | None
    """Candidates with a chance of a hit below it could be dropped; null where the guard is not armed."""
    missing: int
    """How many more verified hits would arm the guard."""
    words: str
    """The same as a sentence."""


class RungAgreement(AnswerModel):
    """How a rung agrees with a higher rung that measures the same property."""

    property: str
    """The property that both rungs measure."""
    lower: str
    """Label of the lower rung."""
    upper: str
    """Label of the higher rung."""
    n: int
    """Candidates that both rungs answered."""
    effective: float
    """Number of equally weighted candidates that would tell as much (Kish)."""
    bias: float | None
    """Mean of lower less upper, in the property's unit; null where the scale belongs to the method."""
    rmse: float | None
    """Root mean square of lower less upper, in the property's unit; null where the scale belongs to the method."""
    spearman: float | None
    """Rank correlation; null below three candidates or where a rung is constant."""


class AuditReport(AnswerModel):
    """What the scheduler missed, estimated from the audited candidates."""

    share: float
    """Share of the spend that goes into the audit, between 0 and 1."""
    passed_over: int
    """Candidates that the law passed over."""
    jobs: int
    """Jobs that the audit has started."""
    audited: int
    """Candidates that were drawn and are verified."""
    at_work: int
    """Candidates that were drawn and whose job is out."""
    waiting: int
    """Candidates that were drawn and wait for a job."""
    hits: int
    """Hits among the audited candidates."""
    open: int
    """Candidates that were neither passed over nor decided; no figure speaks of them."""
    recall: EstimateWithInterval | None
    """Share of all hits that the scheduler's own choices reached."""
    with_audit: EstimateWithInterval | None
    """Share of all hits that were reached, with those of the audit."""
    missed: EstimateWithInterval | None
    """Hits among the candidates passed over that nobody has verified."""
    words: str
    """The same as a sentence, or why there is no estimate."""
    guard: GuardState
    """The conformal guard."""
    rungs: tuple[RungAgreement, ...]
    """Each rung against the next that measures the same property, and against the terminal rung."""
