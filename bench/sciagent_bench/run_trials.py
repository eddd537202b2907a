"""Runs every scheduler on every seed and budget, and once more per seed for the costs of given recalls."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sciagent.errors import UnknownNameError
from sciagent.scheduling.aims_and_payoff import Aims
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import simulate
from sciagent_bench.replay_score import MARKS, Curve, recall, summarised
from sciagent_bench.rivals.hindsight_thresholds import hindsight
from sciagent_bench.schedulers import SCHEDULERS, Facts

Source = Callable[[int], Case]  # the case of a seed
AnyTrial = TypeVar("AnyTrial")
HINDSIGHT = "hindsight"  # no scheduler: costs of recalls by thresholds that know all answers


@dataclass(frozen=True)
class Trial:
    """One run. budget: fraction of the exhaustive cost; None: for the costs of recalls. stream: as in `simulate`."""

    scheduler: str
    seed: int
    budget: float | None
    stream: int = 0


@dataclass
class TrialOutcome:
    """The results of one scheduler, with one value per seed, by budget and by recall."""

    recall: dict[float, list[float | None]] = field(default_factory=dict)
    cost_to: dict[float, list[float | None]] = field(default_factory=dict)

    def add(self, trial: Trial, values: Sequence[float | None]) -> None:
        if trial.budget is not None:
            self.recall.setdefault(trial.budget, []).extend(values)
            return
        for mark, value in zip(MARKS, values, strict=True):
            self.cost_to.setdefault(mark, []).append(value)

    def summary(self) -> Mapping[str, Any]:
        """Returns mean, low and high, by budget and by recall."""
        return {
            name: {f"{at:g}": summarised(values) for at, values in sorted(by_point.items())}
            for name, by_point in (("recall", self.recall), ("cost_to", self.cost_to))
        }


def trials(
    schedulers: Sequence[str], budgets: Sequence[float], seeds: int, stream: int = 0, marks: bool = True
) -> list[Trial]:
    """Returns the runs. marks: whether to add a run per scheduler and seed for the costs of recalls."""
    for name in schedulers:
        if name not in (*SCHEDULERS, HINDSIGHT):
            raise UnknownNameError("scheduler", name, (*SCHEDULERS, HINDSIGHT))
    wanted = (*budgets, None) if marks else tuple(budgets)
    runs = []
    for seed in range(seeds):
        for name in schedulers:
            for budget in wanted:
                if name != HINDSIGHT or budget is None:
                    runs.append(Trial(name, seed, budget, stream))
    return runs


def run(source: Source, trial: Trial) -> list[float | None]:
    """Returns the recall, or the cost of each recall in MARKS. A pool's run stops at the last one."""
    case = source(trial.seed)
    budget = 1.0 if trial.budget is None else trial.budget
    if trial.scheduler == HINDSIGHT:
        return [*hindsight(case, MARKS)]
    truth = case.wide if case.wide is not None and trial.scheduler == "priced" else case.truth
    facts = Facts(
        case.threshold,
        case.sign,
        case.similarity,
        trial.seed,
        budget * truth.exhaustive,
        truth.costs.shape[1],
        case.aims or Aims((case.aim(*case.limits),)),
    )
    buyer = SCHEDULERS[trial.scheduler](facts)
    if trial.budget is not None:
        return [recall(simulate(truth, buyer, budget, trial.stream), truth)]
    curve = Curve.of(simulate(truth, buyer, budget, trial.stream, enough=max(MARKS)), truth, trial.stream > 0)
    return [curve.cost_to(mark) for mark in MARKS]


def run_all(
    source: Source, wanted: Sequence[AnyTrial], workers: int = 1, do: Callable[[Source, Any], Any] = run
) -> Iterator[tuple[AnyTrial, Any]]:
    """Yields each trial with the result of `do` as the runs end. Worker processes inherit the environment, with its
    number of threads."""
    if workers == 1:
        for trial in wanted:
            yield trial, do(source, trial)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(source, do)) as pool:
        futures = {pool.submit(_run, trial): trial for trial in wanted}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


_source: Source
_do: Callable[[Source, Any], Any]


def _begin(source: Source, do: Callable[[Source, Any], Any]) -> None:
    global _source, _do
    _source = source
    _do = do


def _run(trial: Any) -> Any:
    return _do(_source, trial)
