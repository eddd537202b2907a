"""Whatever a third-party verifier does where it declares something, who asks goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import LOGP
from sciagent.verification.cost_models import cost_or_none
from sciagent.verification.sandbox import isolated_declarations
from sciagent.verification.sandbox.isolated_declarations import DeclarationError
from sciagent.verification.verifier_contract import Cost, Reason, Verifier
from sciagent.verification.verifier_registry import verifier_class

ETHANE, METHANE = parse_molecule("CC"), parse_molecule("C")


@pytest.fixture(autouse=True)
def short(misbehaving: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(isolated_declarations, "DECLARE_SECONDS", 1)
    yield
    isolated_declarations.asker.close()


def declaring(where: str = "", what: str = "") -> Verifier[Any]:
    return verifier_class("bad.declares")({"where": where, "what": what})


def test_what_is_declared_in_a_process_of_its_own_arrives_as_it_was_declared() -> None:
    verifier = declaring("cost", "print")
    [measured] = verifier.measures
    assert measured.property == LOGP and measured.level.label == "nonsense"
    assert verifier.gates == {"logp": (None, 3.0)}
    assert verifier.cost(ETHANE) == Cost(core_seconds=0.25)
    refusal = verifier.accepts(ETHANE)
    assert refusal is not None and (refusal.reason, refusal.detail) == (Reason.TOO_LARGE, "as told")
    assert verifier.accepts(METHANE) is None
    assert verifier.evidence_key(ETHANE).verifier == "bad.declares"


@pytest.mark.parametrize("where", ["measures", "accepts"])
def test_a_declaration_that_ends_its_process_fails_alone(where: str) -> None:
    verifier = declaring(where, "leave")
    with pytest.raises(DeclarationError, match=f"{where} of bad.declares ended its process"):
        _ = verifier.accepts(ETHANE) if where == "accepts" else verifier.measures
    assert declaring().cost(ETHANE) == Cost(core_seconds=0.25), "the next question is answered"


@pytest.mark.parametrize("what", ["hang", "stop"])
def test_a_declaration_that_never_ends_is_given_up(what: str) -> None:
    began = time.monotonic()
    with pytest.raises(DeclarationError, match=r"measures of bad\.declares did not end within 1 s"):
        _ = declaring("measures", what).measures
    assert time.monotonic() - began < 8


def test_too_much_memory_is_an_error_of_the_declaration() -> None:
    assert cost_or_none(declaring("cost", "memory"), ETHANE) is None


def test_what_fails_again_and_again_is_not_asked_for_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = declaring("cost", "leave")
    monkeypatch.setattr(isolated_declarations, "MAX_DEATHS", 1)
    assert cost_or_none(verifier, ETHANE) is None
    began = time.monotonic()
    assert cost_or_none(verifier, METHANE) is None
    assert time.monotonic() - began < 1


def test_nothing_is_left_of_a_process_that_was_ended() -> None:
    _ = declaring().measures
    process = isolated_declarations.asker._process
    assert process is not None
    isolated_declarations.asker.close()
    left = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit() and parent(folder) == process.pid]
    assert not left and not Path(f"/proc/{process.pid}").exists()


def parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return os.getpid()


def test_verifiers_that_ship_with_sciagent_are_asked_in_this_process() -> None:
    _ = verifier_class("molecule.checks")().cost(ETHANE)
    assert isolated_declarations.asker._process is None
