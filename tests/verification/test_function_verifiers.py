"""A verifier from a function: in the process that defines it, and in those that run its jobs."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sciagent
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import properties
from sciagent.errors import UsageError
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import Refusal
from tests.support.plugins import register_again

RINGS = 6


def heavy(molecule: Any) -> int:
    return int(molecule.heavy_atoms)


@pytest.fixture(autouse=True)
def registered() -> None:
    """The properties of this module's functions, where another test has had all properties read anew."""
    register_again()


@sciagent.verifier(measures={"fn_mass": "Da", "dipole": "e*angstrom"}, method="guess", version="2")
def both(molecule: Any, factor: float = 2.0, mode: str = "all") -> Any:
    """Two properties, one of them known to the house."""
    if mode == "refuse":
        return Refusal(Reason.TOO_LARGE, "said so")
    if mode == "nan":
        return {"fn_mass": math.nan}
    if mode == "nothing":
        return None
    return {"fn_mass": (factor * heavy(molecule), 0.5), "dipole": heavy(molecule) / RINGS}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("scratch")) as made:
        yield made


def run(worker: Worker, **settings: Any) -> Any:
    return worker.run(Request("both", both.kind(settings).request_settings, (parse_molecule("c1ccccc1"),)))[0]


def test_the_host_runs_it_with_what_it_uses(worker: Worker) -> None:
    result = run(worker, factor=3)
    assert result.finding.outcome is Outcome.OK
    mass, dipole = result.finding.measured
    assert (mass.quantity.value, mass.quantity.uncertainty, mass.quantity.unit) == (18.0, 0.5, "Da")
    assert dipole.quantity.unit == "D" and dipole.quantity.value == pytest.approx(4.803, abs=0.001)  # 1 e*angstrom
    assert mass.level.method == "guess"
    assert result.versions["function:both"].startswith("2+")


@pytest.mark.parametrize(
    ("mode", "outcome", "words"),
    [
        ("refuse", Outcome.REFUSED, "said so"),
        ("nan", Outcome.IMPLAUSIBLE, "fn_mass is nan"),
        ("nothing", Outcome.CRASHED, "return a dictionary, not a NoneType"),
    ],
)
def test_what_is_no_number_is_told(worker: Worker, mode: str, outcome: Outcome, words: str) -> None:
    finding = run(worker, mode=mode).finding
    assert finding.outcome is outcome and words in finding.detail


def test_it_is_still_a_function() -> None:
    assert both("CCO", factor=1) == both(parse_molecule("CCO"), factor=1) == {"fn_mass": (3.0, 0.5), "dipole": 0.5}
    assert both.__name__ == "both" and "fn_mass [Da], dipole [e*angstrom]" in repr(both)


def test_its_parameters_are_settings_and_its_code_is_one() -> None:
    fields = both.kind.Settings.model_fields
    assert list(fields) == ["code", "factor", "mode"] and fields["factor"].default == 2.0
    assert both.kind({"factor": 2}).settings_hash == both.kind().settings_hash
    assert both.kind({"factor": 3}).settings_hash != both.kind().settings_hash


def test_a_changed_function_is_another_method_under_the_same_name() -> None:
    def define(extra: int) -> Any:
        return sciagent.verifier(measures="fn_x", name="fn.changing")(lambda molecule: molecule.heavy_atoms + extra)

    first, again, second = define(1), define(1), define(2)
    assert first.kind().settings_hash == again.kind().settings_hash != second.kind().settings_hash
    assert verifier_registry.verifier_class("fn.changing") is second.kind


def test_a_job_of_the_function_before_is_not_answered_by_the_one_after(tmp_path: Path) -> None:
    sciagent.verifier(measures="fn_x", name="fn.stale")(lambda molecule: 1.0)
    settings = verifier_registry.verifier_class("fn.stale")().request_settings
    sciagent.verifier(measures="fn_x", name="fn.stale")(lambda molecule: 2.0)
    with Worker(tmp_path) as worker:
        finding = worker.run(Request("fn.stale", settings, (parse_molecule("C"),)))[0].finding
    assert finding.outcome is Outcome.CRASHED and "code" in finding.detail


def test_a_new_property_is_registered_with_its_unit() -> None:
    assert both.definition.properties[0].units == ("Da",)
    sciagent.verifier(measures="fn_y", unit="kg", name="fn.y")(lambda molecule: 1.0)
    sciagent.verifier(measures="fn_y", unit="g", name="fn.y")(lambda molecule: 1.0)
    assert properties()["fn_y"].unit == "g", "the cell was run again with another unit"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"measures": "dipole", "unit": "eV"}, 'dipole is not given in "eV"; it takes: D, e*angstrom'),
        ({"measures": "fn_z", "tier": "simulatoin"}, 'did you mean "simulation"'),
        ({"measures": "fn_z", "name": "xtb.singlepoint"}, "is a verifier of sciagent"),
        ({"measures": "fn_z", "name": "no name"}, "give it a name of letters"),
        ({"measures": "fn_z", "cost": -1}, "a finite number of at least 0"),
        ({"measures": {"fn_z": "1"}, "unit": "eV"}, "leave unit out"),
        ({"measures": []}, "name a property"),
    ],
)
def test_a_wrong_call_names_the_way_out(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        sciagent.verifier(**{"name": "fn.z", **keys})(lambda molecule: 1.0)
    assert words in str(raised.value)


def test_parameters_need_defaults_and_what_is_sent_can_be_sent() -> None:
    def needs(molecule: Any, scale: float) -> float:
        return scale

    with pytest.raises(UsageError, match="the parameter 'scale' is a setting, and needs a default"):
        sciagent.verifier(measures="fn_z")(needs)
    lock = threading.Lock()
    with pytest.raises(UsageError, match="open files, locks and connections inside the function"):
        sciagent.verifier(measures="fn_z", name="fn.z")(lambda molecule: lock.locked())
