"""The results of the audit: missed hits, the conformal guard, and the agreement of each rung with the next.

The audit verifies a random sample of the candidates that the scheduler does not choose. The guard is a score below
which candidates may be dropped, so that few hits are lost. `scheduling.audit_of_dropped` explains both.

The law is the model by which the scheduler chooses candidates. The population is every candidate that the law passed
over. It includes candidates that the law chose later, which count as known. The audited candidates give an estimate of
all hits in the population. The known hits are subtracted from it, and the remaining hits were missed. Candidates that
a person holds or has vetoed are left out.

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

from sciagent.domain.answers.status_and_comparison import AuditReport, EstimateWithInterval, RungAgreement
from sciagent.domain.display_units import Units, chosen_unit_of
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import conversion_factor
from sciagent.domain.states_and_needs import Standing
from sciagent.report.parts.rung_and_judge_agreement import MAX_CANDIDATES, PROPERTIES_ON_METHOD_SCALE, exact_values
from sciagent.report.parts.wording import many
from sciagent.scheduling.array_types import Array, Mask
from sciagent.scheduling.audit_of_dropped import agreements, guard
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.results import laws_and_audits
from sciagent.store.views.campaign_counts_and_remarks import places
from sciagent.store.views.report_queries import has_measured

MAX_DROPPED_SHARE = 0.1  # largest share of the true hits that may be dropped
DECIDED_STANDINGS = (Standing.SETTLED, Standing.DROPPED)
UNDECIDED_STANDINGS = (Standing.OPEN, Standing.PENDING)
STANDINGS_SET_BY_PEOPLE = (Standing.HELD, Standing.VETOED)


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
    scheduler = row.spec["scheduler"]
    share = scheduler.get("audit", 0.0) if scheduler["kind"] == "priced" else 0.0
    if not share or not row.has_limits:
        return None
    log = laws_and_audits.audit_log(connection, row.id)
    passed_over = population(connection, row, log)
    hits = laws_and_audits.hit_ids(connection, row.id)
    [terminal] = [rung for rung in rungs(connection, row.id) if rung.name == row.spec["terminal"]]
    draws = laws_and_audits.audit_draws(connection, row.id)
    hits_by_audit = {draw.candidate_id for draw in draws if draw.rung_id == terminal.id}
    hits_by_choice = hits - hits_by_audit
    n_undecided = sum(place.candidates for place in places(connection, row) if place.standing in UNDECIDED_STANDINGS)
    n_undecided_passed_over = int((~passed_over.known).sum())
    n_open = n_undecided - n_undecided_passed_over
    estimates = missed(passed_over, hits=len(hits), n_by_choice=len(hits_by_choice), n_open=n_open)
    scores, pi = scored(passed_over, log, hits_by_choice)
    # the guard assumes that the next hit is one of the candidates that are least likely to be audited
    smallest_pi = float(passed_over.pi.min(initial=1.0))
    return AuditReport(
        share=share,
        passed_over=len(passed_over.ids),
        jobs=sum(draw.action == "run" for draw in draws),
        audited=int(passed_over.audited.sum()),
        at_work=passed_over.at_work,
        waiting=passed_over.waiting,
        hits=int(passed_over.hit[passed_over.audited].sum()),
        open=n_open,
        **estimates._asdict(),
        guard=guard(scores, alpha=MAX_DROPPED_SHARE, pi=pi, least=smallest_pi),
        rungs=tuple(compared(connection, row, passed_over)),
    )


def population(connection: Connection, row: CampaignRow, log: laws_and_audits.AuditLog) -> Population:
    """Returns the passed-over candidates that no person holds or vetoed. log: all passed-over candidates."""
    standing_by_id = {
        member.candidate_id: member.standing for member in candidate_standings.standings_of(connection, row.id, log.ids)
    }
    hits = laws_and_audits.hit_ids(connection, row.id)
    kept_places = []
    for place, candidate_id in enumerate(log.ids):
        if candidate_id in standing_by_id and standing_by_id[candidate_id] not in STANDINGS_SET_BY_PEOPLE:
            kept_places.append(place)
    ids = [log.ids[place] for place in kept_places]
    p = np.array(log.p, dtype=float)[kept_places]
    lot = np.array(log.lot, dtype=float)[kept_places]
    pi = np.array(log.pi, dtype=float)[kept_places]
    known = np.array([standing_by_id[id_] in DECIDED_STANDINGS for id_ in ids], dtype=bool)
    at_work = np.array([standing_by_id[id_] == Standing.PENDING for id_ in ids], dtype=bool)
    drawn = lot < pi  # each candidate has drawn a number in [0, 1)
    waiting = drawn & ~known & ~at_work
    audited = drawn & known
    done_share = 1.0
    if drawn.any():
        # 0.5 instead of 0 done, so that the propensities stay above 0
        done_share = max(float(audited.sum()), 0.5) / float(drawn.sum())
    hit = np.array([id_ in hits for id_ in ids], dtype=bool) & known
    n_at_work = int((drawn & at_work).sum())
    return Population(
        ids=ids,
        p=p,
        pi=done_share * pi,
        audited=audited,
        known=known,
        hit=hit,
        waiting=int(waiting.sum()),
        at_work=n_at_work,
    )


class Missed(NamedTuple):
    """The audit's estimates of missed hits; None without an estimate, and `words` says why."""

    words: str
    recall: EstimateWithInterval | None = None
    """Share of all hits that were found by the scheduler's choices."""
    with_audit: EstimateWithInterval | None = None
    """Share of all hits that were found by choice or by the audit."""
    missed: EstimateWithInterval | None = None
    """Number of hits that are not verified."""


def missed(passed_over: Population, hits: int, n_by_choice: int, n_open: int) -> Missed:
    """Returns recall and missed hits, with 95 % intervals.

    hits: number of known hits. n_by_choice: number of hits found by choice. n_open: number of candidates that
    were neither passed over nor decided.
    """
    from sciagent.scheduling.audit_of_dropped import ENOUGH, missed_hits  # imports SciPy

    n_known_hits = int(passed_over.hit.sum())
    n_unknown = int((~passed_over.known).sum())
    audited_hits = passed_over.hit & passed_over.audited
    n_audited_hits = int(audited_hits.sum())
    not_audited = ~passed_over.audited
    note = _pending_note(passed_over.at_work, "audit", "at work")
    note += _pending_note(n_open, "other candidate", "open and not counted")
    if not passed_over.ids and n_open:
        return Missed(f"recall cannot be estimated: no candidate was passed over yet{note}")
    unseen = EstimateWithInterval(low=0.0, estimate=0.0, high=0.0)
    if n_unknown and n_audited_hits < ENOUGH:
        counted = many(n_audited_hits, "audited hit")
        return Missed(f"recall cannot be estimated: n = {counted}, {ENOUGH} are needed{note}")
    if n_unknown:
        smallest_pi = float(passed_over.pi[not_audited].min())
        # the upper end of the interval assumes a hit among the candidates that were least likely to be audited
        all_hits = missed_hits(passed_over.pi[audited_hits], least=smallest_pi, left=int(not_audited.sum()))
        unseen_ends = {}
        for end, n_hits in all_hits.model_dump().items():
            unseen_ends[end] = min(max(n_hits - n_known_hits, 0.0), n_unknown)
        unseen = EstimateWithInterval(**unseen_ends)
    if hits + unseen.estimate == 0:
        return Missed(f"recall cannot be estimated: there is no hit{note}", missed=unseen)
    by_choice = _share(n_by_choice, hits, unseen)
    with_audit = _share(hits, hits, unseen)
    words = (
        f"recall {by_choice.estimate:.2f} (95 % interval {by_choice.low:.2f} to {by_choice.high:.2f}): "
        f"{many(n_by_choice, 'hit')} by choice, {n_audited_hits} among {int(passed_over.audited.sum())} drawn "
        f"of {len(passed_over.ids)} passed over; with those of the audit {with_audit.estimate:.2f} "
        f"({with_audit.low:.2f} to {with_audit.high:.2f}){note}"
    )
    return Missed(words, by_choice, with_audit, unseen)


def _pending_note(n: int, singular: str, state: str) -> str:
    """Returns a clause such as `; 2 audits are at work`; empty for 0."""
    if not n:
        return ""
    return f"; {many(n, singular)} {'is' if n == 1 else 'are'} {state}"


def _share(part: int, hits: int, unseen: EstimateWithInterval) -> EstimateWithInterval:
    """Returns `part` as a share of all hits, known and unseen. hits: number of known hits."""

    def share(n_unseen: float) -> float:
        n_all = hits + n_unseen
        return part / n_all if n_all else 1.0

    return EstimateWithInterval(low=share(unseen.high), estimate=share(unseen.estimate), high=share(unseen.low))


def scored(passed_over: Population, log: laws_and_audits.AuditLog, ids_by_choice: set[int]) -> tuple[Array, Array]:
    """Returns two arrays (m,) over known hits: the chance of a hit when the candidate was chosen or first passed over,
    and the probability that it became known. ids_by_choice: hits found by choice."""
    # for a candidate that was chosen after it had been passed over, the earlier chance counts
    chances = log.chosen | dict(zip(log.ids, log.p, strict=True))
    pairs = [(chances[candidate_id], 1.0) for candidate_id in sorted(ids_by_choice) if candidate_id in chances]
    for place in np.flatnonzero(passed_over.audited & passed_over.hit):
        if passed_over.ids[place] not in ids_by_choice:
            pairs.append((float(passed_over.p[place]), float(passed_over.pi[place])))
    return np.array([chance for chance, _ in pairs]), np.array([propensity for _, propensity in pairs])


def compared(connection: Connection, row: CampaignRow, passed_over: Population) -> list[RungAgreement]:
    """Compares each rung with the next that measures the same property, and with the terminal rung. Bias and RMSE are
    None where the scale belongs to the method. Audited candidates are weighted by 1 / π."""
    ladder = rungs(connection, row.id)
    terminal = next(rung for rung in ladder if rung.name == row.spec["terminal"])
    comparisons: list[RungAgreement] = []
    for name in dict.fromkeys(objective["property"] for objective in row.spec["objectives"]):
        measuring = [rung for rung in ladder[: terminal.position + 1] if has_measured(connection, rung, name)]
        if len(measuring) < 2:
            continue
        # only candidates that have reached the second of these rungs can be compared
        ids = laws_and_audits.ids_with_answers_at(connection, row.id, measuring[1].position, MAX_CANDIDATES)
        answers = [exact_values(connection, rung, ids) for rung in measuring]
        scores = np.full((len(ids), len(measuring)), np.nan)
        for column, values in enumerate(answers):
            for line, candidate_id in enumerate(ids):
                scores[line, column] = values.get(candidate_id, {}).get(name, np.nan)
        propensity = np.ones(scores.shape)
        if passed_over.audited.any() and measuring[-1] is terminal:
            _weigh_audited(passed_over, ids, scores, propensity)
        labels = [rung.name for rung in measuring]
        found = agreements(name, labels, scores, propensity, has_one_scale=name not in PROPERTIES_ON_METHOD_SCALE)
        comparisons += [_in_chosen_unit(each, row.units) for each in found]
    return comparisons


def _in_chosen_unit(agreement: RungAgreement, units: Units) -> RungAgreement:
    """Returns the agreement with bias and RMSE in the unit that the campaign chose, if a factor converts it."""
    if agreement.bias is None or agreement.rmse is None:
        return agreement
    prop = properties()[agreement.property]
    unit = chosen_unit_of(prop.name, units)
    if prop.conversion(unit) is not None:  # a formula, not a factor, converts this unit
        unit = prop.unit
    factor = conversion_factor(unit, prop)
    return agreement.model_copy(update={"bias": agreement.bias / factor, "rmse": agreement.rmse / factor, "unit": unit})


def _weigh_audited(passed_over: Population, ids: Sequence[int], scores: Array, propensity: Array) -> None:
    """Writes the propensity of audited candidates, and removes the terminal answers of other passed-over candidates,
    which the audited ones represent. scores, propensity: (n, rungs) of `ids`; the last rung is the terminal rung."""
    place_by_id = {candidate_id: place for place, candidate_id in enumerate(passed_over.ids)}
    for line, candidate_id in enumerate(ids):
        if candidate_id not in place_by_id:
            continue
        place = place_by_id[candidate_id]
        if passed_over.audited[place]:
            propensity[line, -1] = passed_over.pi[place]
        else:
            scores[line, -1] = np.nan
