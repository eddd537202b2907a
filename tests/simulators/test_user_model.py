"""A model of the user: any ASE calculator, declared in a JSON file beside its weights; here by tblite."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciagent.errors import SimulatorError, UsageError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import load_molecular_potential
from sciagent_simulators.molecular_potentials.user_model import UserModel, read_user_model
from sciagent_simulators.tblite_engine import single_point

GFN2 = {
    "name": "GFN2", "package": "tblite", "calculator": "tblite.ase:TBLite",
    "arguments": {"method": "GFN2-xTB", "verbosity": 0}, "elements": ["H", "O"], "charges": [0, -1],
    "functional": "GFN2-xTB", "charge_argument": "charge", "has_dipole": True,
}  # fmt: skip
EMT = {
    "name": "EMT", "package": "ase", "calculator": "ase.calculators.emt:EMT", "elements": ["Cu"], "functional": "EMT"
}  # fmt: skip
WATER = Geometry((8, 1, 1), np.array([[0.0, 0.0, 0.12], [0.0, 0.76, -0.47], [0.0, -0.76, -0.47]]))


@pytest.fixture
def declare(tmp_path: Path) -> Any:
    """Returns a function that writes a declaration and returns its path."""

    def write(declaration: dict[str, Any], **changes: Any) -> Path:
        path = tmp_path / f"model{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(declaration | changes))
        return path

    return write


def test_values_are_those_of_the_calculator(declare: Any) -> None:
    potential = load_molecular_potential("file", declare(GFN2), "cpu")
    values = potential.evaluate(WATER)
    expected = single_point(WATER)
    assert values.energy == pytest.approx(expected.energy, abs=1e-5)
    assert values.fmax == pytest.approx(expected.fmax, abs=1e-4)
    assert values.dipole == pytest.approx(expected.dipole, abs=1e-3)
    hydroxide = Geometry((8, 1), WATER.positions[:2], charge=-1)
    assert potential.evaluate(hydroxide).energy == pytest.approx(single_point(hydroxide).energy, abs=1e-5)


def test_a_declared_charge_that_the_calculator_ignores_is_refused(declare: Any) -> None:
    path = declare(EMT, charges=[0, 1], charge_info="charge")
    with pytest.raises(SimulatorError, match="does not depend on the charge"):
        load_molecular_potential("file", path, "cpu")
    assert load_molecular_potential("file", declare(EMT), "cpu").domain.charges == {0}


def test_files_are_known_by_their_content(declare: Any, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    potential: Any = load_molecular_potential("file", declare(EMT, files={"weights.pt": digest}), "cpu")
    assert potential.arguments == {}
    with pytest.raises(SimulatorError, match=r"weights.pt has the SHA-256 .*, not 000000000000"):
        load_molecular_potential("file", declare(EMT, files={"weights.pt": "0" * 64}), "cpu")
    with pytest.raises(SimulatorError, match="cannot read its weights"):
        load_molecular_potential("file", declare(EMT, files={"gone.pt": digest}), "cpu")


def test_an_argument_that_names_a_file_becomes_its_path(declare: Any, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    path = declare(
        EMT, package="tests", calculator="tests.simulators.test_user_model:Recorder", files={"weights.pt": digest},
        arguments={"model": "weights.pt", "device": "cpu"},
    )  # fmt: skip
    potential: Any = load_molecular_potential("file", path, "cpu")
    assert potential.arguments == {"model": str(tmp_path / "weights.pt"), "device": "cpu"}


class Recorder:
    """A calculator that takes arguments."""

    def __init__(self, model: str, device: str) -> None:
        self.model = model
        self.device = device


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"elements": ["Xx"]}, "no elements: Xx"),
        ({"elements": []}, "elements"),
        ({"files": {"../weights.pt": "0" * 64}}, "these are paths"),
        ({"files": {"weights.pt": "abc"}}, "files"),
        ({"charges": [0, 1]}, "charge_argument or charge_info"),
        ({"charge_argument": "q", "charge_info": "q"}, "not both"),
        ({"calculator": "os:system", "package": "ase"}, "not in the package"),
        ({"calculator": "no colon"}, "calculator"),
        ({"url": "x"}, "url"),
    ],
)
def test_a_mistake_is_named_with_its_place(declare: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_user_model(declare(EMT, **changes))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("not JSON")
    with pytest.raises(ValueError, match=r"model.json cannot be read as JSON"):
        read_user_model(tmp_path / "model.json")
    (tmp_path / "large.json").write_text(" " * 200_000)
    with pytest.raises(ValueError, match="no declaration"):
        read_user_model(tmp_path / "large.json")
    with pytest.raises(ValueError, match="weights: FILE"):
        read_user_model(None)
    with pytest.raises(UsageError, match="weights: FILE"):
        load_molecular_potential("file", None, "cpu")


def test_the_declaration_becomes_the_domain() -> None:
    domain = UserModel.model_validate(GFN2).domain
    assert (domain.elements, domain.charges, domain.has_dipole) == ({"H", "O"}, {0, -1}, True)
    assert domain.scale.label == "GFN2-xTB, uncorrected"
    assert replace(domain.scale, model="x") != domain.scale
