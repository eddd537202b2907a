"""Molecular potentials: energies and forces of single molecules on a named energy scale, and the registry of models.

Models register under the entry point group `sciagent.molecular_potentials`; each is loaded once per process. A model
declares the elements and the net charges that it knows and its energy scale (`Domain`). The packages of such models
compute anything without a warning: an element that was not trained has random weights, and a net charge may be ignored.
Therefore `fault_in` is asked before each calculation, and `check_charge` when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from ase.data import chemical_symbols
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, failure, spin_fault
from sciagent_simulators.model_registry import declared_model, load_model, model_versions, registered_models
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale

Numbers = NDArray[np.float64]

GROUP = "sciagent.molecular_potentials"
NOUN = "molecular potential"
CHARGE_EFFECT = 1e-3
"""eV; a model whose energy changes by less with the net charge ignores it. Real changes are above 0.1 eV."""


@dataclass(frozen=True)
class Domain:
    """The molecules that a model knows, and the meaning of its energies."""

    elements: frozenset[str]
    """Symbols of the elements in the training data."""
    charges: frozenset[int]
    """Net charges of which the model's errors are known."""
    scale: EnergyScale
    """The model and the method of its training data."""
    has_dipole: bool = False
    """Whether the model predicts dipoles."""


@dataclass(frozen=True)
class MolecularValues:
    """A potential at one geometry."""

    energy: float
    """In eV, on the model's own scale: only differences between geometries of one molecule have a meaning."""
    forces: Numbers
    """n x 3, in eV/angstrom."""
    dipole: float | None = None
    """Norm in debye; None if the model has none."""

    @property
    def fmax(self) -> float:
        """The largest force on an atom, eV/angstrom."""
        return float(np.linalg.norm(self.forces, axis=1).max())

    @property
    def is_finite(self) -> bool:
        """Whether energy and forces are finite numbers."""
        return bool(np.isfinite(self.energy) and np.isfinite(self.forces).all())


class MolecularPotential(Protocol):
    """A loaded model."""

    @property
    def domain(self) -> Domain: ...

    def evaluate(self, geometry: Geometry) -> MolecularValues:
        """Returns the values, which may be not finite. The net charge of the geometry is given to the model."""
        ...


Make = Callable[[Path | None, str], MolecularPotential]
"""Loads a model: (file of the weights or None, `cpu` or `cuda`) -> potential."""


@dataclass(frozen=True)
class MolecularPotentialFactory:
    """The object that a package registers under the entry point group `sciagent.molecular_potentials`: a model."""

    name: str
    """Name in campaign files, equal to that of the entry point."""
    make: Make
    read_domain: Callable[[Path | None], Domain]
    """Returns what the model declares, without loading it. The argument is the file of the weights, or None."""
    seconds: float
    """Core-seconds of an evaluation of energy and forces, for a molecule of up to 30 atoms."""
    package: str
    """The import package with the model, whose version belongs to the provenance."""
    ships_weights: bool = True
    """Whether the package contains weights. If not, a campaign has to name a file."""
    environment: str | None = None
    """Name of the environment in `sciagent engines` that has the package; None for sciagent's own environment."""

    def __call__(self, weights: Path | None, device: str) -> MolecularPotential:
        """Returns the loaded model. Raises ValueError if it ignores a net charge that it declares."""
        potential = self.make(weights, device)
        check_charge(potential)
        return potential


def molecular_potential_names() -> tuple[str, ...]:
    """Returns the sorted names of all installed molecular potentials."""
    return tuple(sorted(registered_models(GROUP, NOUN)))


@cache
def molecular_potential_factory(name: str) -> MolecularPotentialFactory:
    """Returns what a package declares about a molecular potential; no model is loaded.

    Raises UnknownNameError, or UsageError if the package does not load or offers something else."""
    return declared_model(GROUP, NOUN, name, MolecularPotentialFactory)


@lru_cache(maxsize=4)
def load_molecular_potential(name: str, weights: Path | None = None, device: str = "cpu") -> MolecularPotential:
    """Returns the model, loaded once per process; all callers give the arguments by position.

    Raises SimulatorError bad_environment if its package is missing, or if its weights cannot be read, and UsageError
    for a model without weights."""
    return load_model(molecular_potential_factory(name), weights, device, NOUN, extra="so3lr")


@cache
def molecular_potential_versions(name: str) -> Mapping[str, str]:
    """Returns {distribution: version} of the distributions that contain the model's package or that registered it."""
    return model_versions(GROUP, NOUN, name, molecular_potential_factory(name).package)


def fault_in(domain: Domain, numbers: Sequence[int], charge: int, multiplicity: int) -> tuple[Reason, str] | None:
    """Returns why a model does not know a molecule, with the reason's name; None if it does.

    numbers: atomic numbers of all atoms. No model here takes a spin, so radicals and triplets are refused."""
    name = domain.scale.model
    unknown = sorted({chemical_symbols[number] for number in numbers} - domain.elements)
    if unknown:
        return Reason.ELEMENT, f"{name} was not trained on {', '.join(unknown)}"
    if charge not in domain.charges:
        known = ", ".join(f"{known_charge:+d}" if known_charge else "0" for known_charge in sorted(domain.charges))
        return Reason.CHARGE, f"net charge {charge:+d}; the errors of {name} are known for {known}"
    fault = spin_fault(sum(numbers) - charge, multiplicity)
    if fault:
        return Reason.MULTIPLICITY, fault
    if multiplicity != 1:
        return Reason.RADICAL, f"multiplicity {multiplicity}; {name} knows closed shells only"
    return None


def check_domain(domain: Domain, geometry: Geometry) -> None:
    """Raises SimulatorError refused (element, charge, multiplicity, radical) for a molecule unknown to the model."""
    fault = fault_in(domain, geometry.numbers, geometry.charge, geometry.multiplicity)
    if fault is not None:
        raise SimulatorError(Outcome.REFUSED, *fault)


def evaluated(potential: MolecularPotential, geometry: Geometry) -> MolecularValues:
    """Returns the values at a geometry that the model knows.

    Raises SimulatorError refused as `check_domain` does, and implausible (not_finite)."""
    check_domain(potential.domain, geometry)
    values = potential.evaluate(geometry)
    if not values.is_finite:
        raise failure(Reason.NOT_FINITE, f"{potential.domain.scale.model} gives an energy or a force that is no number")
    return values


def check_charge(potential: MolecularPotential) -> None:
    """Raises ValueError if a model declares charges besides 0 and its energy does not depend on the net charge.

    The test molecule is two atoms of the first element in the alphabet, 1.5 angstrom apart."""
    charges = sorted(potential.domain.charges - {0})
    if not charges:
        return
    number = chemical_symbols.index(min(potential.domain.elements))
    neutral = Geometry((number, number), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.5]]))
    energy = potential.evaluate(neutral).energy
    for charge in charges:
        change = potential.evaluate(replace(neutral, charge=charge)).energy - energy
        if not abs(change) > CHARGE_EFFECT:
            name = potential.domain.scale.model
            raise ValueError(f"{name} declares the charge {charge:+d}, but its energy does not depend on the charge")
