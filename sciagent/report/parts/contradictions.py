"""Hits that a measurement contradicts, since an imported value lies outside the limits of an objective."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.domain.evidence import Measured, file_of
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Reason
from sciagent.domain.pooling import pooled_measured
from sciagent.domain.properties import properties
from sciagent.domain.quantities import convert
from sciagent.report.parts.agreement import SCALE_OF_ITS_METHOD
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views.report_candidates import EvidenceAnswer

SIDES = {Reason.BELOW_WINDOW: "below", Reason.ABOVE_WINDOW: "above"}


def contradiction(row: CampaignRow, imported: Sequence[EvidenceAnswer]) -> str | None:
    """Returns a sentence on the imported values of a hit that contradict it; None if none does.

    imported: of one candidate. Replicates of one level are pooled first. A value contradicts if it lies outside the
    limits of an objective by more than its standard uncertainty; an unknown uncertainty counts as 0. A value that was
    computed (its level has a basis or a geometry) does not contradict an energy whose scale depends on the method.
    """
    limits = {o["property"]: Window(*o["accept"]) for o in row.spec.get("objectives", ()) if o["accept"]}
    texts = []
    for measured in pooled_measured(answer.measured for answer in imported):
        side = _side(measured, limits[measured.property]) if measured.property in limits else None
        if side is not None:
            files = [file_of(a.source) for a in imported if _holds(a, measured)]
            origin = f"{', '.join(dict.fromkeys(files))}, {measured.level.label}"
            value = measured.quantity.as_typed or str(measured.quantity)
            texts.append(f"{measured.property} = {value} ({origin}) lies {side} the limit of the objective")
    return "; ".join(texts) or None


def _side(measured: Measured, window: Window) -> str | None:
    """Returns `below` or `above` if the value lies outside the window by more than its uncertainty."""
    if measured.property in SCALE_OF_ITS_METHOD and (measured.level.basis or measured.level.geometry):
        return None
    quantity = convert(measured.quantity, properties()[measured.property])
    side = SIDES.get(window.misses(quantity) or Reason.NOT_MEASURED)
    return side if window.distance(quantity.value) > (quantity.uncertainty or 0.0) else None


def _holds(answer: EvidenceAnswer, measured: Measured) -> bool:
    return any((m.property, m.level) == (measured.property, measured.level) for m in answer.measured)
