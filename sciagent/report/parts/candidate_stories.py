"""The stories of candidates, which `best`, `explain`, the report and exports show: values, certainty, contradictions.

`CandidateStories` reads them from the ledger, for a page of candidates at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import SameCompound
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, at_highest_rung, file_of, pooled_measured
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import comparable_phase, phase_named, phases_agree, properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.states_and_needs import Standing
from sciagent.report.parts.margins_and_method_errors import Certainty, certainty, method_errors
from sciagent.report.parts.rung_and_judge_agreement import PROPERTIES_ON_METHOD_SCALE
from sciagent.report.parts.wording import missed_property
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.lab.blind_measurements import ALL_SEEN, UnseenAnswers
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views.report_candidates import (
    MAY_BE_HITS,
    EvidenceAnswer,
    MeasuredAt,
    RankedCandidate,
    calibrations_by_rung,
    deciding_phases,
    hits_of_same_compound,
    imported_answers,
    imported_for_same_compound,
    pooled_by_rung,
    rung_answers,
    with_deciding_measurements,
)

WITHOUT_VERDICT: Mapping[str, Any] = {
    "standing": Standing.PENDING,
    "verdict": None,
    "reason": None,
    "detail": None,
    "utility": None,
    "p_hit": None,
    "expected_utility": None,
    "basis": None,
}
"""The place of a candidate for a person from whom a blind rung hides what the others have answered."""


def hidden_rungs(candidate_id: int, ladder: Sequence[RungRow], unseen: UnseenAnswers) -> set[str]:
    """Returns the labels of the rungs whose answers on a candidate are hidden."""
    hidden = unseen.of(candidate_id)
    return {rung.name for rung in ladder if rung.computation in hidden}


def as_seen(candidate: RankedCandidate, ladder: Sequence[RungRow], unseen: UnseenAnswers) -> RankedCandidate:
    """Returns a candidate without its verdict and worth if a rung's answers on it are hidden."""
    if not hidden_rungs(candidate.id, ladder, unseen):
        return candidate
    return candidate._replace(**WITHOUT_VERDICT, hit=False, chance=None, margin=None)


@dataclass(frozen=True)
class CandidateStory:
    """The evidence on one candidate of a campaign, and what follows from it."""

    candidate: RankedCandidate
    answers: Sequence[EvidenceAnswer]
    """Evidence of the rungs in ladder order, with separate replicates, whether the campaign has taken it up or not."""
    imported: Sequence[EvidenceAnswer]
    """Imported values, in the units in which they were typed."""
    pooled: Sequence[EvidenceAnswer]
    """Evidence that the campaign has taken up, replicates pooled, calibrated, in the units of the campaign."""
    values: Mapping[str, MeasuredAt]
    """The value of the highest rung by property, or the experimental one where that decides an objective."""
    certainty: Certainty
    """How certain it is that it meets the limits."""
    contradicted: str | None
    """A sentence on the imported values that contradict the verdict; None if none does."""
    same_compound: Sequence[SameCompound]
    """Other hits of the same compound, which count once with it."""


class CandidateStories:
    """Reads the stories of a campaign's candidates. The errors of the methods are read once."""

    def __init__(
        self, connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], unseen: UnseenAnswers = ALL_SEEN
    ) -> None:
        """unseen: answers that are left out, as if they had not been given."""
        register_ledger_properties(
            connection
        )  # an objective may be of a property that a function of a notebook defines
        self._connection = connection
        self._row = row
        self._ladder = ladder
        self._unseen = unseen
        self._errors = method_errors(connection, row, ladder)
        self._fits = calibrations_by_rung(ladder)

    def of(self, candidates: Sequence[RankedCandidate]) -> list[CandidateStory]:
        """Returns the stories of some candidates, in their order; a few queries for all of them."""
        candidates = [as_seen(candidate, self._ladder, self._unseen) for candidate in candidates]
        ids = [candidate.id for candidate in candidates]
        answers = rung_answers(self._connection, self._row, self._ladder, ids)
        for id_, of_candidate in answers.items():
            hidden = hidden_rungs(id_, self._ladder, self._unseen)
            answers[id_] = [answer for answer in of_candidate if answer.rung not in hidden]
        imported = imported_answers(self._connection, ids)
        same_compound = hits_of_same_compound(self._connection, self._row, candidates)
        of_tautomers = imported_for_same_compound(self._connection, candidates)
        return [
            self._story(
                candidate,
                answers.get(candidate.id, ()),
                imported.get(candidate.id, ()),
                same_compound.get(candidate.id, ()),
                of_tautomers.get(candidate.id, ()),
            )
            for candidate in candidates
        ]

    def _taken_up(self, candidate: RankedCandidate, answers: Sequence[EvidenceAnswer]) -> Sequence[EvidenceAnswer]:
        """Returns the answers on which the standing of a candidate rests.

        Another campaign of the ledger may have brought an answer that this one takes up when it goes on. Until then an
        open candidate stands without it, and so do its values.
        """
        if candidate.standing not in MAY_BE_HITS:
            return answers
        taken_up = {rung.name for rung in self._ladder if rung.position <= candidate.depth}
        return [answer for answer in answers if answer.rung in taken_up]

    def _story(
        self,
        candidate: RankedCandidate,
        answers: Sequence[EvidenceAnswer],
        imported: Sequence[EvidenceAnswer],
        same_compound: Sequence[SameCompound],
        of_tautomers: Sequence[tuple[str, Sequence[EvidenceAnswer]]],
    ) -> CandidateStory:
        row = self._row
        pooled = pooled_by_rung(self._taken_up(candidate, answers), self._fits, row.limits, candidate.charge)
        return CandidateStory(
            candidate,
            answers,
            imported,
            pooled,
            values=with_deciding_measurements(row, self._ladder, at_highest_rung(pooled), imported),
            certainty=certainty(row, self._ladder, pooled, self._errors, candidate.charge, imported),
            contradicted=self._contradicted(candidate, imported, of_tautomers, self._phases(pooled)),
            same_compound=same_compound,
        )

    def _phases(self, pooled: Sequence[EvidenceAnswer]) -> dict[str, str]:
        """Returns the phase of the candidate's value at the highest rung, by property; without one, that of the rung
        which decides."""
        own = {name: measured.level.phase for name, (_, measured) in at_highest_rung(pooled).items()}
        return deciding_phases(self._ladder) | own

    def _contradicted(
        self,
        candidate: RankedCandidate,
        imported: Sequence[EvidenceAnswer],
        of_tautomers: Sequence[tuple[str, Sequence[EvidenceAnswer]]],
        phases: Mapping[str, str],
    ) -> str | None:
        """Returns a sentence on the imported values that contradict the verdict; None if none does.

        Where a hit has no imported value of a property, it is contradicted by those of its tautomers: what is measured
        is the compound. of_tautomers: their notations and imported values. phases: of what was judged, by property.
        """
        own = contradiction(self._row, candidate, candidate.hit, imported, phases)
        if own is not None:
            return own
        own_properties = set[str]()
        for answer in imported:
            own_properties |= {measured.property for measured in answer.measured}
        for notation, answers in of_tautomers:
            lacking = []
            for answer in answers:
                measured = [each for each in answer.measured if each.property not in own_properties]
                lacking.append(answer._replace(measured=tuple(measured)))
            against = contradiction(self._row, candidate, candidate.hit, lacking, phases)
            if against is not None:
                return f"{against}, as measured for {notation}, which is the same compound"
        return None


SIDE_WORDS = {Reason.BELOW_WINDOW: "below", Reason.ABOVE_WINDOW: "above"}


class Judged(Protocol):
    """A candidate with its verdict, as columns of the table campaign_candidate."""

    @property
    def position(self) -> int:
        """Position of the rung that gave the verdict."""

    @property
    def reason(self) -> str | None:
        """Reason of the verdict."""

    @property
    def detail(self) -> str | None:
        """The verdict in words, with the property and its value."""


def contradiction(
    row: CampaignRow, candidate: Judged, hit: bool, imported: Sequence[EvidenceAnswer], phases: Mapping[str, str]
) -> str | None:
    """Returns a sentence on the imported values that contradict the verdict on a candidate; None if none does.

    hit: whether the candidate is a hit. imported: of this candidate. Replicates of one level are pooled first. phases:
    of the judged values, by property; a value in another phase contradicts nothing.

    A value contradicts a hit if it lies outside the limits of an objective by more than its standard uncertainty; an
    unknown uncertainty counts as 0. A value contradicts a miss if it lies inside the limits that the candidate missed.
    A computed value (its level has a basis or a geometry) of an energy whose scale depends on the method contradicts
    nothing.
    """
    limits = _limits(row) if hit else _missed_limits(row, candidate)
    where_it_lies = _outside if hit else _inside
    texts = []
    values = pooled_measured(answer.measured for answer in imported)
    for measured in _in_comparable_phase(values, phases):
        if measured.property not in limits or _is_of_another_scale(measured):
            continue
        quantity = to_canonical(measured.quantity, properties()[measured.property])
        where = where_it_lies(quantity, limits[measured.property])
        if where is not None:
            files = [file_of(answer.source) for answer in imported if _holds(answer, measured)]
            each_file_once = ", ".join(dict.fromkeys(files))
            origin = f"{each_file_once}, {measured.level.label}"
            value = stated_value(measured)
            texts.append(f"{measured.property} = {value} ({origin}) lies {where}")
    return "; ".join(texts) or None


def _in_comparable_phase(values: Sequence[Measured], phases: Mapping[str, str]) -> Iterator[Measured]:
    """Yields the values without those that were measured in another phase than that of the rung.

    phases: of the rungs' values, by property. See `comparable_phase`.
    """
    measured_in: dict[str, set[str]] = {}
    for value in values:
        if value.level.is_experiment:
            measured_in.setdefault(value.property, set()).add(phase_named(value.level.phase))
    for value in values:
        phase = phases.get(value.property, "")
        if not value.level.is_experiment:
            if phases_agree(value.level.phase, phase):
                yield value
        elif phase_named(value.level.phase) == comparable_phase(measured_in[value.property], phase):
            yield value


def _limits(row: CampaignRow) -> dict[str, Window]:
    """Returns the limits of the objectives, by property, in canonical units."""
    return {o["property"]: Window(*o["accept"]) for o in row.spec.get("objectives", ()) if o["accept"]}


def _missed_limits(row: CampaignRow, candidate: Judged) -> dict[str, Window]:
    """Returns {property: the limits that a candidate missed}, from the objective, or without one from the gate.

    Returns an empty mapping for a candidate that missed none.
    """
    missed = missed_property(candidate.reason, candidate.detail)
    if not missed:
        return {}
    limits = _limits(row)
    if missed in limits:
        return {missed: limits[missed]}
    gate = row.spec["ladder"][candidate.position]["gate"].get(missed)
    return {} if gate is None else {missed: Window(*gate)}


def _is_of_another_scale(measured: Measured) -> bool:
    """Returns whether a value is a computed energy whose zero and scale depend on the method."""
    return measured.property in PROPERTIES_ON_METHOD_SCALE and not measured.level.is_experiment


def _outside(quantity: Quantity, window: Window) -> str | None:
    """Returns on which side the value lies outside the window by more than its uncertainty; None if it does not."""
    reason = window.misses(quantity)
    side = None if reason is None else SIDE_WORDS.get(reason)
    is_far = window.distance(quantity.value) > (quantity.uncertainty or 0.0)
    return f"{side} the limit of the objective" if side is not None and is_far else None


def _inside(quantity: Quantity, window: Window) -> str | None:
    """Returns words if the value lies inside the window; None if it lies outside, or if the value is only a bound and
    may lie on either side."""
    return "inside the limits that were missed" if window.misses(quantity) is None else None


def stated_value(measured: Measured) -> str:
    """Returns the value as it was typed, with its standard uncertainty if that is known."""
    quantity = measured.quantity
    if quantity.as_typed is None:
        return str(quantity)
    if quantity.uncertainty is None:
        return quantity.as_typed
    return f"{quantity.as_typed} ± {quantity.uncertainty:g}"


def _holds(answer: EvidenceAnswer, measured: Measured) -> bool:
    """Returns whether an answer has a value of the same property at the same level."""
    wanted = (measured.property, measured.level)
    return any((value.property, value.level) == wanted for value in answer.measured)
