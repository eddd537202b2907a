"""Ledgers for the tests, on SQLite and on a real PostgreSQL: both, or the test has not run. So with the brokers, Redis
and RabbitMQ. And a chat server."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from sciagent.errors import SimulatorError
from sciagent.programs import find
from sciagent.store.database import engine as engines
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import metadata
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import GPAW
from tests.support.chat_server import ChatServer
from tests.support.once import once
from tests.support.plugins import MISBEHAVING, lay_out, visible
from tests.support.servers import rabbitmq, valkey
from tests.support.servers.postgres import Postgres, empty, fresh_database, own_postgres, running_postgres
from tests.support.servers.process import NoServerError
from tests.support.servers.rabbitmq import RabbitMQ, own_rabbitmq, running_rabbitmq
from tests.support.servers.valkey import Valkey, own_valkey, running_valkey

BACKENDS = ("sqlite", "postgresql")
ON_SQLITE_BY_DEFAULT = ("campaign", "cockpit", "lab", "rewards", "web")  # rooms whose queries are tested in tests/store
BROKERS = ("redis", "rabbitmq")
QUEUES = ("sciagent.simulation", "sciagent.high_fidelity", "sciagent.world", "sciagent.slurm")
Server = TypeVar("Server")


def there(server: AbstractContextManager[Server]) -> Iterator[Server]:
    """A server, for a fixture. Without one the test fails: what was not tested there does not work there."""
    try:
        with server as found:
            yield found
    except NoServerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a running server, shared by the tests of this process."""
    yield from there(running_postgres())


@pytest.fixture(scope="session")
def shared_valkey() -> Iterator[str]:
    yield from there(running_valkey())


@pytest.fixture(scope="session")
def shared_rabbitmq() -> Iterator[str]:
    yield from there(running_rabbitmq())


@pytest.fixture
def redis_url(shared_valkey: str) -> Iterator[str]:
    """An empty database of a running Redis or Valkey."""
    yield shared_valkey
    valkey.empty(shared_valkey)


@pytest.fixture
def rabbitmq_url(shared_rabbitmq: str) -> Iterator[str]:
    """A running RabbitMQ without sciagent's queues."""
    yield shared_rabbitmq
    rabbitmq.forget(shared_rabbitmq, QUEUES)


@pytest.fixture(params=BROKERS)
def broker_url(request: pytest.FixtureRequest) -> str:
    """Both brokers, with nothing in them."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def own_redis_server() -> Iterator[Valkey]:
    """A Redis or Valkey that this test may kill and start again."""
    yield from there(own_valkey())


@pytest.fixture
def own_rabbitmq_server() -> Iterator[RabbitMQ]:
    """A RabbitMQ that this test may kill and start again."""
    yield from there(own_rabbitmq())


@pytest.fixture(params=BROKERS)
def own_broker(request: pytest.FixtureRequest) -> Valkey | RabbitMQ:
    """Both brokers, to be killed and started again."""
    server: Valkey | RabbitMQ = request.getfixturevalue(f"own_{request.param}_server")
    return server


@pytest.fixture
def own_postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL that this test may kill and start again."""
    yield from there(own_postgres())


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """A fresh, empty database."""
    with fresh_database(postgres) as url:
        yield url


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole campaigns run on PostgreSQL with `-m slow`. By default it is tried where it differs: at the tables, at each
    query and lease (tests/store), and under `kill -9`."""
    folders = [Path(__file__).parent / room for room in ON_SQLITE_BY_DEFAULT]
    for item in items:
        chosen = getattr(item, "callspec", None)
        is_on_postgresql = chosen is not None and chosen.params.get("backend") == "postgresql"
        if is_on_postgresql and any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the garbage collector need not go through it again and again,
    which took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, on SQLite and on PostgreSQL."""
    if backend == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "ledger.db")


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file at head, to be copied: migrating anew for every test is most of its time."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    _migrate(str(path))
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str) -> Iterator[str]:
    """The URL of a PostgreSQL database at head, which the tests share and empty: a fresh one takes 0.3 s each."""
    with fresh_database(postgres) as url:
        _migrate(url)
        yield url


def _migrate(url: str) -> None:
    engine = engines.connect(engines.ledger_url(url))
    migrate_and_back_up.upgrade(engine)
    engine.dispose()


@pytest.fixture
def ledger_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A ledger at head with no rows, on SQLite and on PostgreSQL. Whoever changes the schema takes `postgres_url`."""
    if backend == "sqlite":
        path = tmp_path / "ledger.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield str(path)
        return
    url = str(request.getfixturevalue("migrated_postgres"))
    yield url
    empty(url, [table.name for table in metadata.tables.values()])


@pytest.fixture
def ledger(ledger_url: str, tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger at head; its artifacts lie under tmp_path."""
    opened = Ledger(ledger_url, artifacts=tmp_path / "artifacts")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def xtb_program() -> None:
    """The program xtb is on the path, or the test fails."""
    if shutil.which("xtb") is None:
        pytest.fail("these tests need the program xtb: apt-get install -y xtb", pytrace=False)


@pytest.fixture
def openmpi() -> None:
    """The program mpiexec is on the path, or the test fails."""
    if shutil.which("mpiexec") is None:
        pytest.fail("these tests need Open MPI: apt-get install -y openmpi-bin", pytrace=False)


@pytest.fixture
def gpaw_program() -> None:
    """A Python interpreter with GPAW is on the path, or the test fails."""
    try:
        find(GPAW)
    except SimulatorError as error:
        pytest.fail(f"these tests need GPAW: {error.detail}", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that the package of verifiers named `bad.*` lies in, seen by this process and its children.

    All tests see it from the start, since every process that has imported verifiers must be started again when the path
    changes. It is defined only here: a fixture that modules import is another one in each."""
    target = once(tmp_path_factory, "misbehaving", lambda folder: lay_out(MISBEHAVING, folder))
    with visible(target):
        yield target


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """What answers as a model behind an endpoint does."""
    found = ChatServer()
    yield found
    found.close()
