"""What the scheduler missed, from its audit; below which promise it may drop; how each rung agrees with the next.

Those passed over are the population, and stay in it whatever becomes of them: a candidate that the law turned back to
was found by choice, and is one of the population of which the answer is known. Had it been drawn before, it would have
counted as audited; so of those drawn, some would have been found by choice too, and what is estimated from them are all
hits among the passed over. Those known are subtracted: the rest was missed. Who was held or vetoed is left out.

Not everybody drawn is done: the outlay has a limit, and jobs take time. Who waits is decided by lots and by the clock,
not by what a candidate is, so the propensities are taken times the share of those drawn that are done. That is exact
when all are, and near it while few wait; those passed over last wait more often than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.domain.answers.audit import AuditReport, EstimateWithInterval, GuardState, RungAgreement
from sciagent.domain.jobs.states import Standing
from sciagent.domain.outcomes import Outcome
from sciagent.domain.quantities import Censoring
from sciagent.report.analysis.summary import has_limits
from sciagent.report.parts.agreement import KEPT, SCALE_OF_ITS_METHOD
from sciagent.report.parts.wording import many
from sciagent.scheduling.arrays import Array, Mask
from sciagent.scheduling.audit.guard import guard
from sciagent.scheduling.audit.rungs import agreements
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.results import audits, evidence
from sciagent.store.views import report_queries

ALPHA = 0.1  # of the true hits may be dropped, at most
AT_END = (Standing.SETTLED, Standing.DROPPED)
ASIDE = (Standing.HELD, Standing.VETOED)


@dataclass(frozen=True)
class Population:
    """The candidates that the law passed over."""

    ids: list[int]
    """(n,) candidate ids."""
    p: Array
    """(n,) chance of a hit as believed when they were passed over."""
    pi: Array
    """(n,) probability of having been drawn and done."""
    audited: Mask
    """(n,) drawn and done."""
    known: Mask
    """(n,) settled or dropped."""
    hit: Mask
    """(n,) known to be a hit."""
    waiting: int
    """How many of the drawn ones wait for a job."""
    at_work: int
    """How many of the drawn ones have a job out."""


def audit(connection: Connection, row: CampaignRow) -> AuditReport | None:
    """None where nothing is audited: another scheduler, a share of 0, or no limits, without which there are no hits."""
    scheduler = row.spec.get("scheduler", {})
    share = scheduler.get("audit", 0.0) if scheduler.get("kind") == "priced" else 0.0
    if not share or not has_limits(row):
        return None
    log = audits.read(connection, row.id)
    them = population(connection, row, log)
    hits = audits.hits(connection, row.id)
    terminal = next(r for r in rungs(connection, row.id) if r.name == row.spec["terminal"])
    drawn = audits.decided(connection, row.id)
    by_audit = {one.candidate_id for one in drawn if one.rung_id == terminal.id}
    open_ = audits.undecided(connection, row.id) - int((~them.known).sum())
    estimates = missed(them, len(hits), len(hits - by_audit), open_)
    scores, pi = scored(them, log, hits - by_audit)
    sentence = guard(scores, ALPHA, pi, float(them.pi.min(initial=1.0)))
    return AuditReport(
        share=share,
        passed_over=len(them.ids),
        jobs=sum(one.action == "run" for one in drawn),
        audited=int(them.audited.sum()),
        at_work=them.at_work,
        waiting=them.waiting,
        hits=int(them.hit[them.audited].sum()),
        open=open_,
        recall=estimates.recall,
        with_audit=estimates.with_audit,
        missed=estimates.missed,
        words=estimates.words,
        guard=GuardState(threshold=sentence.threshold, missing=sentence.missing, words=sentence.words),
        rungs=tuple(compared(connection, row, them)),
    )


def population(connection: Connection, row: CampaignRow, log: audits.Log) -> Population:
    became = audits.became(connection, row.id, log.ids)
    places = [i for i, id_ in enumerate(log.ids) if id_ in became and became[id_].standing not in ASIDE]
    ids = [log.ids[i] for i in places]
    p, lot, pi = (np.array(values, dtype=float)[places] for values in (log.p, log.lot, log.pi))
    known = np.array([became[i].standing in AT_END for i in ids], dtype=bool)
    at_work = np.array([became[i].standing == Standing.PENDING for i in ids], dtype=bool)
    drawn = lot < pi
    waits = drawn & ~known & ~at_work
    done = drawn & known
    share = max(float(done.sum()), 0.5) / max(float(drawn.sum()), 1.0) if drawn.any() else 1.0
    hit = np.array([became[i].is_hit for i in ids], dtype=bool) & known
    return Population(ids, p, share * pi, done, known, hit, int(waits.sum()), int((drawn & at_work).sum()))


class Missed(NamedTuple):
    """What the audit says of missed hits; None where `words` says why there is no estimate."""

    words: str
    recall: EstimateWithInterval | None = None
    """Share of all hits that were found by choice."""
    with_audit: EstimateWithInterval | None = None
    """Share of all hits that were found."""
    missed: EstimateWithInterval | None = None
    """Number of hits that nobody has verified."""


def missed(them: Population, hits: int, own: int, open_: int) -> Missed:
    """Recall and missed hits, with 95 % intervals.

    hits: all that are known; own: by choice. open_: candidates that were not passed over and are not decided.
    """
    from sciagent.scheduling.audit.recall import Span, recall  # imports SciPy

    known = int(them.hit.sum())
    found = recall(hits - known, them.pi, them.audited, them.hit & them.audited)
    rest = int((~them.known).sum())
    note = "".join(
        f"; {many(n, what)} {'is' if n == 1 else 'are'} {where}"
        for n, what, where in ((them.at_work, "audit", "at work"), (open_, "other candidate", "open and not counted"))
        if n
    )
    if not them.ids and open_:
        return Missed(f"recall cannot be estimated: nobody was passed over yet{note}")
    whole = found.missed if rest else Span(known, known, known)
    if whole is None:
        return Missed(found.words + note)
    low, estimate, high = (min(max(n - known, 0.0), rest) for n in (whole.low, whole.estimate, whole.high))
    unseen = EstimateWithInterval(low=low, estimate=estimate, high=high)
    if not hits + estimate:
        return Missed(f"recall cannot be estimated: there is no hit{note}", missed=unseen)
    by_choice, with_audit = (_share(part, hits, unseen) for part in (own, hits))
    words = (
        f"recall {by_choice.estimate:.2f} (95 % interval {by_choice.low:.2f} to {by_choice.high:.2f}): "
        f"{many(own, 'hit')} by choice, {int(them.hit[them.audited].sum())} among {int(them.audited.sum())} drawn "
        f"of {len(them.ids)} passed over; with those of the audit {with_audit.estimate:.2f} "
        f"({with_audit.low:.2f} to {with_audit.high:.2f}){note}"
    )
    return Missed(words, by_choice, with_audit, unseen)


def _share(part: int, hits: int, unseen: EstimateWithInterval) -> EstimateWithInterval:
    """The share that `part` is of all hits, those known and those unseen."""
    low, estimate, high = (part / (hits + n) if hits + n else 1.0 for n in (unseen.high, unseen.estimate, unseen.low))
    return EstimateWithInterval(low=low, estimate=estimate, high=high)


def scored(them: Population, log: audits.Log, own: set[int]) -> tuple[Array, Array]:
    """(m,) chance of a hit, when they were chosen or first passed over, of the hits of which it is known; and the
    probability that they became known."""
    promise = log.chosen | dict(zip(log.ids, log.p, strict=True))
    drawn = [
        (float(p), float(pi))
        for id_, p, pi, audited, hit in zip(them.ids, them.p, them.pi, them.audited, them.hit, strict=True)
        if audited and hit and id_ not in own
    ]
    both = [(promise[i], 1.0) for i in sorted(own) if i in promise] + drawn
    return np.array([p for p, _ in both]), np.array([pi for _, pi in both])


def compared(connection: Connection, row: CampaignRow, them: Population) -> list[RungAgreement]:
    """Each rung against the next that measures the same property, and the terminal one; bias and RMSE in canonical
    units, None where the scale belongs to the method. Audited candidates stand for those passed over, by 1 / π."""
    every = rungs(connection, row.id)
    last = next(r.position for r in every if r.name == row.spec["terminal"])
    ladder = [r for r in every if r.position <= last]
    found = []
    for name in dict.fromkeys(o["property"] for o in row.spec.get("objectives", ())):
        at = [r for r in ladder if report_queries.measures(connection, r, name)]
        if len(at) < 2:
            continue
        ids = audits.climbed(connection, row.id, at[1].position, KEPT)
        scores = np.array([_values(connection, r, name, ids) for r in at]).T
        propensity = np.ones(scores.shape)
        if them.audited.any() and at[-1].position == last:
            _weigh_audited(them, ids, scores, propensity)
        shared = name not in SCALE_OF_ITS_METHOD
        for pair in agreements(scores, np.ones((len(at), len(at)), dtype=bool), propensity):
            found.append(
                RungAgreement(
                    property=name,
                    lower=at[pair.lower].name,
                    upper=at[pair.upper].name,
                    n=pair.n,
                    effective=pair.effective,
                    bias=pair.bias if shared else None,
                    rmse=pair.rmse if shared else None,
                    spearman=pair.spearman,
                )
            )
    return found


def _weigh_audited(them: Population, ids: Sequence[int], scores: Array, propensity: Array) -> None:
    """Writes the propensity of audited candidates, and takes out the answers of others that were passed over: the
    audited ones stand for them. scores, propensity: (n, rungs) of `ids`; the last rung is the terminal one."""
    place = {id_: i for i, id_ in enumerate(them.ids)}
    for i, id_ in enumerate(ids):
        passed_over = place.get(id_)
        if passed_over is None:
            continue
        if them.audited[passed_over]:
            propensity[i, -1] = them.pi[passed_over]
        else:
            scores[i, -1] = np.nan


def _values(connection: Connection, rung: RungRow, name: str, ids: list[int]) -> list[float]:
    """Each candidate's value in canonical units; NaN where the rung did not measure it, or measured a limit."""
    answers = evidence.find_reusable(connection, ids, rung.verifier, rung.verifier_version, rung.settings_hash)
    values = {
        i: m.quantity.value
        for i, answer in answers.items()
        if answer.outcome is Outcome.OK
        for m in answer.measured
        if m.property == name and m.quantity.censoring is Censoring.NONE
    }
    return [values.get(i, float("nan")) for i in ids]
