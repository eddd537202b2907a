"""How many decisions a second the priced ladder makes with the ledger on, while 10^5 candidates are open.

    python -m benchmarks.scheduling_scale.decisions --out benchmarks/scheduling_scale/decisions.json

A real ledger (SQLite in a file, WAL) holds one campaign of three paid rungs, whose cheapest has answered for nine
candidates in ten. The product's own `Driver` steps it: `Pricing.wants`, `Pricing.choose` with the law's rounds,
`promote`, `collect`, in its order and its transactions, until so many decisions are in the ledger.

**No verifier runs in a process of its own, and its time is not measured.** In place of the pool of workers stands one
that has the answer as soon as it is given a job: a number made from the candidate's key. So all places are free in
each cycle: `workers` jobs may run and as many groups wait beside them, and as jobs of milliseconds go out in groups of
up to 16 (`campaign.pace`), a cycle has up to 2 x 16 x workers places, the most that a driver with fast jobs ever gets.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import json
import os
import pstats
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice, pairwise, product
from pathlib import Path
from statistics import NormalDist
from typing import Any
from unittest.mock import patch

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from sciagent.campaign import driver as driving  # noqa: E402
from sciagent.campaign.auditing import Auditing  # noqa: E402
from sciagent.campaign.build import Built, create_or_open  # noqa: E402
from sciagent.campaign.dispatch import Ticket  # noqa: E402
from sciagent.campaign.driver import Driver  # noqa: E402
from sciagent.campaign.load import parse_spec  # noqa: E402
from sciagent.campaign.market import Market  # noqa: E402
from sciagent.campaign.pricing import Pricing  # noqa: E402
from sciagent.chemistry.standardise import STANDARDISER_VERSION  # noqa: E402
from sciagent.domain.candidates import Candidate  # noqa: E402
from sciagent.domain.evidence import canonical_json  # noqa: E402
from sciagent.domain.properties import HOMO_LUMO_GAP  # noqa: E402
from sciagent.execution.local import Completed, LocalPool  # noqa: E402
from sciagent.store.candidates import library  # noqa: E402
from sciagent.store.ledger import Ledger  # noqa: E402
from sciagent.verification import registry  # noqa: E402
from sciagent.verification.contract import (  # noqa: E402
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Tier,
    Verifier,
    at,
)
from sciagent.verification.host import HostResult, Request  # noqa: E402

TARGET = 1000.0  # decisions a second
KNOWN = 0.9  # of the candidates the cheapest rung has answered for
TOP = 0.001  # of the candidates are hits
MEAN, SPREAD = 3.0, 0.5  # eV, of what is wanted
BUDGET = 0.1  # of what the dearest rung would cost for all
ATOMS = 30  # of a candidate that costs what a rung says
NOW = "2026-01-01 00:00:00.000000"
CHUNK = 10_000
CAMPAIGN = """
campaign: decisions
subject: molecule
seed: 1
objectives: [{{property: homo_lumo_gap, min: {threshold:.4f}, unit: eV}}]
ladder:
  - {{rung: cheap, verifier: invented.cheap}}
  - {{rung: middle, verifier: invented.middle}}
  - {{rung: dear, verifier: invented.dear}}
goal: {{kind: hits}}
budget: {{core_seconds: {budget}}}
proposer: {{kind: screen, file: first.csv}}
scheduler: {{kind: {scheduler}}}
workers: {workers}
safety: {{screen: false, reason: candidates and answers are invented}}
"""


class Invented(Verifier[Candidate]):
    """A gap from the candidate's key: the truth is a normal number, with which what the rung says is correlated by
    `tells`. seconds: of a candidate of `ATOMS` atoms; it grows with their number to the power `steep`."""

    version = "1"
    tier = Tier.SIMULATION
    seconds: float
    steep: float
    tells: float

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.name), HOMO_LUMO_GAP)

    def cost(self, candidate: Candidate) -> Cost:
        return Cost(core_seconds=self.seconds * (candidate.n_atoms / ATOMS) ** self.steep)

    def verify(self, batch: Sequence[Candidate], context: Context | None = None) -> Iterator[Finding]:
        for one in batch:
            quantity = Quantity(self.value(one.key), "eV")
            yield Finding(one.key, Outcome.OK, (Measured(HOMO_LUMO_GAP.name, Level(self.name), quantity),))

    def value(self, key: str) -> float:
        own = _normal(hashlib.sha256(f"{self.name} {key}".encode()).hexdigest())
        return MEAN + SPREAD * (self.tells * _normal(key) + (1 - self.tells**2) ** 0.5 * own)


class Cheap(Invented):
    name, seconds, steep, tells = "invented.cheap", 8e-5, 1.0, 0.75


class Middle(Invented):
    name, seconds, steep, tells = "invented.middle", 5e-4, 1.5, 0.95


class Dear(Invented):
    name, seconds, steep, tells = "invented.dear", 9e-3, 2.0, 1.0


def _normal(digits: str) -> float:
    """A standard normal number from hexadecimal digits."""
    return NormalDist().inv_cdf((int(digits[:12], 16) + 0.5) / 16**12)


@dataclass(frozen=True)
class _Point:
    """An entry point of a verifier that is here."""

    loaded: type[Verifier[Any]]

    @property
    def value(self) -> str:
        return f"{__name__}:{self.loaded.__name__}"

    def load(self) -> type[Verifier[Any]]:
        return self.loaded


class Answering(LocalPool[tuple[Ticket, ...]]):
    """The pool of workers, where a job is over as soon as it is submitted. `submitted`: jobs so far."""

    submitted = 0

    def submit(self, token: tuple[Ticket, ...], request: Request) -> None:
        self._running += 1
        self.submitted += len(token)
        self.completed.put(Completed(token, [_answer(one) for one in token]))


def _answer(one: Ticket) -> HostResult:
    """Jobs take between 0.8 and 1.2 times what is declared."""
    verifier = one.rung.verifier
    [finding] = verifier.verify([one.candidate], None)  # type: ignore[arg-type]
    seconds = verifier.cost(one.candidate)["core_seconds"] * (0.8 + 0.4 * int(one.key.hash[:4], 16) / 16**4)
    return HostResult(finding, Cost(core_seconds=seconds), seconds, {"invented": "1"}, own_seconds=seconds)


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
    ("law", Pricing, "_look"),
    ("market", Market, "refresh"),
    ("choose", Pricing, "choose"),
    ("choose", driving, "choose"),
    ("audit", Auditing, "look"),
    ("audit", Auditing, "due"),
    ("wants", Pricing, "wants"),
    ("promote", driving, "promote"),
    ("transactions", Driver, "_propose"),
    ("transactions", Driver, "_dispatch"),
    ("collect", driving, "collect"),
    ("answers", Answering, "submit"),
)
DECIDING = ("law", "market", "choose", "audit", "wants", "promote", "transactions")


@contextmanager
def invented() -> Iterator[None]:
    """The verifiers are registered, and the driver's pool answers."""
    points = {one.name: _Point(one) for one in (Cheap, Middle, Dear)}
    with patch.object(registry, "_points", lambda: points), patch.object(driving, "LocalPool", Answering):
        yield


def opened(ledger: Ledger, folder: Path, n: int, scheduler: str, workers: int) -> Built:
    """The campaign, as yet without candidates."""
    (folder / "first.csv").write_text("smiles\nC\n", encoding="utf-8")
    threshold = MEAN + SPREAD * NormalDist().inv_cdf(1 - TOP)
    text = CAMPAIGN.format(threshold=threshold, budget=BUDGET * n * Dear.seconds, scheduler=scheduler, workers=workers)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark")[0]


def molecules() -> Iterator[str]:
    """Different molecules, 10^5 and more: pyridines with four groups out of eighteen beside a nitrile."""
    ends = ("", "C", "CC", "F", "Cl", "Br", "N", "O", "S", "OC", "NC", "C=O", "C(=O)O", "C(=O)N", "C(F)(F)F", "C#C")
    groups = [*(f"({end})" if end else "" for end in ends), "(C(C)C)", "(S(C)(=O)=O)"]
    return (f"n1c{a}c{b}c{c}c{d}c1C#N" for d, c, b, a in product(groups, repeat=4))


def fill(path: Path, built: Built, n: int, known: int) -> None:
    """n open candidates by bulk inserts; of the first `known` the cheapest rung has said what it says."""
    rung, verifier = built.paid[0], Cheap()
    fixed = {"campaign": built.row.id, "rung": rung.id, "settings": verifier.settings_hash, "now": NOW}
    level = Level(verifier.name)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO property VALUES (1, 'homo_lumo_gap', 'eV', ?, 'invented')", (HOMO_LUMO_GAP.kind,))
        spec = canonical_json(level.__dict__)
        db.execute("INSERT INTO level (id, hash, label, spec) VALUES (1, ?, ?, ?)", (level.hash, level.label, spec))
        texts = molecules()
        for first in range(0, n, CHUNK):
            rows = [_row(i, text, known) | fixed for i, text in enumerate(islice(texts, min(CHUNK, n - first)), first)]
            for statement in ENTERED:
                db.executemany(statement, rows)
            for statement in ANSWERED:
                db.executemany(statement, [row for row in rows if row["known"]])
        db.execute("UPDATE watermark SET value = ?", (known,))
        if broken := db.execute("PRAGMA foreign_key_check").fetchone():
            raise SystemExit(f"the invented rows do not hang together: {broken}")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _row(i: int, text: str, known: int) -> dict[str, Any]:
    key, n_atoms = hashlib.sha256(text.encode()).hexdigest(), ATOMS - 10 + i % 20
    return {
        "id": i + 1, "seq": i, "key": key, "text": text, "n_atoms": n_atoms, "formula": f"C{n_atoms - 8}H8",
        "inchikey": f"{key[:14].upper()}-{key[14:24].upper()}-N", "standardiser": STANDARDISER_VERSION,
        "library": library(), "known": i < known, "position": int(i < known), "depth": 0 if i < known else -1,
        "value": Cheap().value(key), "seconds": Cheap.seconds * n_atoms / ATOMS,
    }  # fmt: skip


ENTERED = (
    """INSERT INTO candidate (id, key, kind, text, identity, inchikey, formula, charge, multiplicity, n_atoms, payload,
    standardiser, library, created_at) VALUES (:id, :key, 'molecule', :text, 'InChI=1/invented/' || :key, :inchikey,
    :formula, 0, 1, :n_atoms, '{}', :standardiser, :library, :now)""",
    """INSERT INTO proposal (id, campaign_id, text, candidate_id, status, predicted, at)
    VALUES (:id, :campaign, :text, :id, 'new', '{}', :now)""",
    """INSERT INTO campaign_candidate (campaign_id, candidate_id, seq, standing, position, depth, detail, score, is_hit,
    in_seeds, proposal_id, updated_at) VALUES (:campaign, :id, :seq, 'open', :position, :depth, '',
    iif(:known, 0.5, NULL), 0, 0, :id, :now)""",
)
ANSWERED = (
    """INSERT INTO decision (id, campaign_id, candidate_id, rung_id, action, chooser, why, watermark, "index",
    propensity, at) VALUES (:id, :campaign, :id, :rung, 'run', 'invented', 'invented', 0, 0, 1.0, :now)""",
    """INSERT INTO job (id, campaign_id, rung_id, candidate_id, replicate, evidence_key, state, priority, attempts,
    kills, fence, cancel_requested, outcome, created_at, updated_at)
    VALUES (:id, :campaign, :rung, :id, 0, :key, 'done', 0, 1, 0, 1, 0, 'ok', :now, :now)""",
    """INSERT INTO attempt (id, campaign_id, rung_id, job_id, fence, owner, state, outcome, n_candidates, cost,
    wall_seconds, started_at, heartbeat_at, ended_at) VALUES (:id, :campaign, :rung, :id, 1, 'nobody', 'done', 'ok', 1,
    json_object('core_seconds', :seconds), :seconds, :now, :now, :now)""",
    """INSERT INTO evidence (id, key, candidate_id, verifier, verifier_version, settings_hash, inputs_hash, replicate,
    revision, outcome, detail, reusable, diagnostics, versions, source, who, attempt_id, watermark, at)
    VALUES (:id, :key, :id, 'invented.cheap', '1', :settings, '', 0, 0, 'ok', '', 1, '{}', '{}', 'computed', 'sciagent',
    :id, :id, :now)""",
    """INSERT INTO quantity (id, evidence_id, property_id, level_id, value, unit, censoring, n)
    VALUES (:id, :id, 1, 1, :value, 'eV', 'none', 1)""",
    """INSERT INTO reservation (campaign_id, job_id, resource, amount, at, released_at)
    VALUES (:campaign, :id, 'core_seconds', :seconds, :now, :now)""",
    """INSERT INTO spend (campaign_id, rung_id, attempt_id, resource, amount, at)
    VALUES (:campaign, :rung, :id, 'core_seconds', :seconds, :now)""",
    """INSERT INTO cost_observation (verifier, verifier_version, settings_hash, candidate_id, attempt_id, resource,
    declared, amount, at) VALUES ('invented.cheap', '1', :settings, :id, :id, 'core_seconds', :seconds, :seconds,
    :now)""",
)


def measure(built: Built, decisions: int, profile: Path | None = None) -> dict[str, Any]:
    """Steps the campaign until so many decisions have been made."""
    watch, profiler = Stopwatch(), cProfile.Profile() if profile else None
    stamps: list[tuple[str, int, dict[str, dict[str, float]]]] = []
    cycles = 0
    with ExitStack() as stack:
        for name, owner, what in STEPS:
            stack.enter_context(patch.object(owner, what, watch.timed(name, getattr(owner, what))))
        began = time.perf_counter(), time.process_time()
        driver = stack.enter_context(Driver(built))
        arrival = {"wall": time.perf_counter() - began[0], "cpu": time.process_time() - began[1]}
        pool: Any = driver._pool
        pricing = driver._pricing

        def on_step() -> None:
            nonlocal cycles
            cycles += 1
            phase = "law" if pricing is not None and pricing.priced.is_learnt else "features"
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
            pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(60)
    total = _between(stamps[0], stamps[-1])
    phases = {a[0]: _between(a, b) for a, b in pairwise(stamps)} if pricing else {}
    return {
        **total, "state": str(state), "cycles": cycles, "phases": phases, "arrival": _rounded(arrival),
        "searches_for_hyper_parameters": pricing.priced.fits if pricing else 0, "looks": watch.times["law"],
    }  # fmt: skip


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


COUNTED = ("decision", "job", "reservation", "attempt", "evidence", "quantity", "spend", "cost_observation")


def check(path: Path, made: int, known: int) -> dict[str, Any]:
    """What the ledger says: a job for every decision, none twice. Raises SystemExit where it is otherwise."""
    with closing(sqlite3.connect(path)) as db:
        rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - known for table in COUNTED}
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
        tables = {one: db.execute(f"SELECT * FROM {one} WHERE id > ?", (known,)).fetchall() for one in COUNTED}
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
        "decisions": n, "seconds": _rounded(taken), "at_once": at_once,
        "decisions_a_second": {of: round(n / max(seconds, 1e-9), 1) for of, seconds in taken.items()},
    }  # fmt: skip


def run(n: int, decisions: int, workers: int, folder: Path, profile: Path | None = None) -> dict[str, Any]:
    known, at_once = int(KNOWN * n), 2 * 16 * workers
    found: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()), "python": ".".join(map(str, sys.version_info[:3])),
        "load_average": [round(x, 1) for x in os.getloadavg()], "candidates": n, "known": known, "workers": workers,
        "places_a_cycle": at_once,
    }  # fmt: skip
    with invented():
        for scheduler in ("priced", "exhaustive"):
            path = folder / f"{scheduler}.db"
            ledger = Ledger(str(path))
            built = opened(ledger, folder, n, scheduler, workers)
            fill(path, built, n, known)
            if scheduler == "priced":
                shutil.copy(path, folder / "template.db")
            one = measure(built, decisions, profile if scheduler == "priced" else None)
            ledger.close()
            found[scheduler] = one | {"checked": check(path, one["decisions"], known)}
    found["plain_inserts"] = plain(folder / "template.db", folder / "priced.db", known, at_once)
    sustained = found["priced"]["decisions_a_second"]["sustained"]
    found["target"] = TARGET
    found["met"] = {of: rate >= TARGET for of, rate in sustained.items()}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--profile", type=Path, help="where the profile of the priced campaign goes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sciagent-decisions-") as name:
        found = run(given.candidates, given.decisions, given.workers, Path(name), given.profile)
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
