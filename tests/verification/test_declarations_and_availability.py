"""A verifier says what a machine lacks for it, in this environment or in the verifier's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent.inputs import engine_environments
from sciagent.verification.declarations_and_availability import entry, interpreter_of, missing_of, unavailable
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import BaseVerifier
from sciagent.verification.verifier_registry import verifier_class
from tests.support import bare_environments
from tests.verification.sandbox.working import ABC, AMPLE, ETHANOL

pytestmark = pytest.mark.usefixtures("listed")
MOLECULAR = (*bare_environments.NEEDED, "rdkit", "pillow")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the engine of `bad.elsewhere`."""
    python = bare_environments.made(tmp_path_factory.mktemp("environments") / "there", MOLECULAR)
    bare_environments.put_engine(bare_environments.site_of(python.parent.parent))
    return python


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_ENGINES", str(tmp_path / "engines.toml"))


def elsewhere(**settings: str) -> BaseVerifier[Any]:
    return verifier_class("bad.elsewhere")(settings)


def test_a_verifier_without_its_engine_says_what_to_install() -> None:
    assert missing_of(verifier_class("bad.noop")) is None
    says = "no-such-engine is not installed; pip install no-such-engine"
    assert missing_of(verifier_class("bad.absent")) == says == entry("bad.absent", {})["missing"]
    assert unavailable(verifier_class("bad.absent")()) == says


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCIAGENT_ORCA", str(tmp_path / "nowhere"))
    assert "ORCA is not available here" in str(missing_of(verifier_class("orca.scf")))


def test_asking_a_plug_in_cannot_end_the_driver() -> None:
    said = unavailable(verifier_class("bad.absent")({"dies": True}))
    assert said is not None and said.startswith("missing() fails: ") and "SystemExit: 3" in said


def test_an_environment_that_is_not_listed_is_named_with_what_to_type() -> None:
    said = unavailable(elsewhere())
    assert said is not None and "sciagent engines there --python PATH" in said
    assert "only-there not installed" in said


def test_an_environment_without_the_engine_is_named(tmp_path: Path) -> None:
    python = bare_environments.made(tmp_path / "empty")
    site = bare_environments.site_of(python.parent.parent)
    bare_environments.install(bare_environments.PLUGINS / "misbehaving", site)
    engine_environments.add("there", python)
    said = unavailable(elsewhere())
    assert said == "in the environment there: only-there not installed; pip install only-there"


def test_an_environment_with_another_version_of_the_verifier_is_refused(there: Path, tmp_path: Path) -> None:
    python = bare_environments.made(tmp_path / "other")
    site = bare_environments.site_of(python.parent.parent)
    bare_environments.put_engine(site)
    file = site / "misbehaving_verifiers" / "elsewhere.py"
    file.write_text(file.read_text().replace("    tier = Tier.SIM", '    version = "2"\n    tier = Tier.SIM', 1))
    engine_environments.add("there", python)
    assert "has version 2 of bad.elsewhere" in str(unavailable(elsewhere()))


def test_a_process_of_the_environment_itself_needs_no_list(there: Path) -> None:
    said = bare_environments.run(
        there,
        "-c",
        "from sciagent.verification.declarations_and_availability import interpreter_of, unavailable\n"
        "from sciagent.verification.verifier_registry import verifier_class\n"
        "one = verifier_class('bad.elsewhere')()\nprint(interpreter_of(one), unavailable(one))",
    )
    assert said.split() == ["None", "None"]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path / "scratch", preload=["bad.noop"]) as made:
        yield made


def test_jobs_run_in_the_environment_of_their_verifier_beside_those_of_this_one(there: Path, worker: Worker) -> None:
    engine_environments.add("there", there)
    verifier = elsewhere(poison="CCC")
    assert unavailable(verifier) is None and interpreter_of(verifier) == there
    request = Request.of(verifier, ABC, AMPLE)
    (first,) = worker.run(Request("bad.noop", {}, (ETHANOL,), AMPLE))
    results = worker.run(Request(**{**vars(request), "together": True}))
    (last,) = worker.run(Request("bad.noop", {}, (ETHANOL,), AMPLE))
    assert [str(result.finding.outcome) for result in results] == ["ok", "ok", "crashed", "ok"]
    assert results[0].finding.diagnostics == {"python": str(there), "says": "here I am"}
    assert results[0].versions["only-there"] == "3.1" and results[0].versions["environment"] == "there"
    for own in (first, last):
        assert own.finding.outcome == "ok" and "environment" not in own.versions
    assert results[0].cost["core_seconds"] > 0


def test_an_environment_that_is_gone_is_said(there: Path, tmp_path: Path) -> None:
    engine_environments.add("there", there)
    file = engine_environments.engines_file()
    file.write_text(file.read_text().replace(str(there), str(tmp_path / "gone" / "python")))
    assert "No such file" in str(unavailable(elsewhere()))
