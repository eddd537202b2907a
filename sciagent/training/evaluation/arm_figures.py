"""The figures of an evaluation's arms and their paired differences, from the figures of its campaigns.

An arm is one policy or proposer of the evaluation; it runs a campaign for each task and seed. `compared` returns the
figures and differences, with intervals by a hierarchical bootstrap: tasks are drawn with replacement, then seeds within
each drawn task. `draw` plots hits against verifications by arm, with intervals as bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.errors import UsageError
from sciagent.report.parts.campaign_charts import SETTINGS, figure
from sciagent.training.evaluation.evaluation_command_answers import (
    ArmDifference,
    EvaluatedArm,
    EvaluatedCampaign,
    EvaluationAnswer,
)
from sciagent.training.evaluation.evaluation_spec import EvaluateSpec, Interval

RESAMPLES = 10_000  # resamples of the bootstrap
SEED = 20_261_123  # an arbitrary seed; it is fixed, so that the same figures always have the same intervals
LEVEL = 0.95  # share of the resamples that an interval encloses
INTERVAL_ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # quantiles of the resamples

Figures = NDArray[np.float64]
Draws = tuple[NDArray[Any], NDArray[Any]]
"""Indices of the drawn tasks, (b, t, 1), and of the drawn seeds, (b, t, s): b resamples of t tasks with s seeds."""


def draws(n_tasks: int, n_seeds: int, resamples: int = RESAMPLES, seed: int = SEED) -> Draws:
    """Returns the drawn tasks, and the drawn seeds of each drawn task.

    All arms share the draws, so that their differences are paired. seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    tasks = rng.integers(n_tasks, size=(resamples, n_tasks, 1))
    return tasks, rng.integers(n_seeds, size=(resamples, n_tasks, n_seeds))


def ratios(numerators: Figures, denominators: Figures, drawn: Draws) -> Figures:
    """Returns (b + 1,) the sum of the numerators over the sum of the denominators: first of the data, then of each
    resample.

    numerators, denominators: (t, s) by task and seed. A campaign that is nan in one of them counts in neither sum. The
    ratio is nan if its denominator is 0.
    """
    present = ~(np.isnan(numerators) | np.isnan(denominators))
    numerator_sums = _sums(np.where(present, numerators, 0.0), drawn)
    denominator_sums = _sums(np.where(present, denominators, 0.0), drawn)
    all_nan = np.full_like(numerator_sums, np.nan)
    quotients: Figures = np.divide(numerator_sums, denominator_sums, out=all_nan, where=denominator_sums > 0)
    return quotients


def _sums(table: Figures, drawn: Draws) -> Figures:
    """Returns (b + 1,) the sum of a (t, s) table, then the sum of each resample."""
    return np.concatenate([[table.sum()], table[drawn].sum((1, 2))])


def interval(values: Figures) -> Interval | None:
    """Returns the value of the data, and the ends of its interval; None if no value is known.

    values: (b + 1,) of the data first, then of each resample; nan where unknown.
    """
    of_data = values[0]
    of_resamples = values[1:]
    known = of_resamples[~np.isnan(of_resamples)]
    if np.isnan(of_data) or not len(known):
        return None
    low, high = np.quantile(known, INTERVAL_ENDS)
    return float(of_data), float(low), float(high)


SCORES = {
    "hits_per_verification": ("hits", "granted"),
    "hits_per_core_second": ("hits", "core_seconds"),
    "scaffolds_per_verification": ("scaffolds", "granted"),
}
"""By score: the names of the tables of its numerators and of its denominators."""
TOTALS = ("hits", "scaffolds", "verifications", "core_seconds", "calls", "valid_calls")
"""Figures of campaigns that are added up for an arm."""
Places = Mapping[tuple[str, int], tuple[int, int]]
"""By task and seed: row and column in the tables."""


class ArmFigures:
    """The figures of one arm by task and seed: (t, s), nan where a campaign is missing."""

    def __init__(self, campaigns: Sequence[EvaluatedCampaign], places: Places, granted: int) -> None:
        """granted: number of verifications that each campaign may spend."""
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
        """Returns each score by name: (b + 1,) its value in the data, then in each resample.

        missing: (t, s) nan where a campaign is left out, else 0; None: all campaigns count.
        """
        nan_or_zero = 0.0 if missing is None else missing
        scores = {}
        for name, (numerator, denominator) in SCORES.items():
            numerators = self.tables[numerator] + nan_or_zero
            denominators = self.tables[denominator] + nan_or_zero
            scores[name] = ratios(numerators, denominators, drawn)
        return scores

    def answer(self, drawn: Draws, policy: str | None, failed: Sequence[str]) -> EvaluatedArm:
        """Returns the figures of the arm, with intervals. policy: name and hash of its model; None if it has none.
        failed: why campaigns of the arm are missing."""
        total = {name: sum(getattr(each, name) for each in self._campaigns) for name in TOTALS}
        calls = total.pop("calls")
        valid = total.pop("valid_calls")
        intervals = {name: interval(values) for name, values in self.scores(drawn).items()}
        valid_share = round(valid / calls, 6) if calls else None
        others = {"valid": valid_share, "policy": policy, "failed": tuple(failed)}
        return EvaluatedArm.model_validate({**total, **intervals, **others})


def compared(
    campaigns: Sequence[EvaluatedCampaign],
    tasks: Sequence[str],
    spec: EvaluateSpec,
    policies: Mapping[str, str],
    failed: Mapping[str, Sequence[str]],
) -> tuple[dict[str, EvaluatedArm], tuple[ArmDifference, ...]]:
    """Returns the figures of the arms that have campaigns, by arm, and the arms' differences.

    tasks: names of the tasks, in the order of the tables' rows. policies: name and hash of the model, by arm. failed:
    why campaigns are missing, by arm.
    """
    by_arm: dict[str, list[EvaluatedCampaign]] = {}
    for each in campaigns:
        by_arm.setdefault(each.arm, []).append(each)
    if not by_arm:
        return {}, ()
    places = {}
    for row, task in enumerate(tasks):
        for column, seed in enumerate(spec.seeds):
            places[task, seed] = (row, column)
    drawn = draws(len(tasks), len(spec.seeds))
    figures = {}
    answers = {}
    for arm in spec.arms:
        if arm in by_arm:
            figures[arm] = ArmFigures(by_arm[arm], places, granted=spec.verifications)
            answers[arm] = figures[arm].answer(drawn, policies.get(arm), failed.get(arm, ()))
    return answers, tuple(differences(figures, drawn))


def differences(arms: Mapping[str, ArmFigures], drawn: Draws) -> Iterator[ArmDifference]:
    """Yields each arm minus each arm before it, on the tasks and seeds that both have.

    A pair without a common task and seed is left out.
    """
    for earlier, later in combinations(arms, 2):
        # nan where one of the arms has no campaign, else 0
        missing = 0 * (arms[earlier].tables["hits"] + arms[later].tables["hits"])
        later_scores = arms[later].scores(drawn, missing)
        earlier_scores = arms[earlier].scores(drawn, missing)
        intervals: dict[str, Interval | None] = {}
        for score in SCORES:
            intervals[score] = interval(later_scores[score] - earlier_scores[score])
        if intervals["hits_per_verification"] is not None:
            yield ArmDifference.model_validate({"arm": later, "minus": earlier, **intervals})


FORMATS = (".png", ".svg")  # suffixes of the files that a plot can be written to
PLOT_RESAMPLES = 1_000  # fewer than for figures, since each resample has a value for each verification
WIDTH_INCHES = 6.4
HEIGHT_INCHES = 4.0
DOTS_PER_INCH = 160


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
        chart, axes = figure(WIDTH_INCHES, HEIGHT_INCHES)
        verifications = np.arange(answer.verifications + 1)
        for arm in answer.arms:
            mean, low, high = curve(answer, arm)
            [line] = axes.plot(verifications, mean, label=arm, linewidth=1.6)
            axes.fill_between(verifications, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set_xlabel("verifications")
        axes.set_ylabel("hits of a campaign")
        axes.set_xlim(0, answer.verifications)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left")
        chart.savefig(path, dpi=DOTS_PER_INCH)


def curve(answer: EvaluationAnswer, arm: str) -> tuple[Figures, Figures, Figures]:
    """Returns the mean, lower end and upper end of the number of hits after 0, 1, …, n verifications, each (n + 1,)."""
    n = answer.verifications
    campaigns = [each for each in answer.campaigns if each.arm == arm]
    table = np.full((len(answer.tasks), len(answer.seeds), n + 1), np.nan)
    for each in campaigns:
        table[answer.tasks.index(each.task), answer.seeds.index(each.seed)] = _hits_after(each, n)
    drawn = draws(len(answer.tasks), len(answer.seeds), PLOT_RESAMPLES)
    present = ~np.isnan(table[..., 0])
    # sums over the drawn tasks and seeds of each resample
    n_campaigns = np.where(present, 1.0, 0.0)[drawn].sum((1, 2))
    hits = np.where(present[..., None], table, 0.0)[drawn].sum((1, 2))
    has_campaigns = n_campaigns > 0  # a resample may have drawn missing campaigns only
    means = hits[has_campaigns] / n_campaigns[has_campaigns, None]
    low, high = np.quantile(means, INTERVAL_ENDS, axis=0)
    return np.nanmean(table, axis=(0, 1)), low, high


def _hits_after(campaign: EvaluatedCampaign, n: int) -> Figures:
    """Returns (n + 1,) the number of hits of a campaign after 0, 1, …, n verifications."""
    return np.searchsorted(np.array(campaign.hits_at), np.arange(n + 1), side="right").astype(float)
