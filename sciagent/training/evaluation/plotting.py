"""Draws hits against verifications by arm, with bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sciagent.domain.answers.evaluation import EvaluatedCampaign, EvaluationAnswer
from sciagent.errors import UsageError
from sciagent.report.parts.charts import SETTINGS, figure
from sciagent.training.evaluation import bootstrap
from sciagent.training.evaluation.bootstrap import LEVEL, Figures

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
    n, mine = answer.verifications, [each for each in answer.campaigns if each.arm == arm]
    table = np.full((len(answer.tasks), len(answer.seeds), n + 1), np.nan)
    for each in mine:
        table[answer.tasks.index(each.task), answer.seeds.index(each.seed)] = _hits_after(each, n)
    drawn = bootstrap.draws(len(answer.tasks), len(answer.seeds), PLOT_RESAMPLES)
    present = ~np.isnan(table[..., 0])
    counts = np.where(present, 1.0, 0.0)[drawn].sum((1, 2))
    sums = np.where(present[..., None], table, 0.0)[drawn].sum((1, 2))
    means = sums[counts > 0] / counts[counts > 0, None]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.nanmean(table, axis=(0, 1)), low, high


def _hits_after(campaign: EvaluatedCampaign, n: int) -> Figures:
    return np.searchsorted(np.array(campaign.hits_at), np.arange(n + 1), side="right").astype(float)
