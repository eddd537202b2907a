"""The figures of an evaluation's arms and their paired differences, from the figures of its campaigns.

`compared` returns them, with intervals by a hierarchical bootstrap: tasks are drawn with replacement, then seeds within
each drawn task. `draw` draws hits against verifications by arm, with bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.errors import UsageError
from sciagent.report.parts.charts import SETTINGS, figure
from sciagent.training.evaluation.evaluation_spec import (
    ArmDifference,
    EvaluatedArm,
    EvaluatedCampaign,
    EvaluateSpec,
    EvaluationAnswer,
    Interval,
)

RESAMPLES = 10_000
SEED = 20_261_123
LEVEL = 0.95

Figures = NDArray[np.float64]
Draws = tuple[NDArray[Any], NDArray[Any]]


def draws(n_tasks: int, n_seeds: int, resamples: int = RESAMPLES, seed: int = SEED) -> Draws:
    """Returns the drawn tasks, (b, t, 1), and the drawn seeds of each, (b, t, s). All arms share them, so that
    differences are paired."""
    rng = np.random.default_rng(seed)
    tasks = rng.integers(n_tasks, size=(resamples, n_tasks, 1))
    return tasks, rng.integers(n_seeds, size=(resamples, n_tasks, n_seeds))


def ratios(numerators: Figures, denominators: Figures, drawn: Draws) -> Figures:
    """Returns (b + 1,) the ratio of the sums: of the data themselves first, then of each resample.

    numerators, denominators: (t, s) by task and seed; nan where a campaign is missing, which then counts in neither.
    The ratio is nan if its denominator is 0.
    """
    present = ~(np.isnan(numerators) | np.isnan(denominators))
    up = np.where(present, numerators, 0.0)
    down = np.where(present, denominators, 0.0)
    tops = np.concatenate([[up.sum()], up[drawn].sum((1, 2))])
    bottoms = np.concatenate([[down.sum()], down[drawn].sum((1, 2))])
    found: Figures = np.divide(tops, bottoms, out=np.full_like(tops, np.nan), where=bottoms > 0)
    return found


def interval(values: Figures) -> Interval | None:
    """Returns the first value, and the percentiles of the others that enclose `LEVEL` of them; None without a value."""
    known = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or not len(known):
        return None
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(values[0]), float(low), float(high)


SCORES = {
    "hits_per_verification": ("hits", "granted"),
    "hits_per_core_second": ("hits", "core_seconds"),
    "scaffolds_per_verification": ("scaffolds", "granted"),
}
"""By score: the table that is summed, and the table by whose sum it is divided."""
TOTALS = ("hits", "scaffolds", "verifications", "core_seconds", "calls", "valid_calls")
Places = Mapping[tuple[str, int], tuple[int, int]]
"""By task and seed: row and column in the tables."""


class ArmFigures:
    """The figures of one arm by task and seed: (t, s), nan where a campaign is missing."""

    def __init__(self, campaigns: Sequence[EvaluatedCampaign], places: Places, granted: int) -> None:
        self._campaigns = campaigns
        n_tasks = max(row for row, _ in places.values()) + 1
        n_seeds = max(column for _, column in places.values()) + 1
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
            name: ratios(self.tables[top] + left_out, self.tables[bottom] + left_out, drawn)
            for name, (top, bottom) in SCORES.items()
        }

    def answer(self, drawn: Draws, policy: str | None, failed: Sequence[str]) -> EvaluatedArm:
        """Returns the figures of the arm, with intervals."""
        total = {name: sum(getattr(each, name) for each in self._campaigns) for name in TOTALS}
        calls = total.pop("calls")
        valid = total.pop("valid_calls")
        intervals = {name: interval(values) for name, values in self.scores(drawn).items()}
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
    drawn = draws(len(tasks), len(spec.seeds))
    figures = {arm: ArmFigures(by_arm[arm], places, spec.verifications) for arm in spec.arms if arm in by_arm}
    arms = {arm: each.answer(drawn, policies.get(arm), failed.get(arm, ())) for arm, each in figures.items()}
    return arms, tuple(differences(figures, drawn))


def differences(arms: Mapping[str, ArmFigures], drawn: Draws) -> Iterator[ArmDifference]:
    """Yields each arm minus each arm before it, on the tasks and seeds that both have; none without such."""
    for before, name in combinations(arms, 2):
        missing = 0 * (arms[before].tables["hits"] + arms[name].tables["hits"])
        scores = arms[name].scores(drawn, missing)
        others = arms[before].scores(drawn, missing)
        minus: dict[str, Interval | None] = {key: interval(scores[key] - others[key]) for key in SCORES}
        if minus["hits_per_verification"] is not None:
            yield ArmDifference.model_validate({"arm": name, "minus": before, **minus})


FORMATS = (".png", ".svg")
PLOT_RESAMPLES = 1_000


def check_plot(path: Path) -> None:
    """Raises UsageError for a file that no plot can be written to."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a plot is a file {' or '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")


def draw(answer: EvaluationAnswer, path: Path) -> None:
    """Draws the mean number of hits of a campaign after each verification, with intervals by arm."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        chart, axes = figure(6.4, 4.0)
        drawn = np.arange(answer.verifications + 1)
        for arm in answer.arms:
            mean, low, high = curve(answer, arm)
            [line] = axes.plot(drawn, mean, label=arm, linewidth=1.6)
            axes.fill_between(drawn, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set_xlabel("verifications")
        axes.set_ylabel("hits of a campaign")
        axes.set_xlim(0, answer.verifications)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left")
        chart.savefig(path, dpi=160)


def curve(answer: EvaluationAnswer, arm: str) -> tuple[Figures, Figures, Figures]:
    """Returns (n + 1,) mean, lower and upper end of the number of hits after 0, 1, …, n verifications."""
    n = answer.verifications
    mine = [each for each in answer.campaigns if each.arm == arm]
    table = np.full((len(answer.tasks), len(answer.seeds), n + 1), np.nan)
    for each in mine:
        table[answer.tasks.index(each.task), answer.seeds.index(each.seed)] = _hits_after(each, n)
    drawn = draws(len(answer.tasks), len(answer.seeds), PLOT_RESAMPLES)
    present = ~np.isnan(table[..., 0])
    counts = np.where(present, 1.0, 0.0)[drawn].sum((1, 2))
    sums = np.where(present[..., None], table, 0.0)[drawn].sum((1, 2))
    means = sums[counts > 0] / counts[counts > 0, None]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.nanmean(table, axis=(0, 1)), low, high


def _hits_after(campaign: EvaluatedCampaign, n: int) -> Figures:
    return np.searchsorted(np.array(campaign.hits_at), np.arange(n + 1), side="right").astype(float)
