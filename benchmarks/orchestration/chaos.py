"""What is lost when everything is killed at random: a campaign on real servers, and who ends them without a word.

    python -m benchmarks.orchestration.chaos --jobs 600 --ledger postgresql --broker redis --out FILE.json

A dispatcher drives the campaign, workers in processes of their own run its jobs, and a monkey kills (-9) workers, the
dispatcher, the broker and the database, ends single slots, and stops workers for longer than a lease; whoever is gone
is started again a moment later, as systemd or a container engine would. At the end there is an evidence row for each
job, none twice, and no process is left; late results were refused, and are counted. A line says what was killed.

The jobs are verifications of a rung that sleeps; leases last `--lease` seconds instead of a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.errors import LedgerAwayError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.elsewhere import molecules, written
from tests.support.plugins import MISBEHAVING, forget_registry, install
from tests.support.servers.postgres import own_postgres

MARK = "SCIAGENT_CHAOS_MARK"  # in the environment of all that belongs to a run
BACK_SECONDS = 1.0  # until whoever was killed is started again
SETTLE_SECONDS = 30.0  # for what was started to end by itself


@dataclass
class Member:
    """A process that is started again whenever it is gone."""

    name: str
    command: list[str]
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    back_at: float = 0.0

    def keep(self, now: float) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            self.process = None
            self.back_at = now + BACK_SECONDS
        if now >= self.back_at:
            with (self.folder / f"{self.name}.log").open("ab") as log:
                self.process = subprocess.Popen(
                    self.command,
                    cwd=self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def kill(self) -> None:
        """The process and all of its group, as a power cut would."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """As whoever shuts down a machine would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(SETTLE_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass
class Monkey:
    """Does one thing at a time. lease: seconds; who is stalled is so for longer."""

    workers: list[Member]
    dispatcher: Member
    ledger: Ledger
    lease: float
    chance: random.Random
    database: Any = None
    broker: Any = None
    cuts: int = 0
    """Weight of cutting connections to a database server; 4 is that of killing a worker."""
    databases: int = 1
    """Weight of killing the database server."""
    did: Counter[str] = field(default_factory=Counter)
    stalled: dict[str, float] = field(default_factory=dict)

    def act(self) -> str:
        """What it did, in words."""
        acts: list[tuple[int, Callable[[], str]]] = [
            (4, self._worker),
            (3, self._stall),
            (2, self._slot),
            (2, self._dispatcher),
        ]
        if self.database is not None:
            acts.append((self.databases, lambda: self._server("database", self.database)))
            acts.append((self.cuts, self._cut))
        if self.broker is not None:
            acts.append((2, lambda: self._server("broker", self.broker)))
        weights, what = zip(*acts, strict=True)
        return self.chance.choices(what, weights)[0]()

    def wake(self, now: float) -> None:
        """Those whose time has come go on, as if nothing had been."""
        for one in self.workers:
            if one.name in self.stalled and self.stalled[one.name] <= now:
                del self.stalled[one.name]
                _signal_tree(one, signal.SIGCONT)

    def _pick(self) -> Member | None:
        there = [one for one in self.workers if one.process is not None and one.process.poll() is None]
        there = [one for one in there if one.name not in self.stalled]
        return self.chance.choice(there) if there else None

    def _worker(self) -> str:
        if (one := self._pick()) is None:
            return ""
        one.kill()
        self.did["workers killed"] += 1
        return f"killed {one.name}"

    def _stall(self) -> str:
        if (one := self._pick()) is None or len(self.stalled) > len(self.workers) // 2:
            return ""
        _signal_tree(one, signal.SIGSTOP)
        self.stalled[one.name] = time.monotonic() + self.lease * 1.6
        self.did["workers stalled"] += 1
        return f"stalled {one.name} for {self.lease * 1.6:.1f} s"

    def _slot(self) -> str:
        """The process that forks the jobs of a slot, or the nursery that forks those processes. A job that has been
        under one before is spared: two are a kill too many, and it would be quarantined, as it should be."""
        if (one := self._pick()) is None or one.process is None or self._killed_before():
            return ""
        try:
            below = psutil.Process(one.process.pid).children(recursive=True)
            forks = [p for p in below if "sciagent.verification.sandbox.zygote_nursery" in " ".join(p.cmdline())]
            if not forks:
                return ""
            self.chance.choice(forks).kill()
        except psutil.NoSuchProcess:
            return ""
        self.did["slots killed"] += 1
        return f"killed a slot of {one.name}"

    def _killed_before(self) -> bool:
        try:
            with self.ledger.read() as connection:
                live = t.job.c.state.in_([JobState.QUEUED, JobState.RUNNING])
                query = sa.select(t.job.c.id).where(live, t.job.c.kills > 0)
                return connection.execute(query.limit(1)).first() is not None
        except LedgerAwayError:
            return True

    def _dispatcher(self) -> str:
        if self.dispatcher.process is None or self.dispatcher.process.poll() is not None:
            return ""
        self.dispatcher.kill()
        self.did["dispatcher killed"] += 1
        return "killed the dispatcher"

    def _cut(self) -> str:
        """The server ends up to three connections, whatever they are doing."""
        query = sa.text(
            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE datname = "
            "current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3) AS chosen"
        )
        try:
            with self.ledger.engine.connect() as connection:
                n_cut = connection.execute(query).scalar_one()
        except LedgerAwayError:
            return ""
        self.did["connections cut"] += n_cut
        return f"cut {n_cut} connections"

    def _server(self, name: str, server: Any) -> str:
        server.kill()
        time.sleep(self.chance.uniform(0.2, 2.0))
        server.start()
        self.did[f"{name} killed"] += 1
        return f"killed the {name}"


def _signal_tree(one: Member, number: int) -> None:
    """A frozen machine: the worker and all it has started."""
    if one.process is None or one.process.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(one.process.pid)
        signal_all([root, *root.children(recursive=True)], number)


def signal_all(processes: Sequence[psutil.Process], number: int) -> None:
    """Sends a signal to those that still live. A worker that goes on ends its late jobs at once, and who is behind them
    in the list has to go on, too."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def left(mark: str) -> list[str]:
    """Command lines of the processes that bear the mark, without those in which this process reads declarations."""
    found = []
    own = {
        process.pid
        for process in psutil.Process().children(recursive=True)
        if any(part.endswith("declaration_process") for part in process.cmdline())
    }
    for process in psutil.process_iter():
        try:
            if process.pid in own:
                continue
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def run(
    n: int,
    database: str,
    broker: str,
    folder: Path,
    *,
    lease: float,
    every: float,
    n_workers: int,
    seed: int,
    minutes: float,
    say: Callable[[str], None],
    after: float = 10.0,
    cuts: int = 0,
    databases: int = 1,
    most: int | None = None,
    seconds: float = 0.3,
) -> dict[str, Any]:
    """The counts at the end. after: seconds until the monkey begins. cuts, databases: as in `Monkey`. most: number of
    kills of the database server after which the monkey rests; None: it goes on to the end. seconds: duration of a job.
    Raises SystemExit if anything was lost, done twice, or left."""
    mark = uuid.uuid4().hex
    site = folder / "site"
    install(MISBEHAVING, site)
    sys.path.insert(0, str(site))
    inherited = os.environ.get("PYTHONPATH")
    here = os.pathsep.join([str(site), *([inherited] if inherited else [])])
    os.environ["PYTHONPATH"] = here  # for the process that asks plug-ins what they declare
    forget_registry()
    chance = random.Random(seed)
    with ExitStack() as stack:
        stack.callback(sys.path.remove, str(site))
        if inherited is None:
            stack.callback(os.environ.pop, "PYTHONPATH", None)
        else:
            stack.callback(os.environ.__setitem__, "PYTHONPATH", inherited)
        server = stack.enter_context(own_postgres()) if database == "postgresql" else None
        url = str(folder / "ledger.db")
        if server is not None:
            url = server.url
            _upgrade(url)
        queue = _broker(broker, stack)
        environment = dict(
            os.environ,
            PYTHONPATH=here,
            OMP_NUM_THREADS="1",
            SCIAGENT_LEDGER=url,
            SCIAGENT_ARTIFACTS=str(folder / "artifacts"),
            SCIAGENT_LEASE_SECONDS=str(lease),
        ) | {MARK: mark}
        executor = "ledger"
        if queue is not None:
            environment["SCIAGENT_BROKER"] = queue.url
            executor = "celery"
        ledger = Ledger(url, artifacts=folder / "artifacts")
        stack.callback(ledger.close)
        built = written(ledger, folder, molecules(n), settings=f"{{seconds: {seconds}, declared: 5}}", name="chaos")
        with ledger.begin() as connection:
            campaigns.set_hosted(connection, built.row.id, True)
        me = [sys.executable, "-m", "sciagent"]
        workers = [
            Member(
                f"worker-{i}",
                [*me, "worker", "--slots", "2", *_told(executor), "--scratch", str(folder / f"s{i}")],
                folder,
                environment,
            )
            for i in range(n_workers)
        ]
        allow = folder / "allow.yaml"
        allow.write_text(f"folders: [{folder.resolve()}]\n", encoding="utf-8")
        allow.chmod(0o600)
        words = [*me, "dispatcher", "--executor", executor, "--allow", str(allow.resolve())]
        dispatcher = Member("dispatcher", words, folder, environment)
        members = [dispatcher, *workers]
        for one in members:
            stack.callback(one.end)
        monkey = Monkey(workers, dispatcher, ledger, lease, chance, server, queue, cuts, databases)
        began = time.monotonic()
        deadline = began + 60 * minutes
        next_act = began + after
        while not _is_over(ledger):
            now = time.monotonic()
            if now > deadline:
                raise SystemExit(f"not over after {minutes} minutes: {counted(ledger)}")
            for one in members:
                one.keep(now)
            monkey.wake(now)
            if now > next_act and (most is None or monkey.did["database killed"] < most):
                next_act = now + chance.uniform(0.5, 1.5) * every
                if done := monkey.act():
                    say(f"{now - began:6.1f} s  {done}; {_progress(ledger)}")
            time.sleep(0.1)
        took = time.monotonic() - began
        monkey.wake(float("inf"))
        time.sleep(lease / 2)  # for results that come late
        for one in members:
            one.end()
        end = time.monotonic() + SETTLE_SECONDS
        while (still := left(mark)) and time.monotonic() < end:
            time.sleep(0.2)
        found = counted(ledger)
    found |= {
        "seconds": round(took, 1),
        "did": dict(monkey.did),
        "left": still,
        "ledger": database,
        "broker": broker,
        "lease_seconds": lease,
        "seed": seed,
        "workers": n_workers,
    }
    check(found, n)
    return found


def _told(executor: str) -> list[str]:
    return [] if executor == "ledger" else ["--executor", executor]


def _upgrade(url: str) -> None:
    from sciagent.store.database import engine, migrate_and_back_up

    made = engine.connect(engine.ledger_url(url))
    migrate_and_back_up.upgrade(made)
    made.dispose()


def _broker(name: str, stack: ExitStack) -> Any:
    if name == "none":
        return None
    if name == "redis":
        from tests.support.servers.valkey import own_valkey

        return stack.enter_context(own_valkey())
    from tests.support.servers.rabbitmq import own_rabbitmq

    return stack.enter_context(own_rabbitmq())


def _is_over(ledger: Ledger) -> bool:
    try:
        with ledger.read() as connection:
            return connection.execute(sa.select(t.campaign.c.state)).scalar_one() in ("finished", "budget_spent")
    except LedgerAwayError:
        return False


def _progress(ledger: Ledger) -> str:
    try:
        with ledger.read() as connection:
            query = sa.select(t.job.c.state, sa.func.count()).group_by(t.job.c.state)
            return ", ".join(f"{n} {state}" for state, n in connection.execute(query).all())
    except LedgerAwayError:
        return "the ledger is away"


def counted(ledger: Ledger) -> dict[str, Any]:
    """What the ledger says of the campaign."""
    a = t.attempt.c
    paid = t.evidence.c.verifier == "bad.remote"
    with ledger.read() as connection:
        jobs = dict(connection.execute(sa.select(t.job.c.state, sa.func.count()).group_by(t.job.c.state)).all())
        rows = connection.execute(sa.select(sa.func.count()).where(paid)).scalar_one()
        of = t.evidence.c.candidate_id
        different = connection.execute(sa.select(sa.func.count(of.distinct())).where(paid)).scalar_one()
        query = sa.select(a.state, sa.func.count()).where(a.job_id.is_not(None)).group_by(a.state)
        attempts = dict(connection.execute(query).all())
        # a bill without an attempt is for the computing time of a proposer
        bills = sa.select(sa.func.sum(t.spend.c.amount)).where(t.spend.c.attempt_id.is_not(None))
        booked = connection.execute(bills).scalar_one() or 0.0
        costs = connection.execute(sa.select(a.cost)).scalars().all()
        held = sa.select(sa.func.count()).where(t.reservation.c.released_at.is_(None))
        kept = connection.execute(held).scalar_one()
        audit = audited(connection)
        places = sa.select(t.campaign_candidate.c.standing, sa.func.count()).group_by(t.campaign_candidate.c.standing)
        standings = dict(connection.execute(places).all())
    return {
        "jobs": jobs,
        "evidence": rows,
        "different": different,
        "attempts": attempts,
        "refused": attempts.get(AttemptState.STALE, 0),
        "lost": attempts.get(AttemptState.LOST, 0),
        "booked_core_seconds": round(booked, 3),
        "cost_of_attempts": round(sum(c.get("core_seconds", 0) for c in costs), 3),
        "reservations_held": kept,
        "standings": standings,
        "audit": audit,
    }


def audited(connection: sa.Connection) -> dict[str, int]:
    """Numbers of rows that must not be there, each 0 in a sound ledger."""
    e = t.evidence.c
    a = t.attempt.c
    has_evidence = sa.exists().where(e.attempt_id == a.id)
    with_evidence = sa.select(a.job_id).where(a.job_id.is_not(None), has_evidence)
    superseded = sa.select(e.supersedes_id).where(e.supersedes_id.is_not(None))
    computation = (e.candidate_id, e.verifier, e.verifier_version, e.settings_hash, e.replicate)
    twice = sa.select(e.candidate_id).where(e.id.not_in(superseded)).group_by(*computation).having(sa.func.count() > 1)
    queries = {
        "done_jobs_without_evidence": sa.select(t.job.c.id).where(
            t.job.c.state == JobState.DONE, t.job.c.id.not_in(with_evidence)
        ),
        "duplicate_current_evidence": twice,
        "attempts_left_running": sa.select(a.id).where(a.state == AttemptState.RUNNING),
        "live_reservations": sa.select(t.reservation.c.id).where(t.reservation.c.released_at.is_(None)),
    }
    counts = {}
    for name, query in queries.items():
        counts[name] = connection.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    return counts | _audited_bills(connection)


def _audited_bills(connection: sa.Connection) -> dict[str, int]:
    """Numbers of attempts with more bills than are due, and of attempts with other bills than are due.

    An attempt has one bill for each resource that it took. A lost attempt whose worker came back has two: its cost
    until the loss, and what its result added.
    """
    s = t.spend.c
    a = t.attempt.c
    booked = dict[tuple[int, str], list[float]]()
    bills = sa.select(s.attempt_id, s.resource, s.amount).where(s.attempt_id.is_not(None)).order_by(s.id)
    for attempt_id, resource, amount in connection.execute(bills):
        booked.setdefault((attempt_id, resource), []).append(amount)
    due = dict[tuple[int, str], list[float]]()
    costs = sa.select(a.id, a.cost, a.cost_at_loss, a.late_watermark).where(a.campaign_id.is_not(None))
    for attempt_id, cost, cost_at_loss, late_watermark in connection.execute(costs):
        at_loss = {} if late_watermark is None else cost_at_loss
        for resource, amount in cost.items():
            until_loss = at_loss.get(resource, 0.0)
            due[attempt_id, resource] = [part for part in (until_loss, amount - until_loss) if part]
    twice = set[int]()
    otherwise = set[int]()
    for attempt_id, resource in {*booked, *due}:
        booked_amounts = booked.get((attempt_id, resource), [])
        due_amounts = due.get((attempt_id, resource), [])
        if len(booked_amounts) > len(due_amounts):
            twice.add(attempt_id)
        elif len(booked_amounts) < len(due_amounts) or not all(map(math.isclose, booked_amounts, due_amounts)):
            otherwise.add(attempt_id)
    return {"attempts_billed_twice": len(twice), "attempts_billed_otherwise": len(otherwise)}


def check(found: dict[str, Any], n: int) -> None:
    """Raises SystemExit where something was lost, done twice, or left."""
    wrong = []
    if found["jobs"] != {"done": n}:
        wrong.append(f"jobs {found['jobs']}, not {n} done")
    if found["evidence"] != n or found["different"] != n:
        wrong.append(f"{found['evidence']} evidence rows of {found['different']} candidates, not {n}")
    if found["standings"] != {"settled": n}:
        wrong.append(f"candidates {found['standings']}")
    if abs(found["booked_core_seconds"] - found["cost_of_attempts"]) > 0.01:
        wrong.append("what was booked is not what the attempts have cost")
    wrong += [f"{n} {name}" for name, n in found["audit"].items() if n]
    if found["reservations_held"]:
        wrong.append(f"{found['reservations_held']} reservations are still held")
    if found["left"]:
        wrong.append(f"processes are left: {found['left'][:5]}")
    if wrong:
        raise SystemExit("; ".join(wrong) + f"\n{json.dumps(found, indent=1)}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--ledger", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--broker", choices=("none", "redis", "rabbitmq"), default="redis")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--lease", type=float, default=6.0)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between what the monkey does, on average")
    parser.add_argument("--minutes", type=float, default=20.0, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the ledger and the logs; default: removed at the end")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sciagent-chaos-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(
            given.jobs,
            given.ledger,
            given.broker,
            folder,
            lease=given.lease,
            every=given.every,
            n_workers=given.workers,
            seed=given.seed,
            minutes=given.minutes,
            say=lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201
        )
    text = json.dumps(found, indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
