"""How many decisions a second the priced ladder makes with the ledger on, while 10^5 candidates are open.

    python -m benchmarks.scheduling_scale.decisions --out benchmarks/scheduling_scale/decisions.json

A real ledger (SQLite in a file, WAL) holds one campaign of three paid rungs, whose cheapest has answered for nine
candidates in ten. The product's own `Driver` steps it: `Pricing.wants`, `Pricing.choose` with the law's rounds,
`promote`, `LocalJobs.settle`, in its order and its transactions, until so many decisions are in the ledger.

**No verifier runs in a process of its own, and its time is not measured** (`invented`). So all places are free in each
cycle: `workers` jobs may run and as many groups wait beside them, and as the invented verifiers
take 16 candidates together, a cycle has up to 2 x 16 x workers places, the most that a driver with fast jobs ever gets.

All of it is done several times, for a shared machine is not always as fast: what is written is the run in the middle,
by what `priced` sustained on the clock, and under `runs` what each of them came to.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from benchmarks.scheduling_scale.invented import WRITTEN, Answering, fill, invented, opened  # noqa: E402
from sciagent.campaign.core.built_campaign_and_derived_values import Built  # noqa: E402
from sciagent.campaign.driving import driver as driving  # noqa: E402
from sciagent.campaign.driving.directives_and_proposer_turns import Intake  # noqa: E402
from sciagent.campaign.driving.driver import Driver  # noqa: E402
from sciagent.campaign.driving.local_jobs import LocalJobs  # noqa: E402
from sciagent.campaign.pricing.auditing import Auditing  # noqa: E402
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import LedgerPool  # noqa: E402
from sciagent.campaign.pricing.priced_scheduler import Pricing  # noqa: E402
from sciagent.campaign.pricing.rung_by_rung_purchasing_and_choice import InTurn  # noqa: E402
from sciagent.store.database.ledger import Ledger  # noqa: E402

TARGET = 1000.0  # decisions a second
KNOWN = 0.9  # of the candidates the cheapest rung has answered for


@dataclass
class Stopwatch:
    """Seconds by step, of the clock and of the CPU, without those of the steps inside it; and how often it came."""

    wall: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    times: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _stack: list[str] = field(default_factory=list)
    _since: tuple[float, float] = (0.0, 0.0)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._turn()
        self.times[name] += 1
        self._stack.append(name)
        try:
            yield
        finally:
            self._turn()
            self._stack.pop()

    def _turn(self) -> None:
        now = time.perf_counter(), time.process_time()
        if self._stack:
            self.wall[self._stack[-1]] += now[0] - self._since[0]
            self.cpu[self._stack[-1]] += now[1] - self._since[1]
        self._since = now

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def wrapped(*given: Any, **more: Any) -> Any:
            with self.step(name):
                return work(*given, **more)

        return wrapped

    def so_far(self) -> dict[str, dict[str, float]]:
        self._turn()
        return {name: {"wall": self.wall[name], "cpu": self.cpu[name]} for name in self.wall}


# what of the loop is which step; the first steps are those of deciding
STEPS: tuple[tuple[str, Any, str], ...] = (
    ("law", Pricing, "_evaluate"),
    ("pool", LedgerPool, "refresh"),
    ("choose", Pricing, "choose"),
    ("choose", InTurn, "choose"),
    ("audit", Auditing, "note_passed_over"),
    ("audit", Auditing, "purchases_due"),
    ("wants", Pricing, "wants"),
    ("promote", driving, "carry_out_choices"),
    ("transactions", Intake, "propose"),
    ("transactions", Driver, "_dispatch"),
    ("settle", LocalJobs, "settle"),
    ("answers", Answering, "submit"),
)
DECIDING = ("law", "pool", "choose", "audit", "wants", "promote", "transactions")


def measure(built: Built, decisions: int, profile: Path | None = None) -> dict[str, Any]:
    """Steps the campaign until so many decisions have been made."""
    watch = Stopwatch()
    profiler = cProfile.Profile(time.thread_time) if profile else None
    stamps: list[tuple[str, int, dict[str, dict[str, float]]]] = []
    cycles = 0
    with ExitStack() as stack:
        for name, owner, what in STEPS:
            stack.enter_context(patch.object(owner, what, watch.timed(name, getattr(owner, what))))
        began = time.perf_counter(), time.process_time()
        driver = stack.enter_context(Driver(built))
        arrival = {"wall": time.perf_counter() - began[0], "cpu": time.process_time() - began[1]}
        pool: Any = driver.session.crews[0].pool
        bought: Any = driver.session.purchasing
        pricing = bought if isinstance(bought, Pricing) else None

        def on_step() -> None:
            nonlocal cycles
            cycles += 1
            phase = "law" if pricing is None or pricing.priced.is_learnt else "features"
            if not stamps or stamps[-1][0] != phase:
                stamps.append((phase, pool.submitted, watch.so_far()))
            if pool.submitted >= decisions:
                driver.request_stop("enough")

        gc.collect()
        watch.wall.clear()
        watch.cpu.clear()
        with watch.step("rest"):
            if profiler:
                profiler.enable()
            state = driver.run(on_step)
            if profiler:
                profiler.disable()
            stamps.append(("end", pool.submitted, watch.so_far()))
    if profiler and profile:
        with profile.open("w", encoding="utf-8") as out:
            found = pstats.Stats(profiler, stream=out)
            found.sort_stats("tottime").print_stats(60)
            found.sort_stats("cumulative").print_stats("sciagent/(?!scheduling)", 100)
    total = _between(stamps[0], stamps[-1])
    phases = {a[0]: _between(a, b) for a, b in pairwise(stamps)} if pricing else {}
    return {
        **total,
        "state": str(state),
        "cycles": cycles,
        "phases": phases,
        "arrival": _rounded(arrival),
        "searches_for_hyper_parameters": pricing.priced.fits if pricing else 0,
        "looks": watch.times["law"],
    }


def _between(one: Any, other: Any) -> dict[str, Any]:
    """Decisions a second between two stamps, and what of the time each step took."""
    n = other[1] - one[1]
    taken = {
        name: {of: seconds[of] - one[2].get(name, {}).get(of, 0.0) for of in seconds}
        for name, seconds in other[2].items()
    }
    whole = {of: sum(step[of] for step in taken.values()) for of in ("wall", "cpu")}
    deciding = {of: sum(taken.get(name, {}).get(of, 0.0) for name in DECIDING) for of in ("wall", "cpu")}
    law = taken.get("law", {"wall": 0.0, "cpu": 0.0})
    return {
        "decisions": n,
        "seconds": _rounded(whole),
        "decisions_a_second": {
            "sustained": {of: round(n / max(whole[of], 1e-9), 1) for of in whole},
            "deciding": {of: round(n / max(deciding[of], 1e-9), 1) for of in deciding},
            "without_the_law": {of: round(n / max(whole[of] - law[of], 1e-9), 1) for of in whole},
        },
        "share_of_cpu": {
            name: round(step["cpu"] / max(whole["cpu"], 1e-9), 3)
            for name, step in sorted(taken.items(), key=lambda item: -item[1]["cpu"])
        },
    }


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


def check(path: Path, made: int, known: int) -> dict[str, Any]:
    """What the ledger says: a job for every decision, none twice. Raises SystemExit where it is otherwise."""
    with closing(sqlite3.connect(path)) as db:
        rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - known for table in WRITTEN}
        (different,) = db.execute(
            "SELECT count(*) FROM (SELECT DISTINCT candidate_id, rung_id FROM decision)"
        ).fetchone()
        (unmet,) = db.execute(
            "SELECT count(*) FROM decision d WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.campaign_id = d.campaign_id "
            "AND j.rung_id = d.rung_id AND j.candidate_id = d.candidate_id)"
        ).fetchone()
        (bare,) = db.execute("SELECT count(*) FROM decision WHERE why IS NULL OR why = ''").fetchone()
        by_rung = dict(
            db.execute(
                "SELECT r.name, count(*) FROM decision d JOIN rung r ON r.id = d.rung_id WHERE d.id > ? GROUP BY 1",
                (known,),
            ).fetchall()
        )
        (versions,) = db.execute("SELECT count(DISTINCT law_version) FROM decision").fetchone()
        chosen = dict(db.execute("SELECT chooser, count(*) FROM decision WHERE id > ? GROUP BY 1", (known,)).fetchall())
    whole = rows["decision"] == rows["job"] == made and different == rows["decision"] + known
    if not whole or unmet or bare:
        raise SystemExit(f"the ledger is not whole: {rows}, {different} different, {unmet} without a job, made {made}")
    return {"rows": rows, "by_rung": by_rung, "by_chooser": chosen, "law_versions": versions, "twice": 0}


def plain(template: Path, filled: Path, known: int, at_once: int) -> dict[str, Any]:
    """The same rows, read from the ledger that the campaign has filled, into one as it was before: a transaction and
    one statement a table for as many as a cycle has places. Nothing is chosen, checked or updated."""
    with closing(sqlite3.connect(filled)) as db:
        tables = {one: db.execute(f"SELECT * FROM {one} WHERE id > ?", (known,)).fetchall() for one in WRITTEN}
        tables["level"] = db.execute("SELECT * FROM level WHERE id > 1").fetchall()
    n = len(tables["decision"])
    with closing(sqlite3.connect(template, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        began = time.perf_counter(), time.process_time()
        for first in range(0, n, at_once):
            db.execute("BEGIN IMMEDIATE")
            for table, rows in tables.items():
                some = rows[first : first + at_once]
                if some:
                    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(some[0]))})", some)
            db.execute("COMMIT")
        taken = {"wall": time.perf_counter() - began[0], "cpu": time.process_time() - began[1]}
    return {
        "decisions": n,
        "seconds": _rounded(taken),
        "at_once": at_once,
        "decisions_a_second": {of: round(n / max(seconds, 1e-9), 1) for of, seconds in taken.items()},
    }


def run(n: int, decisions: int, workers: int, folder: Path, profile: Path | None = None) -> dict[str, Any]:
    known = int(KNOWN * n)
    at_once = 2 * 16 * workers
    found: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": ".".join(map(str, sys.version_info[:3])),
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "candidates": n,
        "known": known,
        "workers": workers,
        "places_a_cycle": at_once,
    }
    with invented():
        for scheduler in ("priced", "exhaustive"):
            path = folder / f"{scheduler}.db"
            ledger = Ledger(str(path))
            built = opened(ledger, folder, n, scheduler, workers)
            fill(ledger, built, n, known)
            if scheduler == "priced":
                with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(folder / "template.db")) as copy:
                    db.backup(copy)
            one = measure(built, decisions, profile if scheduler == "priced" else None)
            ledger.close()
            if one["decisions"] > at_once * one["cycles"]:
                raise SystemExit(f"{one['decisions']} decisions in {one['cycles']} cycles of {at_once} places")
            found[scheduler] = one | {"checked": check(path, one["decisions"], known)}
    found["plain_inserts"] = plain(folder / "template.db", folder / "priced.db", known, at_once)
    sustained = found["priced"]["decisions_a_second"]["sustained"]
    found["target"] = TARGET
    found["met"] = {of: rate >= TARGET for of, rate in sustained.items()}
    return found


def _sustained(found: dict[str, Any]) -> float:
    return float(found["priced"]["decisions_a_second"]["sustained"]["wall"])


def _short(found: dict[str, Any]) -> dict[str, float]:
    """Decisions a second by the clock."""
    rates = {name: found[name]["decisions_a_second"] for name in ("priced", "exhaustive")}
    return {
        **{f"{name}_{what}": rate[what]["wall"] for name, rate in rates.items() for what in ("sustained", "deciding")},
        "plain_inserts": found["plain_inserts"]["decisions_a_second"]["wall"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--profile", type=Path, help="where the profile of the priced campaign goes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    runs = []
    for _ in range(given.times):
        with tempfile.TemporaryDirectory(prefix="sciagent-decisions-") as name:
            runs.append(run(given.candidates, given.decisions, given.workers, Path(name), given.profile))
    middle = sorted(runs, key=_sustained)[len(runs) // 2]
    text = json.dumps(middle | {"runs": [_short(one) for one in runs]}, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
