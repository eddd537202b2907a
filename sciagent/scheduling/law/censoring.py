"""Censored answers in the law: `< 1 %` means that the value is below 1 %, not that it is 1 %.

A censored answer enters the law as its expectation: the mean of a normal distribution truncated at the bound, with that
distribution's standard deviation as uncertainty. The normal is the prediction without this answer. For the deciding
answer it is the forecast of a law fitted to exact answers only, given the lower rungs. For a lower rung, or with too
few exact answers, it is the distribution of the rung's exact answers. This is one expectation step of the EM algorithm
for censored normal regression.

Sources: Tobin, Econometrica 26, 24 (1958); Cohen, Technometrics 1, 217 (1959); Dempster, Laird and Rubin, J. R. Stat.
Soc. B 39, 1 (1977), section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.aims import Aims
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.interval import mixture
from sciagent.scheduling.law.stack import Law
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.law.truncated import truncated_moments

Errors = NDArray[np.float32]
Bounds = NDArray[np.int8]
Fit = Callable[[Array, Errors | None], list[Law]]

FEWEST = 4  # exact answers of a rung that are needed to replace a censored one


def expected_answers(
    scores: Array, errors: Errors | None, bounds: Bounds | None, aims: Aims, truths: Sequence[TruthTransform], fit: Fit
) -> tuple[Array, Errors | None]:
    """Returns scores and errors, (n, c), with censored answers replaced by expectations. Columns with too few exact
    answers keep their bounds.

    bounds: (n, c) as in `CandidatePool`; None if no answer is censored. truths: one per aim. fit: returns the laws
    fitted to scores and errors.
    """
    if bounds is None or not (censored := bounds != 0).any():
        return scores, errors
    exact = np.where(censored, np.nan, scores)
    value, error = scores.copy(), np.zeros(scores.shape, dtype=np.float32) if errors is None else errors.copy()
    decides = {aim.columns[-1]: number for number, aim in enumerate(aims.aims)}
    laws: Sequence[Law] = ()
    if all((~np.isnan(exact[:, column])).sum() >= FEWEST for column in decides) and censored[:, list(decides)].any():
        laws = fit(exact, errors)
    for column in np.flatnonzero(censored.any(axis=0)).tolist():
        rows, known = np.flatnonzero(censored[:, column]), exact[~np.isnan(exact[:, column]), column]
        if len(known) < FEWEST or not known.std() > 0:
            continue
        mean, sd = np.full(len(rows), known.mean()), np.full(len(rows), known.std(ddof=1))
        if column in decides and laws:
            truth = truths[decides[column]]
            middle, spread, _ = mixture(laws, decides[column], rows)
            mean, sd = truth.inverse(middle), truth.scale * spread
        value[rows, column], error[rows, column] = truncated_moments(
            mean, sd, scores[rows, column], bounds[rows, column]
        )
    return value, error
