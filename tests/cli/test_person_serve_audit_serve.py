"""`sciagent serve` as a process: no password stands in the arguments of what it starts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
from sqlalchemy.engine import make_url

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import environment
from tests.support.elsewhere import list_of_folder
from tests.support.servers.postgres import Postgres
from tests.training.rollouts.rolled import TEXT

PASSWORD = "S3cret-Of-The-Ledger"


def with_password(server: Postgres) -> str:
    """Makes a role and its database. Returns the URL, with the password that the server asks the role for."""
    url = make_url(server.url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE lab LOGIN PASSWORD '{PASSWORD}'")
        admin.execute("CREATE DATABASE lab OWNER lab")
        [file] = admin.execute("SHOW hba_file").fetchone() or [""]
        rules = Path(file).read_text(encoding="utf-8")
        Path(file).write_text(f"host all lab 127.0.0.1/32 scram-sha-256\n{rules}", encoding="utf-8")
        admin.execute("SELECT pg_reload_conf()")
    own = url.set(username="lab", database="lab")
    try:
        psycopg.connect(own.render_as_string(hide_password=False)).close()
    except psycopg.OperationalError:
        return own.set(password=PASSWORD).render_as_string(hide_password=False)
    raise AssertionError("the server asks for no password")


def arguments_below(process: subprocess.Popen[bytes]) -> set[tuple[str, ...]]:
    """Returns the arguments of all processes that the process has started."""
    found = set()
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(tuple(child.cmdline()))
    return found


def test_no_process_that_serve_starts_has_the_password_in_its_arguments(
    own_postgres_server: Postgres, tmp_path: Path
) -> None:
    url = with_password(own_postgres_server)
    engine = connect(ledger_url(url))
    migrate_and_back_up.upgrade(engine)
    engine.dispose()
    (tmp_path / "url").write_text(url, encoding="utf-8")
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    ledger = Ledger(url, artifacts=tmp_path / "artifacts")
    text = TEXT.replace("proposals: 1000", "proposals: 2")
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with ledger.begin() as connection:
        campaigns.set_hosted(connection, built.row.id, True)
    settings = {"SCIAGENT_LEDGER_FILE": str(tmp_path / "url"), "SCIAGENT_ARTIFACTS": str(tmp_path / "artifacts")}
    settings |= list_of_folder(tmp_path)
    command = [sys.executable, "-m", "sciagent", "serve", "--port", "0"]
    process = subprocess.Popen(command, env=environment(**settings), stderr=subprocess.PIPE, cwd=tmp_path)
    seen = set[tuple[str, ...]]()
    try:
        deadline, driver = time.monotonic() + 180, None
        while driver is None and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.2)
            seen |= arguments_below(process)
            with ledger.read() as connection:
                driver = campaigns.driver_of(connection, built.row.id)
    finally:
        process.terminate()
        said = process.communicate(timeout=90)[1].decode()
        ledger.close()
    assert driver is not None, said  # it and its dispatcher reached the ledger, so they know the password
    commands = {words[3] for words in seen if words[1:3] == ("-m", "sciagent")}
    assert commands == {"dispatcher", "resume"}, seen
    assert not [words for words in seen if PASSWORD in " ".join(words)]
    assert PASSWORD not in said
