"""Candidates whose verdict a measurement contradicts: an imported value lies on the other side of the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sciagent.domain.evidence import Measured, file_of
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Reason
from sciagent.domain.pooling import pooled_measured
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity, convert
from sciagent.report.parts.agreement import SCALE_OF_ITS_METHOD
from sciagent.report.parts.wording import missed_property
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views.candidates import EvidenceAnswer

SIDES = {Reason.BELOW_WINDOW: "below", Reason.ABOVE_WINDOW: "above"}


class Judged(Protocol):
    """A candidate with its verdict, as columns of the table campaign_candidate."""

    @property
    def position(self) -> int: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def detail(self) -> str | None: ...


def contradiction(row: CampaignRow, candidate: Judged, hit: bool, imported: Sequence[EvidenceAnswer]) -> str | None:
    """Returns a sentence on the imported values that contradict the verdict on a candidate; None if none does.

    hit: whether the candidate is a hit. imported: of this candidate. Replicates of one level are pooled first.

    A value contradicts a hit if it lies outside the limits of an objective by more than its standard uncertainty; an
    unknown uncertainty counts as 0. A value contradicts a miss if it lies inside the limits that the candidate missed.
    A value that was computed (its level has a basis or a geometry) does not contradict an energy whose scale depends on
    the method.
    """
    limits = _limits(row) if hit else _missed_limits(row, candidate)
    texts = []
    for measured in pooled_measured(answer.measured for answer in imported):
        if measured.property not in limits or _is_of_another_scale(measured):
            continue
        quantity = convert(measured.quantity, properties()[measured.property])
        where = (_outside if hit else _inside)(quantity, limits[measured.property])
        if where is not None:
            files = [file_of(a.source) for a in imported if _holds(a, measured)]
            origin = f"{', '.join(dict.fromkeys(files))}, {measured.level.label}"
            value = stated_value(measured)
            texts.append(f"{measured.property} = {value} ({origin}) lies {where}")
    return "; ".join(texts) or None


def _limits(row: CampaignRow) -> dict[str, Window]:
    """Returns the limits of the objectives, by property, in canonical units."""
    return {o["property"]: Window(*o["accept"]) for o in row.spec.get("objectives", ()) if o["accept"]}


def _missed_limits(row: CampaignRow, candidate: Judged) -> dict[str, Window]:
    """Returns the limits that a candidate missed: those of the objective on the property, else those of the gate; empty
    for a candidate that missed none."""
    missed = missed_property(candidate.reason, candidate.detail)
    if not missed:
        return {}
    limits = _limits(row)
    if missed in limits:
        return {missed: limits[missed]}
    gate = row.spec["ladder"][candidate.position]["gate"].get(missed)
    return {} if gate is None else {missed: Window(*gate)}


def _is_of_another_scale(measured: Measured) -> bool:
    return measured.property in SCALE_OF_ITS_METHOD and bool(measured.level.basis or measured.level.geometry)


def _outside(quantity: Quantity, window: Window) -> str | None:
    """Returns on which side the value lies outside the window by more than its uncertainty; None if it does not."""
    side = SIDES.get(window.misses(quantity) or Reason.NOT_MEASURED)
    is_far = window.distance(quantity.value) > (quantity.uncertainty or 0.0)
    return f"{side} the limit of the objective" if side is not None and is_far else None


def _inside(quantity: Quantity, window: Window) -> str | None:
    """Returns that the value lies inside the window; None if it does not, or if it is a bound that does not tell."""
    return "inside the limits that were missed" if window.misses(quantity) is None else None


def stated_value(measured: Measured) -> str:
    """Returns the value as it was typed, with its standard uncertainty if that is known."""
    quantity = measured.quantity
    if quantity.as_typed is None:
        return str(quantity)
    return quantity.as_typed if quantity.uncertainty is None else f"{quantity.as_typed} ± {quantity.uncertainty:g}"


def _holds(answer: EvidenceAnswer, measured: Measured) -> bool:
    return any((m.property, m.level) == (measured.property, measured.level) for m in answer.measured)
