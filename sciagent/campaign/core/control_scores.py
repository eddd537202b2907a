"""The scores by a control: a rung that runs by lot on settled candidates and decides nothing.

Its answers are in none of the rungs that a verdict, a law or a reward reads. They are shown beside the rewards of a
policy, in `sciagent rewards guards`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sciagent.campaign.core.judge import RungRules
from sciagent.campaign.file.rungs import RungSpec
from sciagent.campaign.spec.controls import SHARE
from sciagent.domain.ladder import Position
from sciagent.domain.objectives import Objective, utility
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.scheduling.audit import lots
from sciagent.store.results.evidence import RecordedEvidence

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltRung
    from sciagent.scheduling.arrays import Mask


def control_rules(rung: RungSpec, position: int) -> RungRules:
    """Returns the rules of a control, which judge nothing. position: the one after the ladder."""
    return RungRules(str(rung.tier), {}, False, frozenset(rung.measured()), Position(position), {}, False)


def is_drawn(control: BuiltRung, seed: int, keys: Iterable[str]) -> Mask:
    """Returns (n,) whether the control runs on candidates, by their keys.

    The lots are others than those of the audit and of `lottery`, so that what these chose plays no part.
    """
    drawn: Mask = lots(seed, (f"{control.spec.rung}:{key}" for key in keys)) < (control.spec.share or SHARE)
    return drawn


def control_score(control: RungSpec, objectives: Sequence[Objective], answer: RecordedEvidence) -> float | None:
    """Returns the score of a candidate by its control; None if the answer does not tell.

    With limits, those of the control or else of the objectives that it measures, the score is 1 if all values lie
    within them and 0 if one does not; without any, it is the utility of the objectives that it measures.
    """
    if answer.outcome is not Outcome.OK:
        return None
    values = {measured.property: measured.quantity for measured in answer.measured}
    own = [objective for objective in objectives if objective.property in control.measured()]
    limits = control.accepted() or {o.property: o.accept for o in own if o.accept is not None}
    if not limits:
        return utility(own, {name: quantity.value for name, quantity in values.items()})
    if not limits.keys() <= values.keys():
        return None
    misses = [window.misses(values[name]) for name, window in limits.items()]
    if any(missed not in (None, Reason.NOT_MEASURED) for missed in misses):
        return 0.0
    return None if Reason.NOT_MEASURED in misses else 1.0
