"""A chain of Gaussian processes: predicts each rung from the rungs below it, the terminal rung last.

A missing rung is replaced by its own prediction, whose variance is propagated to first order. With linear kernels and
the lowest rungs seen, this is the conditional of the joint Gaussian. If a rung below a seen one is missing, it is
predicted from the rungs below it only, without the information of the seen one. Other kernels make the conditional
nonlinear and use neighbours in structure.

Where rows are few, each process of the chain is averaged over its hyper-parameters. Censored answers enter as moments
of a truncated normal distribution.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.answer_transforms import ScoreTransform, TruthTransform
from sciagent.scheduling.law.binary_answers import choices_of, fit_hyper_to_hidden, hidden_answers, is_yes, is_yes_or_no
from sciagent.scheduling.law.gaussian_process import (
    CENTRES,
    MAX_FIT_ROWS,
    Hyper,
    Process,
    Rows,
    fit_hyper,
    likely_hypers,
)
from sciagent.scheduling.law.prediction_interval_width import Reach
from sciagent.scheduling.law.similarity import Order, Similarity, smallest_hashes, with_row_hashes


class Averaged:
    """The mixture of processes with likely hyper-parameters, by its first two moments.

    It has the interface of `Process`, without a basis. near: hyper-parameters near the most probable ones.
    """

    def __init__(self, rows: Rows, near: Hyper) -> None:
        hypers, self._weights = likely_hypers(rows, near)
        self._processes = [Process(hyper, rows) for hyper in hypers]
        self.basis = np.arange(len(rows.y))
        self.noise = float(self._weights @ [process.noise for process in self._processes])
        left_out = [process.leave_one_out for process in self._processes]
        self.leave_one_out = self._moments([mean for mean, _ in left_out], [variance for _, variance in left_out])
        """Means and variances (n,) of each row's noisy answer, predicted from the other rows."""

    def slopes(self, z: Array) -> Array:
        """Returns (n, d) gradients of the mean over z."""
        return self._mean([process.slopes(z) for process in self._processes])

    def foretell(self, z: Array, similarity: Array | None = None) -> tuple[Array, Array, Array]:
        """Returns mean, variance and slopes, as `Process.foretell`."""
        forecasts = [process.foretell(z, similarity) for process in self._processes]
        means = [mean for mean, _, _ in forecasts]
        variances = [variance for _, variance, _ in forecasts]
        mean, variance = self._moments(means, variances)
        return mean, variance, self._mean([slopes for _, _, slopes in forecasts])

    def _mean(self, values: Sequence[Array]) -> Array:
        return np.tensordot(self._weights, np.stack(values), axes=1)

    def _moments(self, means: Sequence[Array], variances: Sequence[Array]) -> tuple[Array, Array]:
        """Returns mean and variance (n,) of the mixture."""
        mean = self._mean(means)
        return mean, self._mean([v + (m - mean) ** 2 for m, v in zip(means, variances, strict=True)])


BASIS = 200  # basis rows of a process without structure, which has few inputs
BASIS_STRUCTURE = 900  # basis rows of a process with structure
TERMINAL_ROWS = 600  # largest number of terminal answers to which a chain is fitted
OTHERS = 0.25  # fraction of TERMINAL_ROWS for answers of other candidates than the most promising ones
TRUST_ROWS = 60  # smallest number of rows from which a factor of `Trust` is learned
TRUST_PRIOR = 30.0  # weight, in rows, of the factor 1, to which factors are shrunk
MIDDLE_ROWS = 500  # fitting rows of a rung below the terminal one: it only fills gaps, and is soon known well enough
# standard uncertainty of an earlier campaign's terminal answer, as a fraction of its distance from a limit of a hit,
# since the relation between the rungs may be another one there
ELSEWHERE = 0.3
FEW_ROWS = 120  # terminal rows up to which the law is averaged over its hyper-parameters
SAME_SLOPE = 0.8  # expected slope of an answer over that of a lower rung that measures the same property
MIN_THREADED_BLOCKS = 2  # number of blocks from which two threads compute them
MAX_BLOCKS_AHEAD = 8  # largest number of blocks computed ahead of use
BLOCK = 4096  # candidates computed at a time, so that the data stay in the processor's cache


@dataclass(frozen=True)
class Forecast:
    """The forecast for n candidates that have answers from the same rungs."""

    missing: tuple[int, ...]
    """The m rungs without an answer."""
    mean: Array
    """(n,) expected terminal answer; hits lie above 0."""
    covariance: Array
    """(n, m + 1, m + 1) covariance of the answers of the missing rungs and, last, of the terminal rung."""

    @property
    def variance(self) -> Array:
        """(n,) variance of the terminal answer."""
        return self.covariance[:, -1, -1]


@dataclass(frozen=True)
class Trust:
    """A correction of the predicted variance, by the predicted mean: the noise of a method varies over its range, and
    decisions fall at one end. means: (m,) ascending; factors: (m,) on the variance."""

    means: Array
    factors: Array

    @classmethod
    def none(cls) -> Trust:
        """Returns no correction."""
        return cls(np.zeros(1), np.ones(1))

    @classmethod
    def of(cls, mean: Array, variance: Array, answers: Array) -> Trust:
        """Learns the factors from leave-one-out means and variances (n,) of the answers."""
        order = np.argsort(mean, kind="stable")
        squared_errors = ((answers - mean) ** 2 / variance)[order]
        width = max(TRUST_ROWS, len(order) // 10)  # rows of a window over the ascending means
        if len(order) < 2 * width:
            return cls.none()
        begins = np.arange(0, len(order) - width + 1, max(1, width // 4))
        ends = begins + width
        error_sums = np.concatenate([[0.0], np.cumsum(squared_errors)])
        window_errors = error_sums[ends] - error_sums[begins]
        mean_sums = np.concatenate([[0.0], np.cumsum(mean[order])])
        window_means = (mean_sums[ends] - mean_sums[begins]) / width
        return cls(window_means, (window_errors + TRUST_PRIOR) / (width + TRUST_PRIOR))

    def __call__(self, mean: Array) -> Array:
        """Returns (n,) factors on the variances at these means."""
        return np.interp(mean, self.means, self.factors)


class Chain:
    """A chain of processes, fitted to the paid answers. It needs at least one terminal answer.

    A rung is given by its column, j. A rung with several properties has several columns.

    scores: (n, k) raw scores of all candidates, terminal rung last, NaN if unknown; not copied. truth: transform of the
    terminal answer. order: (n,) hashes of the candidates' keys, by which rows are selected where there are too many;
    None: hashes of the row numbers. start: hyper-parameters by rung, of an earlier fit. refit: whether to optimise
    them. errors: (n, k) standard uncertainties of the scores, 0 if unknown; uncertain answers have less weight.
    earlier: number of first rows that an earlier campaign chose; the farther their terminal answers are from a limit of
    a hit, the less weight they have. alike: groups of rungs, ascending, of which each measures one property at several
    levels.

    Attributes: `hyper`, by rung; `log_loss`, the leave-one-out loss of "is a hit", in nats, summed over rows; `reach`,
    number of standard deviations that covers 90 % of the terminal answers, leave-one-out (see `Reach`); `choices`,
    the transformed answers for no and yes if the terminal answers are one or the other, else None: forecasts are then
    of the hidden value (see `binary_answers`).
    """

    def __init__(
        self,
        scores: Array,
        truth: TruthTransform,
        similarity: Similarity | None,
        order: Order | None = None,
        start: dict[int, Hyper] | None = None,
        refit: bool = True,
        errors: NDArray[np.floating] | None = None,
        earlier: int = 0,
        alike: Sequence[Sequence[int]] = (),
    ) -> None:
        self._errors = errors
        self._earlier = earlier
        self._future_variance: dict[int, float] = {}  # by rung: expected measurement variance of a future answer
        self._last = scores.shape[1] - 1
        self._scores = scores
        self._similarity = similarity
        self._truth = truth
        self._order = with_row_hashes(order, len(scores))
        seen = [np.flatnonzero(~np.isnan(scores[:, j])) for j in range(scores.shape[1])]
        self._known = [j for j in range(self._last) if len(seen[j])]
        self._transforms: dict[int, ScoreTransform | TruthTransform] = {
            j: ScoreTransform.of(scores[seen[j], j]) for j in self._known
        }
        self._transforms[self._last] = truth
        self.hyper: dict[int, Hyper] = dict(start or {})
        self._slopes = {j: self._expected_slopes(j, alike) for j in (*self._known, self._last)}
        self._processes: dict[int, Process | Averaged] = {}
        self._basis: dict[int, RowIndices] = {}
        for j in (*self._known, self._last):
            rows = seen[j]
            if j == self._last or len(rows) < len(scores):
                if j < self._last and len(rows) > MIDDLE_ROWS:
                    rows = rows[smallest_hashes(self._order[rows], MIDDLE_ROWS)]
                if j == self._last:
                    rows = self._most_promising(rows)
                self._learn(j, rows, refit)

    def forecast(self, of: RowIndices) -> Iterator[tuple[RowIndices, Forecast]]:
        """Yields groups of candidates with the same missing rungs: positions in `of`, and the forecast. Many groups are
        computed in two threads if there are two processors; results and their order are the same."""
        blocks = []
        for missing_rungs, group in self._groups(of, self._known):
            for first in range(0, len(group), BLOCK):
                blocks.append((missing_rungs, group[first : first + BLOCK]))

        def forecast_block(block: tuple[tuple[int, ...], RowIndices]) -> tuple[RowIndices, Forecast]:
            missing, part = block
            z, covariance = self._with_predictions(of[part], self._known, missing)
            columns = [self._known.index(j) for j in missing]
            mean, variance, cross = self._predict(self._last, z, of[part], columns, covariance)
            return part, Forecast(missing, mean, _with_variable(covariance, variance, cross))

        if len(blocks) < MIN_THREADED_BLOCKS or (os.cpu_count() or 1) < 2:
            yield from map(forecast_block, blocks)
            return
        with ThreadPoolExecutor(2) as pool:
            for start in range(0, len(blocks), MAX_BLOCKS_AHEAD):  # limits the number of forecasts in memory
                yield from pool.map(forecast_block, blocks[start : start + MAX_BLOCKS_AHEAD])

    def _expected_slopes(self, j: int, alike: Sequence[Sequence[int]]) -> Array:
        """Returns (d,) slopes of rung j's transformed answers over the answers of the d known rungs below, as expected
        before any answer. A slope is 0 except for the highest rung that measures the same property."""
        inputs = [i for i in self._known if i < j]
        slopes = np.zeros(len(inputs))
        lower = list[int]()
        for group in alike:
            if j in group:
                lower.extend(rung for rung in inputs if rung in group)
        if lower:
            highest = lower[-1]
            below = self._transforms[highest]
            own = self._transforms[j]
            assert isinstance(below, ScoreTransform)
            # both transforms divide by a scale, about or exactly
            own_slope = own.sign / own.scale if isinstance(own, TruthTransform) else 1 / own.scale
            slopes[inputs.index(highest)] = SAME_SLOPE * below.scale * own_slope
        return slopes

    def pairs(self, j: int) -> int:
        """Returns the number of rows with an answer of rung j and a terminal answer."""
        return int((~np.isnan(self._scores[:, j]) & ~np.isnan(self._scores[:, self._last])).sum())

    def _answers(self, of: RowIndices, j: int) -> Array:
        """Returns (n,) transformed answers; NaN if unknown."""
        return self._transforms[j](self._scores[of, j])

    def _measurement_variance(self, of: RowIndices, j: int) -> Array:
        """Returns (n,) measurement variance of the transformed answers."""
        if self._errors is None:
            return np.zeros(len(of))
        slopes = self._transforms[j].slope(self._scores[of, j])
        variance: Array = (self._errors[of, j] * slopes) ** 2
        return variance

    def _variance_if_earlier(self, of: RowIndices, j: int) -> Array:
        """Returns (n,) additional variance of rung j's transformed answers. It is above 0 for terminal answers of an
        earlier campaign, since the relation between the rungs may have been another one there."""
        variance: Array = np.zeros(len(of))
        if j == self._last and self._earlier:
            is_earlier = of < self._earlier
            distance = self._truth.distance_from_limit(self._answers(of[is_earlier], j))
            variance[is_earlier] = (ELSEWHERE * distance) ** 2
        return variance

    def _inputs(self, of: RowIndices, inputs: list[int]) -> Array:
        """Returns (n, d) transformed answers of several rungs."""
        z = np.empty((len(of), len(inputs)))
        for place, j in enumerate(inputs):
            z[:, place] = self._answers(of, j)
        return z

    def _most_promising(self, rows: RowIndices) -> RowIndices:
        """Selects at most TERMINAL_ROWS terminal answers: most of them of the most promising candidates, which are near
        the next decision, and some others. The promise of a row is its leave-one-out prediction, so that no row is
        chosen for its own error."""
        if len(rows) <= TERMINAL_ROWS:
            return rows
        z = np.nan_to_num(self._inputs(rows, self._known))  # an unknown answer counts as 0, about the mean
        basis = smallest_hashes(self._order[rows], BASIS)
        expected = z @ self._slopes[self._last]
        whole = Rows(z, self._answers(rows, self._last) - expected, extra=np.zeros(len(rows)))
        hyper = self.hyper.get(self._last, Hyper(CENTRES))
        mean, variance = Process(hyper, whole, basis).leave_one_out
        mean = mean + expected
        promise = mean if self._truth.is_one_sided else self._truth.chance(mean, np.sqrt(variance))
        order = np.argsort(-promise, kind="stable")
        n_others = int(OTHERS * TERMINAL_ROWS)
        n_best = TERMINAL_ROWS - n_others
        best = order[:n_best]
        less_promising = order[n_best:]
        others = less_promising[smallest_hashes(self._order[rows[less_promising]], n_others)]
        chosen = np.concatenate([best, others])
        selected: RowIndices = rows[np.sort(chosen)]
        return selected

    def _learn(self, j: int, rows: RowIndices, refit: bool) -> None:
        """Fits the process of rung j to the candidates in `rows`, which have its answer.

        A row in which a lower rung is missing gets extra noise: the more, the more the answer depends on that rung.
        """
        inputs = [i for i in self._known if i < j]
        z = np.empty((len(rows), len(inputs)))
        extra = self._measurement_variance(rows, j)
        self._future_variance[j] = float(np.median(extra))
        extra += self._variance_if_earlier(rows, j)
        gaps: list[tuple[RowIndices, list[int], Array]] = []
        for missing, group in self._groups(rows, inputs):
            z[group], covariance = self._with_predictions(rows[group], inputs, missing)
            if missing:
                gaps.append((group, [inputs.index(i) for i in missing], covariance))
        expected = z @ self._slopes[j]
        whole = Rows(z, self._answers(rows, j) - expected, extra)
        hidden = self._is_hidden(j, rows)
        limit = BASIS if self._similarity is None else BASIS_STRUCTURE
        basis = None if len(rows) <= limit else smallest_hashes(self._order[rows], limit)
        if gaps:
            rough = self._process(j, self.hyper.get(j, Hyper(CENTRES)), whole, rows, basis)
            for group, columns, covariance in gaps:
                slopes = (rough.slopes(z[group]) + self._slopes[j])[:, columns]
                extra[group] += np.einsum("ni,nij,nj->n", slopes, covariance, slopes)
        if refit or j not in self.hyper:
            sample = smallest_hashes(self._order[rows], MAX_FIT_ROWS)
            expected_hidden = expected[sample] if hidden else None
            self.hyper[j] = self._fitted(j, whole.take(sample), rows[sample], expected_hidden)
        training = whole
        if hidden:  # hidden values take the place of yes and no
            training = hidden_answers(self.hyper[j], self._with_structure(whole, rows), expected)
        process = self._process(j, self.hyper[j], training, rows, basis)
        self._processes[j] = process
        self._basis[j] = rows[process.basis]
        if j == self._last:
            mean, variance = process.leave_one_out
            answer_variance = training.extra - whole.extra  # 0, except for hidden values
            self._judge(mean + expected, variance - answer_variance, whole.y + expected, hidden)

    def _is_hidden(self, j: int, rows: RowIndices) -> bool:
        """Returns whether rung j decides, and says yes or no."""
        return j == self._last and self._truth.is_one_sided and is_yes_or_no(self._answers(rows, j))

    def _fitted(self, j: int, rows: Rows, places: RowIndices, expected_hidden: Array | None) -> Hyper:
        """Returns hyper-parameters for these rows.

        places: the candidates of the rows. expected_hidden: their expected hidden values, if answers are yes or no.
        """
        rows = self._with_structure(rows, places)
        fit = fit_hyper if expected_hidden is None else partial(fit_hyper_to_hidden, expected=expected_hidden)
        return fit(rows, start=self.hyper.get(j))

    def _judge(self, mean: Array, variance: Array, answers: Array, hidden: bool) -> None:
        """Sets `choices`, `log_loss` and `reach`, by the terminal answers (n,) and their leave-one-out means and
        variances. hidden: whether the answers are yes or no."""
        self.choices = choices_of(answers) if hidden else None
        self._trust = Trust.none() if hidden else Trust.of(mean, variance, answers)
        sd = np.sqrt(variance * self._trust(mean))
        judged_answers = np.where(is_yes(answers), 1.0, -1.0) if hidden else answers
        self.log_loss = self._truth.log_loss(mean, sd, judged_answers)
        self.reach = Reach.none() if hidden else Reach.of(mean, np.abs(answers - mean) / sd)

    def _with_structure(self, rows: Rows, places: RowIndices) -> Rows:
        """Returns the rows with the similarity of their structures, if there are structures."""
        if self._similarity is None:
            return rows
        return replace(rows, similarity=self._similarity.between(places, places))

    def _process(
        self, j: int, hyper: Hyper, rows: Rows, places: RowIndices, basis: RowIndices | None
    ) -> Process | Averaged:
        """Returns the process of rung j with these hyper-parameters and rows. places: (n,) the candidates of the rows.
        basis: positions in rows of the basis; None: all rows."""
        if basis is not None:
            cross = None if self._similarity is None else self._similarity.between(places, places[basis])
            return Process(hyper, rows, basis, cross)
        rows = self._with_structure(rows, places)
        has_few_answers = j == self._last and len(places) <= FEW_ROWS
        return Averaged(rows, hyper) if has_few_answers else Process(hyper, rows)

    def _groups(self, of: RowIndices, inputs: list[int]) -> Iterator[tuple[tuple[int, ...], RowIndices]]:
        """Yields positions in `of`, grouped by the missing rungs among `inputs`."""
        missing = np.isnan(self._scores[of[:, None], np.array(inputs, dtype=np.intp)])
        bits = 1 << np.arange(len(inputs), dtype=np.int64)
        codes = missing @ bits if inputs else np.zeros(len(of), dtype=np.int64)
        for code in np.unique(codes).tolist():
            missing_rungs = tuple(j for place, j in enumerate(inputs) if code >> place & 1)
            yield missing_rungs, np.flatnonzero(codes == code)

    def _with_predictions(self, of: RowIndices, inputs: list[int], missing: tuple[int, ...]) -> tuple[Array, Array]:
        """Returns the inputs (n, d) with missing ones predicted, and the covariance (n, m, m) of those predictions."""
        z = self._inputs(of, inputs)
        covariance = np.zeros((len(of), 0, 0))
        columns: list[int] = []
        for j in missing:
            place = inputs.index(j)
            z[:, place], variance, cross = self._predict(j, z[:, :place], of, columns, covariance)
            covariance = _with_variable(covariance, variance, cross)
            columns.append(place)
        return z, covariance

    def _predict(
        self, j: int, z: Array, of: RowIndices, columns: list[int], covariance: Array
    ) -> tuple[Array, Array, Array]:
        """Returns mean and variance (n,) of rung j's noisy answer, and its covariance (n, m) with the predicted inputs,
        which are in `columns`."""
        process = self._processes[j]
        alike = None if self._similarity is None else self._similarity.between(of, self._basis[j])
        mean, variance, slopes = process.foretell(z, alike)
        mean = mean + z @ self._slopes[j]
        slopes = slopes + self._slopes[j]
        variance = variance + process.noise + self._future_variance[j]
        if j == self._last:
            variance = variance * self._trust(mean)
        if not columns:
            return mean, variance, np.zeros((len(of), 0))
        slopes = slopes[:, columns]
        cross = np.einsum("nij,nj->ni", covariance, slopes)
        return mean, variance + (cross * slopes).sum(1), cross


def _with_variable(covariance: Array, variance: Array, cross: Array) -> Array:
    """Returns (n, m + 1, m + 1): one more variable with variances (n,) and covariances (n, m) to the others."""
    n, m = cross.shape
    grown = np.empty((n, m + 1, m + 1))
    grown[:, :m, :m] = covariance
    grown[:, m, :m] = cross
    grown[:, :m, m] = cross
    grown[:, m, m] = variance
    return grown
