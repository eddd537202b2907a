"""Third-party verifiers are found like our own; one that is broken is named, and harms no other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, Property, properties
from sciagent.errors import SpecError, UnknownNameError, UsageError
from sciagent.verification import verifier_registry
from sciagent.verification.verifier_contract import Cost, Level, Tier, Verifier, at
from sciagent.verification.verifier_registry import check_class, check_measures, verifier_class
from tests.support.campaigns import sciagent
from tests.support.plugins import forget_registry, install

CLASHING = Path(__file__).parent.parent / "plugins" / "clashing"
CLASH = 'clashing-verifiers 0.1 (unit "1") against sciagent (unit "D")'


class Good(Verifier[Any]):
    name = "acme.good"
    version = "1"
    tier = Tier.FAST

    @property
    def measures(self) -> Any:
        return at(Level("none"), HOMO)

    def cost(self, candidate: Any) -> Cost:
        return Cost()

    def verify(self, batch: Any, context: Any) -> Any:
        return iter(())


class Raising(Good):
    @property
    def measures(self) -> Any:
        return 1 / 0


def test_a_good_class_is_let_through() -> None:
    assert check_class(Good, "acme.good", "acme 0.1") is Good


def with_(**attributes: Any) -> type:
    return type("Bad", (Good,), attributes)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("no class", "'no class' is no subclass of Verifier or WorldVerifier"),
        (Verifier, "Verifier lacks cost, measures, verify"),
        (with_(version=1), 'version must be a text such as "1", not 1'),
        (with_(name=None), 'name must be a text such as "1", not None'),
        (
            with_(name="acme.other"),
            'its name is "acme.other", but its entry point is "acme.good"; they must be the same',
        ),
        (with_(tier="fast"), "tier must be a Tier, such as Tier.FAST, not 'fast'"),
        (with_(opinion=True), "an opinion is of the tier simulation at best, and not reusable"),
        (
            with_(opinion=True, reusable=False, tier=Tier.HIGH_FIDELITY),
            "an opinion is of the tier simulation at best, and not reusable",
        ),
        (with_(kind="protein"), f"kind must be one of {', '.join(('any', *subject_names()))}, not 'protein'"),
        (with_(programs=("orca",)), "programs must be a tuple of sciagent.programs.Program, not ('orca',)"),
        (with_(Settings=dict), "Settings must be a subclass of sciagent.verification.verifier_contract.Settings"),
        (with_(measures=lambda self: ()), "measures must be a property; write @property above it"),
        (Raising, "measures fails: ZeroDivisionError: division by zero"),
        (with_(measures=property(lambda self: (HOMO,))), "measures holds a Property; use at(LEVEL, PROPERTY, ...)"),
        (
            with_(measures=property(lambda self: at(Level("none"), Property("acme_new", ("1",), "new")))),
            'it measures "acme_new", which no package registers; add it to the entry points sciagent.properties',
        ),
        (
            with_(measures=property(lambda self: at(Level("none"), Property("dipole", ("1",), "mine")))),
            "property dipole: another definition than that of sciagent; give yours another name",
        ),
    ],
)
def test_a_class_that_breaks_the_contract_is_told_by_package_and_fault(found: object, fault: str) -> None:
    with pytest.raises(UsageError, match=f'^verifier "acme.good" of acme 0.1: {re.escape(fault)}$'):
        check_measures(check_class(found, "acme.good", "acme 0.1")(), "acme 0.1")


@pytest.fixture
def clashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    target = tmp_path / "site"
    target.mkdir()
    install(CLASHING, target)
    monkeypatch.syspath_prepend(str(target))
    inherited = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([inherited] if inherited else [])]))
    before = properties()
    forget_registry()
    properties.cache_clear()
    yield tmp_path
    forget_registry()
    properties.cache_clear()
    for name in before.keys() - properties().keys():  # functions of other test modules in this process
        properties().add(before[name], before.provider(name))


CAMPAIGN = """
campaign: unrelated
subject: molecule
objectives: [{property: OBJECTIVE}]
ladder: [{verifier: VERIFIER}]
goal: {kind: hits, count: 1}
budget: {proposals: 1}
proposer: {kind: screen, file: molecules.smi}
"""


def test_a_clashing_property_is_set_aside_and_breaks_its_own_package_only(
    clashing: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (clashing / "molecules.smi").write_text("C\n")
    for objective, verifier in (("logp, max: 5", "molecule.checks"), ("clash_number, max: 9", "clash.number")):
        parse_spec(CAMPAIGN.replace("OBJECTIVE", objective).replace("VERIFIER", verifier), base=clashing)
    assert properties()["dipole"] == DIPOLE
    assert f"property dipole is defined twice, and the first stands: {CLASH}" in caplog.text
    assert "clashing_verifiers.nowhere:NOTHING gives no properties: ModuleNotFoundError" in caplog.text
    with pytest.raises(UsageError, match=re.escape(f"property dipole: {CLASH}; give yours another name")):
        check_measures(verifier_class("clash.dipole")(), "clashing-verifiers 0.1")
    with pytest.raises(SpecError, match=re.escape(CLASH)):
        text = CAMPAIGN.replace("OBJECTIVE", "dipole, max: 5, unit: D").replace("VERIFIER", "clash.dipole")
        parse_spec(text, base=clashing)


def test_doctor_names_both_packages(clashing: Path) -> None:
    done = sciagent("doctor", cwd=clashing, expect=1)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"BROKEN property dipole {CLASH}" in lines
    assert any(line.startswith("BROKEN properties of clashing-verifiers 0.1 ") for line in lines)
    assert any(line.startswith("BROKEN clash.dipole") and CLASH in line for line in lines)
    assert "ok clash.number fast, from clashing-verifiers 0.1" in lines


def test_an_installed_third_party_package_is_found_by_its_entry_points(misbehaving: Path) -> None:
    assert "bad.noop" in verifier_registry.verifier_names()
    kind = verifier_registry.verifier_class("bad.noop")
    assert kind.name == "bad.noop"
    assert verifier_registry.provider("bad.noop") == "misbehaving-verifiers 0.4.0"


def test_our_own_verifiers_stand_beside_it(misbehaving: Path) -> None:
    assert {"molecule.checks", "xtb.singlepoint", "pyscf.scf"} <= set(verifier_registry.verifier_names())


def test_an_unknown_name_is_answered_with_the_nearest_known(misbehaving: Path) -> None:
    with pytest.raises(UnknownNameError, match=r'did you mean "bad.noop"'):
        verifier_registry.verifier_class("bad.nop")


def test_a_package_whose_engine_is_missing_is_named_with_what_is_missing(misbehaving: Path) -> None:
    with pytest.raises(UsageError, match=r'"bad.import" .*an_engine_that_nobody_has'):
        verifier_registry.verifier_class("bad.import")
