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
    """The state of the conformal guard, which finds the chance of a hit below which candidates could be dropped."""

    threshold: float | None
    """Chance of a hit below which candidates could be dropped; null where the guard is not armed."""
    missing: int
    """Number of further verified hits that would arm the guard."""
    words: str
    """The state of the guard as a sentence."""


class RungAgreement(AnswerModel):
    """The agreement of a rung with a higher rung that measures the same property."""

    property: str
    """The property that both rungs measure."""
    lower: str
    """Label of the lower rung."""
    upper: str
    """Label of the higher rung."""
    n: int
    """Number of candidates that both rungs answered."""
    effective: float
    """Effective sample size (Kish): number of equally weighted candidates that would give as much information."""
    bias: float | None
    """Mean of lower minus upper, in the property's unit; null where the scale belongs to the method."""
    rmse: float | None
    """Root mean square of lower minus upper, in the property's unit; null where the scale belongs to the method."""
    spearman: float | None
    """Rank correlation; null below three candidates or where a rung is constant."""


class AuditReport(AnswerModel):
    """An estimate of the hits that the scheduler missed, from the audited candidates."""

    share: float
    """Share of the spending that goes into the audit, between 0 and 1."""
    passed_over: int
    """Number of candidates that the law passed over."""
    jobs: int
    """Number of jobs that the audit has started."""
    audited: int
    """Number of drawn candidates that are verified."""
    at_work: int
    """Number of drawn candidates whose job is running or queued."""
    waiting: int
    """Number of drawn candidates that wait for a job."""
    hits: int
    """Number of hits among the audited candidates."""
    open: int
    """Number of candidates that were neither passed over nor decided; the estimates leave them out."""
    recall: EstimateWithInterval | None
    """Share of all hits that were found by the scheduler's own choices."""
    with_audit: EstimateWithInterval | None
    """Share of all hits that were found by the scheduler's own choices or by the audit."""
    missed: EstimateWithInterval | None
    """Number of hits among the passed-over candidates that are not verified."""
    words: str
    """The estimate as a sentence, or the reason why there is none."""
    guard: GuardState
    """The state of the conformal guard."""
    rungs: tuple[RungAgreement, ...]
    """Agreement of each rung with the next that measures the same property, and with the terminal rung."""
