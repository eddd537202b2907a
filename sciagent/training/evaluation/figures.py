"""The figures of an evaluation's arms, and their paired differences, from those of its campaigns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from sciagent.domain.answers.evaluation import ArmDifference, EvaluatedArm, EvaluatedCampaign, Interval
from sciagent.training.evaluation import bootstrap
from sciagent.training.evaluation.bootstrap import Draws, Figures
from sciagent.training.evaluation.spec import EvaluateSpec

SCORES = {
    "hits_per_verification": ("hits", "granted"),
    "hits_per_core_second": ("hits", "core_seconds"),
    "scaffolds_per_verification": ("scaffolds", "granted"),
}
"""{score: (the field of a campaign, what it is divided by)}."""
TOTALS = ("hits", "scaffolds", "verifications", "core_seconds", "calls", "valid_calls")
Places = Mapping[tuple[str, int], tuple[int, int]]
"""{(task, seed): place in the tables}."""


class ArmFigures:
    """The figures of one arm by task and seed: (t, s), nan where a campaign is missing."""

    def __init__(self, campaigns: Sequence[EvaluatedCampaign], places: Places, granted: int) -> None:
        self._campaigns = campaigns
        n_tasks, n_seeds = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
        names = ("hits", "scaffolds", "core_seconds")
        self.tables: dict[str, Figures] = {name: np.full((n_tasks, n_seeds), np.nan) for name in (*names, "granted")}
        for each in campaigns:
            place = places[each.task, each.seed]
            for name in names:
                self.tables[name][place] = getattr(each, name)
            self.tables["granted"][place] = granted

    def scores(self, drawn: Draws, missing: Figures | None = None) -> dict[str, Figures]:
        """Returns (b + 1,) each score, of the data and of every resample. missing: nan where campaigns are left out."""
        left_out = 0.0 if missing is None else missing
        return {
            name: bootstrap.ratios(self.tables[top] + left_out, self.tables[bottom] + left_out, drawn)
            for name, (top, bottom) in SCORES.items()
        }

    def answer(self, drawn: Draws, policy: str | None, failed: Sequence[str]) -> EvaluatedArm:
        """Returns the figures of the arm, with intervals."""
        total = {name: sum(getattr(each, name) for each in self._campaigns) for name in TOTALS}
        calls, valid = total.pop("calls"), total.pop("valid_calls")
        intervals = {name: bootstrap.interval(values) for name, values in self.scores(drawn).items()}
        more = {"valid": round(valid / calls, 6) if calls else None, "policy": policy, "failed": tuple(failed)}
        return EvaluatedArm.model_validate({**total, **intervals, **more})


def compared(
    campaigns: Sequence[EvaluatedCampaign],
    tasks: Sequence[str],
    spec: EvaluateSpec,
    policies: Mapping[str, str],
    failed: Mapping[str, Sequence[str]],
) -> tuple[dict[str, EvaluatedArm], tuple[ArmDifference, ...]]:
    """Returns the figures of the arms that have campaigns, and their differences. policies: name and hash of the model
    by arm. failed: why campaigns are missing, by arm."""
    by_arm: dict[str, list[EvaluatedCampaign]] = {}
    for each in campaigns:
        by_arm.setdefault(each.arm, []).append(each)
    if not by_arm:
        return {}, ()
    places = {(task, seed): (i, j) for i, task in enumerate(tasks) for j, seed in enumerate(spec.seeds)}
    drawn = bootstrap.draws(len(tasks), len(spec.seeds))
    figures = {arm: ArmFigures(by_arm[arm], places, spec.verifications) for arm in spec.arms if arm in by_arm}
    arms = {arm: each.answer(drawn, policies.get(arm), failed.get(arm, ())) for arm, each in figures.items()}
    return arms, tuple(differences(figures, drawn))


def differences(arms: Mapping[str, ArmFigures], drawn: Draws) -> Iterator[ArmDifference]:
    """Yields each arm minus each arm before it, on the tasks and seeds that both have; none without such."""
    for before, name in combinations(arms, 2):
        missing = 0 * (arms[before].tables["hits"] + arms[name].tables["hits"])
        scores, others = arms[name].scores(drawn, missing), arms[before].scores(drawn, missing)
        minus: dict[str, Interval | None] = {key: bootstrap.interval(scores[key] - others[key]) for key in SCORES}
        if minus["hits_per_verification"] is not None:
            yield ArmDifference.model_validate({"arm": name, "minus": before, **minus})
