"""A molecular potential of the user: any ASE calculator, with its weights, declared in a JSON file.

The file lies in a folder with the weights. It names each file of weights with its SHA-256, so that the hash of the JSON
file is the identity of the whole. Nothing is downloaded: an argument is a value or one of the named files.

```json
{"name": "MACE-OFF23-S", "package": "mace", "calculator": "mace.calculators:MACECalculator",
 "arguments": {"model_paths": "MACE-OFF23_small.model", "device": "cpu", "default_dtype": "float64"},
 "files": {"MACE-OFF23_small.model": "SHA-256"},
 "elements": ["H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I"], "charges": [0], "functional": "wB97M-D3(BJ)"}
```

A calculator that takes a net charge states where: `"charge_argument": "charge"` for an argument of its constructor, or
`"charge_info": "charge"` for a key of `atoms.info`. Without either it knows neutral molecules only. A calculator that
declares charges and ignores them is refused when it is loaded.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from ase.data import chemical_symbols
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    Domain,
    MolecularPotentialFactory,
    MolecularValues,
)
from sciagent_simulators.molecular_potentials.so3lr import DEBYE_PER_E_ANGSTROM
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale

MAX_DECLARATION_BYTES = 100_000
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ArgumentValue = str | int | float | bool | None


class UserModel(BaseModel):
    """The content of the JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100, description="What levels call the model.")
    package: str = Field(min_length=1, max_length=100, description="The import package of the calculator.")
    calculator: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="`module:name`, called once.")
    arguments: Mapping[str, ArgumentValue] = Field(
        default={}, max_length=50, description="Arguments of the call; the name of a file becomes its path."
    )
    files: Mapping[str, Sha256] = Field(default={}, max_length=50, description="Files beside this one: SHA-256.")
    elements: frozenset[str] = Field(min_length=1, max_length=118, description="Elements of the training data.")
    charges: frozenset[int] = Field(
        default=frozenset({0}), min_length=1, max_length=21, description="Net charges that the model knows."
    )
    functional: str = Field(min_length=1, max_length=100, description="The method of the training data.")
    charge_argument: str = Field("", max_length=50, description="The argument that takes the net charge.")
    charge_info: str = Field("", max_length=50, description="The key of `atoms.info` that takes the net charge.")
    has_dipole: bool = Field(False, description="Whether the calculator has dipoles.")

    @model_validator(mode="after")
    def _is_consistent(self) -> UserModel:
        unknown = sorted(self.elements - set(chemical_symbols[1:]))
        if unknown:
            raise ValueError(f"no elements: {', '.join(unknown)}")
        outside = [name for name in self.files if Path(name).name != name or name in (".", "..")]
        if outside:
            raise ValueError(f"files lie beside the JSON file; these are paths: {', '.join(outside)}")
        takes_charge = bool(self.charge_argument) + bool(self.charge_info)
        if takes_charge > 1:
            raise ValueError("charge_argument or charge_info, not both")
        if self.charges != {0} and not takes_charge:
            raise ValueError("charges other than 0 need charge_argument or charge_info")
        if self.calculator.partition(".")[0].partition(":")[0] != self.package:
            raise ValueError(f"the calculator {self.calculator} is not in the package {self.package}")
        return self

    @property
    def domain(self) -> Domain:
        """The molecules and energies that the model declares to know."""
        scale = EnergyScale(self.name, functional=self.functional)
        return Domain(self.elements, self.charges, scale, has_dipole=self.has_dipole)


def read_user_model(path: Path | None) -> UserModel:
    """Returns the content of a JSON file. Raises ValueError with the place of its first mistake, or without a file."""
    if path is None:
        raise ValueError("a model of your own needs its JSON file: weights: FILE")
    try:
        if path.stat().st_size > MAX_DECLARATION_BYTES:
            raise ValueError(
                f"{path.name} has more than {MAX_DECLARATION_BYTES} bytes; it is no declaration of a model"
            )
        return UserModel.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{path.name} declares no model: {place}: {first['msg']}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read as JSON: {error}") from error


@dataclass(frozen=True)
class UserPotential:
    """A loaded calculator of the user."""

    declared: UserModel
    arguments: Mapping[str, Any]
    """Arguments of the calculator, with paths of files."""
    calculators: dict[int | None, Any] = field(default_factory=dict)
    """{net charge, or None if all charges share a calculator: calculator}, made when they are first needed."""

    @property
    def domain(self) -> Domain:
        return self.declared.domain

    def evaluate(self, geometry: Geometry) -> MolecularValues:
        atoms = geometry.atoms
        if self.declared.charge_info:
            atoms.info[self.declared.charge_info] = geometry.charge
        atoms.calc = self._calculator(geometry.charge)
        energy = float(atoms.get_potential_energy())
        forces = np.array(atoms.get_forces(), dtype=float)
        dipole = None
        if self.declared.has_dipole:
            dipole = float(np.linalg.norm(atoms.get_dipole_moment())) * DEBYE_PER_E_ANGSTROM
        return MolecularValues(energy, forces, dipole)

    def _calculator(self, charge: int) -> Any:
        """Returns the calculator for a net charge."""
        argument = self.declared.charge_argument
        key = charge if argument else None
        if key not in self.calculators:
            charge_argument = {argument: charge} if argument else {}
            module, _, name = self.declared.calculator.partition(":")
            make = getattr(importlib.import_module(module), name)
            self.calculators[key] = make(**self.arguments, **charge_argument)
        return self.calculators[key]


def _make(path: Path | None, device: str) -> UserPotential:
    """Returns the loaded calculator. device is not used: the JSON file names the device among the arguments.

    Raises ValueError for a file that is missing or has another SHA-256 than the JSON file says."""
    declared = read_user_model(path)
    assert path is not None
    folder = path.parent
    for name, sha256 in declared.files.items():
        with (folder / name).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != sha256:
            raise ValueError(f"{name} has the SHA-256 {digest[:12]}…, not {sha256[:12]}…")
    arguments = {
        key: str(folder / value) if isinstance(value, str) and value in declared.files else value
        for key, value in declared.arguments.items()
    }
    loaded = UserPotential(declared, arguments)
    loaded._calculator(0)
    return loaded


def _read_domain(path: Path | None) -> Domain:
    return read_user_model(path).domain


USER_MODEL = MolecularPotentialFactory(
    name="file", make=_make, read_domain=_read_domain, seconds=0.05, package="ase", ships_weights=False
)
