"""`sciagent doctor`, as it is typed."""

from __future__ import annotations

import re
import stat
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

from sciagent.cli.doctor_and_engine_environments import EXTRAS
from sciagent.store.database.ledger import Ledger
from sciagent.web.app import application
from sciagent.web.page_server import PageServer
from tests.support.typed import call, data


def test_a_ledger_that_is_not_there_is_absent_and_engines_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    checks = {check["what"]: check for check in data("doctor")}
    assert checks["rdkit"]["state"] == checks["machine"]["state"] == checks["molecule.checks"]["state"] == "ok"
    assert checks["ledger"] == {
        "what": "ledger",
        "state": "absent",
        "detail": f"{tmp_path / 'sciagent.db'} (made by the first run)",
    }
    assert not list(tmp_path.iterdir())
    assert "absent  ledger" in call("doctor").output  # other tests may have installed a verifier that is broken


def test_all_extras_are_checked() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as stream:
        extras = tomllib.load(stream)["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras)
    for extra, packages in EXTRAS.items():
        assert set(packages) <= {re.split(r"[\[<>=; ]", need)[0] for need in extras[extra]}


class Fine:
    """A proposer of a package."""

    def ask(self) -> None: ...


def test_proposers_of_packages_are_listed_and_broken_ones_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "acme_search-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-search\nVersion: 1.0\n", encoding="utf-8")
    points = f"[sciagent.proposers]\nacme.fine = {__name__}:Fine\nacme.gone = nowhere_at_all:Gone\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    checks = {check["what"]: check for check in data("doctor")}
    fine, gone = checks["proposer acme.fine"], checks["proposer acme.gone"]
    assert (fine["state"], fine["detail"]) == ("ok", "from acme-search 1.0")
    assert gone["state"] == "broken" and gone["detail"].startswith('the proposer "acme.gone" does not load')


def test_a_ledger_that_others_can_read_is_named_once_and_stays_as_it_is(
    tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    monkeypatch.setenv("SCIAGENT_LEDGER", str(path))
    path.chmod(0o600)
    assert not [check for check in data("doctor") if check["state"] == "exposed"]
    path.chmod(0o640)
    [check] = [check for check in data("doctor") if check["state"] == "exposed"]
    assert check["what"] == "files of the ledger"
    assert check["detail"].startswith("-rw-r-----: ") and f"chmod 600 {path}" in check["detail"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_address_of_pages_is_checked_as_a_tablet_needs_it(migrated_sqlite: Path, tmp_path: Path) -> None:
    def check(address: str) -> tuple[int, str]:
        answer = call("doctor", "--pages", address)
        return answer.exit_code, f"{answer.output}{answer.exception or ''}"

    code, text = check("http://lab.example.org:8080")
    assert code == 1 and "plain http" in text and "docs/lab.md" in text
    code, text = check("lab.example.org")
    assert code == 1 and "write it as https://" in text
    code, text = check("http://127.0.0.1:9")
    assert code == 1 and "does not answer" in text
    ledger = Ledger(str(migrated_sqlite), artifacts=tmp_path)
    server = PageServer(application(ledger), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + 30
        while (answer := check(server.url))[0] and time.monotonic() < end:
            time.sleep(0.2)  # it is starting
        code, text = answer
        assert code == 0 and "ok" in text and "tablets need https" in text, text
        code, text = check(f"{server.url}/elsewhere")
        assert code == 1 and "answers 404" in text
        code, text = check(server.url.replace("http", "https"))
        assert code == 1 and "does not answer" in text, "it speaks no TLS"
    finally:
        server.stop()
        thread.join()
        ledger.close()
