"""The results of the audit: missed hits, the conformal guard, and the agreement of each rung with the next.

The population is every candidate that the law passed over, also if the law chose it later. A candidate that was chosen
later is known. The estimate of hits from the audited candidates includes the known hits, so they are subtracted; the
rest was missed. Candidates that a person holds or vetoed are left out.

Not every drawn candidate is verified, since the audit's spending is limited and jobs take time. Which candidates wait
does not depend on their values, so the propensities are multiplied by the share of drawn candidates that are done. This
is exact when all are done, and nearly exact while few wait; candidates passed over last wait more often than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import AuditReport, EstimateWithInterval, RungAgreement
from sciagent.domain.chosen_units import Units, unit_of
from sciagent.domain.properties import properties
from sciagent.domain.quantities import conversion_factor
from sciagent.domain.states import Standing
from sciagent.report.parts.agreement import KEPT, SCALE_OF_ITS_METHOD, exact_values
from sciagent.report.parts.wording import many
from sciagent.scheduling.arrays import Array, Mask
from sciagent.scheduling.audit import agreements, guard
from sciagent.store.campaign_state import standings
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.results import laws
from sciagent.store.views.campaign_counts import places
from sciagent.store.views.queries import has_measured

ALPHA = 0.1  # largest share of the true hits that may be dropped
AT_END = (Standing.SETTLED, Standing.DROPPED)
UNDECIDED = (Standing.OPEN, Standing.PENDING)
ASIDE = (Standing.HELD, Standing.VETOED)


@dataclass(frozen=True)
class Population:
    """The candidates that the law passed over."""

    ids: list[int]
    """(n,) candidate ids."""
    p: Array
    """(n,) chance of a hit by the law at the time when it passed the candidate over."""
    pi: Array
    """(n,) probability that a candidate is drawn and done."""
    audited: Mask
    """(n,) whether a candidate is drawn and done."""
    known: Mask
    """(n,) whether a candidate is settled or dropped."""
    hit: Mask
    """(n,) whether a candidate is a known hit."""
    waiting: int
    """Number of drawn candidates that wait for a job."""
    at_work: int
    """Number of drawn candidates whose job is queued or running."""


def audit(connection: Connection, row: CampaignRow) -> AuditReport | None:
    """Returns the results of the audit; None without an audit or without acceptance limits, which define hits."""
    share = row.spec["scheduler"].get("audit", 0.0) if row.spec["scheduler"]["kind"] == "priced" else 0.0
    if not share or not row.has_limits:
        return None
    log = laws.audit_log(connection, row.id)
    dropped = population(connection, row, log)
    hits = laws.hit_ids(connection, row.id)
    terminal = next(r for r in rungs(connection, row.id) if r.name == row.spec["terminal"])
    draws = laws.audit_draws(connection, row.id)
    by_choice = hits - {draw.candidate_id for draw in draws if draw.rung_id == terminal.id}
    undecided = sum(p.candidates for p in places(connection, row) if p.standing in UNDECIDED)
    open_ = undecided - int((~dropped.known).sum())
    estimates = missed(dropped, len(hits), len(by_choice), open_)
    scores, pi = scored(dropped, log, by_choice)
    return AuditReport(
        share=share,
        passed_over=len(dropped.ids),
        jobs=sum(draw.action == "run" for draw in draws),
        audited=int(dropped.audited.sum()),
        at_work=dropped.at_work,
        waiting=dropped.waiting,
        hits=int(dropped.hit[dropped.audited].sum()),
        open=open_,
        **estimates._asdict(),
        guard=guard(scores, ALPHA, pi, float(dropped.pi.min(initial=1.0))),
        rungs=tuple(compared(connection, row, dropped)),
    )


def population(connection: Connection, row: CampaignRow, log: laws.AuditLog) -> Population:
    """Returns the passed-over candidates that no person holds or vetoed. log: all passed-over candidates."""
    became = {stands.candidate_id: stands for stands in standings.standings_of(connection, row.id, log.ids)}
    hits = laws.hit_ids(connection, row.id)
    places = [i for i, id_ in enumerate(log.ids) if id_ in became and became[id_].standing not in ASIDE]
    ids = [log.ids[i] for i in places]
    p, lot, pi = (np.array(values, dtype=float)[places] for values in (log.p, log.lot, log.pi))
    known = np.array([became[i].standing in AT_END for i in ids], dtype=bool)
    at_work = np.array([became[i].standing == Standing.PENDING for i in ids], dtype=bool)
    drawn = lot < pi
    waits = drawn & ~known & ~at_work
    done = drawn & known
    share = max(float(done.sum()), 0.5) / max(float(drawn.sum()), 1.0) if drawn.any() else 1.0
    hit = np.array([i in hits for i in ids], dtype=bool) & known
    return Population(ids, p, share * pi, done, known, hit, int(waits.sum()), int((drawn & at_work).sum()))


class Missed(NamedTuple):
    """The audit's estimates of missed hits; None without an estimate, and `words` says why."""

    words: str
    recall: EstimateWithInterval | None = None
    """Share of all hits that were found by the scheduler's choices."""
    with_audit: EstimateWithInterval | None = None
    """Share of all hits that were found by choice or by the audit."""
    missed: EstimateWithInterval | None = None
    """Number of hits that are not verified."""


def missed(dropped: Population, hits: int, own: int, open_: int) -> Missed:
    """Returns recall and missed hits, with 95 % intervals.

    hits: number of known hits. own: number of hits found by choice. open_: number of candidates that were neither
    passed over nor decided."""
    from sciagent.scheduling.audit import ENOUGH, missed_hits  # imports SciPy

    known = int(dropped.hit.sum())
    unknown = int((~dropped.known).sum())
    audited_hits = dropped.hit & dropped.audited
    left = ~dropped.audited
    audited = int(audited_hits.sum())
    pending = ((dropped.at_work, "audit", "at work"), (open_, "other candidate", "open and not counted"))
    note = "".join(f"; {many(n, what)} {'is' if n == 1 else 'are'} {where}" for n, what, where in pending if n)
    if not dropped.ids and open_:
        return Missed(f"recall cannot be estimated: no candidate was passed over yet{note}")
    unseen = EstimateWithInterval(low=0.0, estimate=0.0, high=0.0)
    if unknown and audited < ENOUGH:
        return Missed(f"recall cannot be estimated: n = {many(audited, 'audited hit')}, {ENOUGH} are needed{note}")
    if unknown:
        all_hits = missed_hits(dropped.pi[audited_hits], float(dropped.pi[left].min()), int(left.sum()))
        ends = all_hits.model_dump().items()
        unseen = EstimateWithInterval(**{name: min(max(n - known, 0.0), unknown) for name, n in ends})
    if not hits + unseen.estimate:
        return Missed(f"recall cannot be estimated: there is no hit{note}", missed=unseen)
    by_choice, with_audit = (_share(part, hits, unseen) for part in (own, hits))
    words = (
        f"recall {by_choice.estimate:.2f} (95 % interval {by_choice.low:.2f} to {by_choice.high:.2f}): "
        f"{many(own, 'hit')} by choice, {audited} among {int(dropped.audited.sum())} drawn "
        f"of {len(dropped.ids)} passed over; with those of the audit {with_audit.estimate:.2f} "
        f"({with_audit.low:.2f} to {with_audit.high:.2f}){note}"
    )
    return Missed(words, by_choice, with_audit, unseen)


def _share(part: int, hits: int, unseen: EstimateWithInterval) -> EstimateWithInterval:
    """Returns `part` as a share of all hits, known and unseen."""
    low, estimate, high = (part / (hits + n) if hits + n else 1.0 for n in (unseen.high, unseen.estimate, unseen.low))
    return EstimateWithInterval(low=low, estimate=estimate, high=high)


def scored(dropped: Population, log: laws.AuditLog, own: set[int]) -> tuple[Array, Array]:
    """Returns two arrays (m,) over known hits: the chance of a hit when the candidate was chosen or first passed over,
    and the probability that it became known. own: ids of the hits found by choice."""
    promise = log.chosen | dict(zip(log.ids, log.p, strict=True))
    pairs = [(promise[i], 1.0) for i in sorted(own) if i in promise]
    pairs += [
        (float(dropped.p[i]), float(dropped.pi[i]))
        for i in np.flatnonzero(dropped.audited & dropped.hit)
        if dropped.ids[i] not in own
    ]
    return np.array([p for p, _ in pairs]), np.array([pi for _, pi in pairs])


def compared(connection: Connection, row: CampaignRow, dropped: Population) -> list[RungAgreement]:
    """Compares each rung with the next that measures the same property, and with the terminal rung. Bias and RMSE are
    None where the scale belongs to the method. Audited candidates are weighted by 1 / π."""
    ladder = rungs(connection, row.id)
    terminal = next(rung for rung in ladder if rung.name == row.spec["terminal"])
    comparisons: list[RungAgreement] = []
    for name in dict.fromkeys(o["property"] for o in row.spec["objectives"]):
        measuring = [rung for rung in ladder[: terminal.position + 1] if has_measured(connection, rung, name)]
        if len(measuring) < 2:
            continue
        ids = laws.ids_with_answers_at(connection, row.id, measuring[1].position, KEPT)
        answers = [exact_values(connection, rung, ids) for rung in measuring]
        scores = np.array([[values.get(i, {}).get(name, np.nan) for i in ids] for values in answers]).T
        propensity = np.ones(scores.shape)
        if dropped.audited.any() and measuring[-1] is terminal:
            _weigh_audited(dropped, ids, scores, propensity)
        labels = [rung.name for rung in measuring]
        found = agreements(name, labels, scores, propensity, name not in SCALE_OF_ITS_METHOD)
        comparisons += [_in_chosen_unit(each, row.units) for each in found]
    return comparisons


def _in_chosen_unit(agreement: RungAgreement, units: Units) -> RungAgreement:
    """Returns the agreement with bias and RMSE in the unit that the campaign chose, if a factor converts it."""
    if agreement.bias is None or agreement.rmse is None:
        return agreement
    prop = properties()[agreement.property]
    unit = unit_of(prop.name, units)
    unit = prop.unit if prop.conversion(unit) is not None else unit
    factor = conversion_factor(unit, prop)
    return agreement.model_copy(update={"bias": agreement.bias / factor, "rmse": agreement.rmse / factor, "unit": unit})


def _weigh_audited(dropped: Population, ids: Sequence[int], scores: Array, propensity: Array) -> None:
    """Writes the propensity of audited candidates, and removes the terminal answers of other passed-over candidates,
    which the audited ones represent. scores, propensity: (n, rungs) of `ids`; the last rung is the terminal rung."""
    place = {id_: i for i, id_ in enumerate(dropped.ids)}
    for i, passed_over in enumerate(map(place.get, ids)):
        if passed_over is None:
            continue
        if dropped.audited[passed_over]:
            propensity[i, -1] = dropped.pi[passed_over]
        else:
            scores[i, -1] = np.nan
