"""A database that goes away and comes back, a machine that is cut off and joined again, a backup taken meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from sciagent.store.database import engine, migrate_and_back_up
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import environment, sciagent
from tests.support.elsewhere import counts, driver, molecules, until, whole, worker, working, written
from tests.support.servers.postgres import Postgres, own_postgres

pytestmark = pytest.mark.slow
LEASE = {"SCIAGENT_LEASE_SECONDS": "6"}


@pytest.fixture
def server() -> Iterator[Postgres]:
    with own_postgres() as found:
        yield found


def opened(url: str, folder: Path) -> Ledger:
    made = engine.connect(engine.ledger_url(url))
    migrate_and_back_up.upgrade(made)
    made.dispose()
    return Ledger(url, artifacts=folder / "artifacts")


def drive(ledger: Ledger, folder: Path, **more: str) -> subprocess.Popen[bytes]:
    """`sciagent resume`, for jobs that workers take."""
    env = environment(SCIAGENT_ARTIFACTS=str(ledger.artifacts.root), **more)
    env["SCIAGENT_LEDGER"] = ledger.url.render_as_string(False)
    command = [sys.executable, "-m", "sciagent", "resume", "elsewhere", "--executor", "ledger"]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)


def test_a_database_that_is_away_for_half_a_minute_loses_nothing(server: Postgres, tmp_path: Path) -> None:
    ledger = opened(server.url, tmp_path)
    written(ledger, tmp_path, molecules(40), settings="{seconds: 0.8, declared: 5}")
    with ExitStack() as stack:
        stack.callback(ledger.close)
        hands = [worker(ledger, tmp_path, "--slots", "2", "--name", f"w{i}", log=f"w{i}.log") for i in range(2)]
        driving = drive(ledger, tmp_path)
        for one in (*hands, driving):
            stack.callback(one.kill)
        until(lambda: counts(ledger, t.job.c.state).get("done", 0) >= 4)
        server.stop()
        time.sleep(30)
        assert driving.poll() is None and [one.poll() for one in hands] == [None, None]
        server.start()
        assert driving.wait(timeout=120) in (0, 3)
        whole(ledger, 40)
        with ledger.read() as connection:  # nothing ran twice: leases are longer than that
            assert connection.execute(sa.select(sa.func.max(t.job.c.attempts))).scalar_one() == 1
        for one in hands:
            one.send_signal(signal.SIGTERM)
            assert one.wait(timeout=30) == 0
    assert "the ledger is away" in (tmp_path / "driver.log").read_text()
    assert "the ledger is away" in (tmp_path / "w0.log").read_text()


def test_a_backup_taken_during_a_run_is_a_campaign_that_goes_on(server: Postgres, tmp_path: Path) -> None:
    ledger = opened(server.url, tmp_path)
    built = written(ledger, tmp_path, molecules(12), settings="{seconds: 0.3, declared: 5}")
    dump = tmp_path / "ledger.dump"
    with working(ledger, tmp_path), driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("done", 0) >= 4)
        sciagent("db", "backup", str(dump), cwd=tmp_path, SCIAGENT_LEDGER=server.url)
        while one.step() is None:
            pass
    whole(ledger, 12)
    ledger.close()
    plain = make_url(server.url).set(drivername="postgresql")
    subprocess.run(["psql", str(plain), "-c", "CREATE DATABASE restored"], check=True, capture_output=True)
    restored = plain.set(database="restored")
    subprocess.run(["pg_restore", "--dbname", str(restored), str(dump)], check=True, capture_output=True)
    again = Ledger(str(restored), artifacts=tmp_path / "artifacts")
    done = counts(again, t.job.c.state)
    assert 4 <= done["done"] < 12
    with again.begin() as connection:  # who held it, and what it held, did not come with it
        connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
        connection.execute(sa.update(t.job).where(t.job.c.state == "running").values(lease_until=t.job.c.created_at))
    with working(again, tmp_path, name="later"):
        driving = drive(again, tmp_path)
        assert driving.wait(timeout=120) in (0, 3)
    whole(again, 12)
    again.close()


def test_a_sqlite_backup_is_one_moment_of_the_ledger(migrated_sqlite: Path, tmp_path: Path) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "ledger.db")
    ledger = Ledger(str(tmp_path / "ledger.db"), artifacts=tmp_path / "artifacts")
    built = written(ledger, tmp_path, molecules(12), settings="{seconds: 0.2, declared: 5}")
    with working(ledger, tmp_path), driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("done", 0) >= 4)
        sciagent("db", "backup", "copy.db", cwd=tmp_path, SCIAGENT_LEDGER=str(tmp_path / "ledger.db"))
        sciagent("db", "backup", "copy.db", cwd=tmp_path, SCIAGENT_LEDGER=str(tmp_path / "ledger.db"), expect=2)
        one.abort()
        while one.step() is None:
            pass
    again = Ledger(str(tmp_path / "copy.db"), artifacts=tmp_path / "artifacts")
    with again.begin() as connection:
        connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
        connection.execute(sa.update(t.job).where(t.job.c.state == "running").values(lease_until=t.job.c.created_at))
    with working(again, tmp_path, name="later"):
        assert drive(again, tmp_path).wait(timeout=120) in (0, 3)
    whole(again, 12)


class Forward:
    """From an address of the bridge to the database, which listens on this machine only."""

    def __init__(self, host: str, port: int) -> None:
        self._port = port
        self._listener = socket.create_server((host, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                there, _ = self._listener.accept()
                here = socket.create_connection(("127.0.0.1", self._port))
                for one, other in ((there, here), (here, there)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    @staticmethod
    def _pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while chunk := one.recv(65536):
                other.sendall(chunk)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (
        f"ip {' '.join(arguments)}: {done.stderr} (this test makes network namespaces, as root)"
    )


@contextmanager
def hosts(n: int) -> Iterator[list[str]]:
    """n network namespaces, each with a cable to a bridge on this machine at 10.77.N.1; their names."""
    tag = f"{os.getpid() % 10000}"
    names = [f"sci{tag}{i}" for i in range(n)]
    try:
        for i, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"{name}o", "type", "veth", "peer", "name", f"{name}i", "netns", name)
            ip("addr", "add", f"10.77.{i}.1/24", "dev", f"{name}o")
            ip("link", "set", f"{name}o", "up")
            ip("-n", name, "addr", "add", f"10.77.{i}.2/24", "dev", f"{name}i")
            ip("-n", name, "link", "set", f"{name}i", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "pids", name], capture_output=True)
            subprocess.run(["ip", "link", "del", f"{name}o"], capture_output=True)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_a_host_that_is_cut_off_for_longer_than_a_lease_changes_nothing(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(server.url, tmp_path)
    built = written(ledger, tmp_path, molecules(1), settings="{seconds: 25, declared: 50}")
    with ExitStack() as stack:
        stack.callback(ledger.close)
        names = stack.enter_context(hosts(2))
        hands = []
        for i, name in enumerate(names):
            forward = Forward(f"10.77.{i}.1", server.port)
            stack.callback(forward.close)
            url = make_url(server.url).set(host=f"10.77.{i}.1", port=forward.port).render_as_string(False)
            env = environment(SCIAGENT_LEDGER=url, SCIAGENT_ARTIFACTS=str(ledger.artifacts.root), **LEASE)
            command = [
                sys.executable,
                "-m",
                "sciagent",
                "worker",
                "--name",
                f"host-{i}",
                "--scratch",
                str(tmp_path / name),
            ]
            with (tmp_path / f"{name}.log").open("wb") as log:
                hands.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", name, *command],
                        cwd=tmp_path,
                        env=env,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            stack.callback(hands[-1].kill)
        with driver(built) as one:

            def owner() -> str:
                with ledger.read() as connection:
                    return connection.execute(sa.select(t.job.c.lease_owner)).scalar_one_or_none() or ""

            first = until(lambda: one.step() or owner(), 60)
            cut = names[int(first.split("/")[0][-1])]
            ip("link", "set", f"{cut}o", "down")
            second = until(lambda: one.step() or ((now := owner()) and now != first and now), 60)
            time.sleep(3)  # the first has finished, or soon will have, and cannot say it
            ip("link", "set", f"{cut}o", "up")
            end = time.monotonic() + 120
            while one.step() is None:
                assert time.monotonic() < end
        until(lambda: counts(ledger, t.attempt.c.state, t.attempt.c.job_id.is_not(None)).get("stale"), 120)
        whole(ledger, 1)
        states = counts(ledger, t.attempt.c.state, t.attempt.c.job_id.is_not(None))
        assert states == {"done": 1, "stale": 1}
        with ledger.read() as connection:
            by = dict(connection.execute(sa.select(t.attempt.c.state, t.attempt.c.owner)).all())
        assert (by["stale"], by["done"]) == (first, second)
        for each in hands:
            os.killpg(each.pid, signal.SIGTERM)
            each.wait(timeout=60)
