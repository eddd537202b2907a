"""How long a round of the priced ladder takes, and how much memory, by how many candidates are open.

    python -m benchmarks.scheduling_scale.run --out benchmarks/scheduling_scale/results.json

A round is `Priced.choose`: the law takes in what was answered since, candidates are valued, a batch is chosen. Every
size runs in a process of its own, on one core. Times are CPU seconds of the process beside those by the clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

from benchmarks.scheduling_scale.state import MEDIANS, arrived, campaign, draw, fresh  # noqa: E402
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Question, Stack  # noqa: E402

T = TypeVar("T")

SIZES = (10_000, 100_000, 1_000_000)
# CPU seconds a round of the largest size; bytes a candidate, the peak of a round included; exponent of n
TARGETS = {"round": 2.0, "memory": 200.0, "growth": 1.1}


def timed(work: Callable[[], T]) -> tuple[T, dict[str, float]]:
    wall = time.perf_counter()
    cpu = time.process_time()
    done = work()
    return done, {"wall": round(time.perf_counter() - wall, 4), "cpu": round(time.process_time() - cpu, 4)}


def median(times: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in times) for name in ("wall", "cpu")}


def held(*owners: object) -> int:
    """Bytes of the arrays that objects hold, with the room left in them to grow."""
    arrays: dict[int, int] = {}
    for owner in owners:
        for value in vars(owner).values():
            if isinstance(value, np.ndarray):
                whole = value if value.base is None else value.base
                arrays[id(whole)] = getattr(whole, "nbytes", value.nbytes)
    return sum(arrays.values())


def measure(n: int, rounds: int, seed: int = 0, structure: bool = False) -> dict[str, Any]:
    """One size: arrival, features for all, rounds that look for hyper-parameters, and rounds that do not."""
    _, costs = draw(n, seed)
    _, arrival = timed(lambda: arrived(costs))
    features = _features(n, seed)
    state = campaign(n, seed, structure)
    priced = state.priced
    pool = state.pool
    times: list[dict[str, float]] = []
    refits: list[dict[str, float]] = []
    with peak() as of_refit:
        batch, taken = timed(lambda: priced.choose(pool, state.left))
    refits.append(taken)
    state.buy(batch)
    while len(times) < rounds:
        fits = priced.fits
        batch, taken = timed(lambda: priced.choose(pool, state.left))
        (times if priced.fits == fits else refits).append(taken)
        state.buy(batch)
    law, search = _search(state)
    fits = -1
    while fits != priced.fits:  # what was bought last may be what a search waited for
        fits = priced.fits
        gc.collect()
        with peak() as of_round:
            priced.choose(pool, state.left)
    resident = held(pool, priced)
    return {
        "candidates": n,
        "structure": structure,
        "open": len(pool.open),
        "batch": len(batch),
        "answers": [int(pool.answered(j).sum()) for j in range(len(MEDIANS))],
        "round": median(times),
        "rounds": times,
        "law": law,
        "hyper_parameters": search,
        "round_with_refit": median(refits),
        "rounds_with_refit": refits,
        "arrival": arrival,
        "features": features,
        "bytes_a_candidate": {
            "held": round(resident / n, 1),
            "peak_of_a_round": round((resident + of_round[0]) / n, 1),
            "peak_with_refit": round((resident + of_refit[0]) / n, 1),
        },
    }


@contextmanager
def peak() -> Iterator[list[int]]:
    """Bytes allocated at most, at once, beyond those there were."""
    found: list[int] = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield found
    found.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()


def _features(n: int, seed: int) -> dict[str, float]:
    """The cheapest rung for all, chosen and entered."""
    state = fresh(n, seed)

    def buy_all() -> int:
        bought = 0
        while bought < n:
            batch = state.priced.choose(state.pool, state.left)
            state.buy(batch)
            bought += len(batch)
        return bought

    return timed(buy_all)[1]


def _search(state: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds that the law takes to be fitted, and of those that the search for hyper-parameters adds."""
    aims = state.priced.aims
    truths = state.priced.aims.truths(state.pool.scores)
    scores = state.pool.scores
    questions = [Question(scores[:, a.columns], t) for a, t in zip(aims.aims, truths, strict=True)]
    stack = Stack(state.similarity)
    _, first = timed(lambda: stack.fit(questions, 1000))
    _, again = timed(lambda: stack.fit(questions, 1000))
    return again, {name: round(first[name] - again[name], 4) for name in first}


def report(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    last = found[-1]
    growth = [
        {
            "from": a["candidates"],
            "to": b["candidates"],
            **{
                name: round(math.log(b[name]["cpu"] / a[name]["cpu"]) / math.log(b["candidates"] / a["candidates"]), 2)
                for name in ("round", "round_with_refit")
            },
        }
        for a, b in pairwise(found)
    ]
    met = {
        "round": last["round"]["cpu"],
        "memory": last["bytes_a_candidate"]["peak_of_a_round"],
        "growth": max((one["round"] for one in growth), default=0.0),
    }
    return {
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": ".".join(map(str, sys.version_info[:3])),
        "versions": {name: version(name) for name in ("numpy", "scipy")},
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "sizes": list(found),
        "growth_exponents": growth,
        "targets": TARGETS,
        "met": {name: value <= TARGETS[name] for name, value in met.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--structure", action="store_true", help="with a law that reads structures, too")
    parser.add_argument("--one", action="store_true", help="one size, in this process")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if given.one:
        found: dict[str, Any] = measure(given.sizes[0], given.rounds, given.seed, given.structure)
    else:
        found = report([_apart(n, given) for n in given.sizes])
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


def _apart(n: int, given: argparse.Namespace) -> dict[str, Any]:
    """A process of its own: what an earlier size left behind is not counted."""
    command = [sys.executable, "-m", "benchmarks.scheduling_scale.run", "--one", "--sizes", str(n)]
    command += ["--rounds", str(given.rounds), "--seed", str(given.seed), *["--structure"] * given.structure]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
