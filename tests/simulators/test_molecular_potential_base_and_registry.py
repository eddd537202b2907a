"""What a molecular potential declares is asked before each calculation, by an element, a charge and a spin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError, UnknownNameError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    Domain,
    MolecularValues,
    check_charge,
    evaluated,
    fault_in,
    molecular_potential_factory,
    molecular_potential_names,
)
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale

DOMAIN = Domain(frozenset({"H", "O"}), frozenset({0, -1}), EnergyScale("Toy", "PBE0"))
WATER = Geometry((8, 1, 1), np.array([[0.0, 0.0, 0.12], [0.0, 0.76, -0.47], [0.0, -0.76, -0.47]]))


@dataclass(frozen=True)
class Toy:
    """A potential whose energy is `per_charge` times the net charge, in eV."""

    per_charge: float = 0.0
    force: float = 0.0
    domain: Domain = DOMAIN

    def evaluate(self, geometry: Geometry) -> MolecularValues:
        forces = np.full((len(geometry.numbers), 3), self.force)
        return MolecularValues(self.per_charge * geometry.charge, forces)


@pytest.mark.parametrize(
    ("numbers", "charge", "multiplicity", "reason"),
    [
        ((8, 1, 1), 0, 1, None),
        ((8, 1), -1, 1, None),
        ((8, 1, 6), 0, 1, Reason.ELEMENT),
        ((30, 1, 1), 0, 1, Reason.ELEMENT),
        ((8, 1, 1, 1), 1, 1, Reason.CHARGE),
        ((8, 1), 0, 1, Reason.MULTIPLICITY),
        ((8, 1), 0, 2, Reason.RADICAL),
        ((8, 8), 0, 3, Reason.RADICAL),
    ],
)
def test_what_a_model_does_not_know_has_a_name(
    numbers: tuple[int, ...], charge: int, multiplicity: int, reason: Reason | None
) -> None:
    fault = fault_in(DOMAIN, numbers, charge, multiplicity)
    assert (fault and fault[0]) == reason


def test_no_energy_of_an_unknown_molecule() -> None:
    with pytest.raises(SimulatorError, match="Toy was not trained on S") as error:
        evaluated(Toy(), replace(WATER, numbers=(16, 1, 1)))
    assert error.value.outcome == Outcome.REFUSED
    assert evaluated(Toy(), WATER).fmax == 0.0


def test_numbers_that_are_none_are_an_error() -> None:
    with pytest.raises(SimulatorError, match="not_finite"):
        evaluated(Toy(force=float("nan")), WATER)


def test_a_model_that_ignores_a_charge_which_it_declares_is_refused() -> None:
    check_charge(Toy(per_charge=2.0))
    check_charge(Toy(domain=replace(DOMAIN, charges=frozenset({0}))))
    with pytest.raises(ValueError, match="declares the charge -1, but its energy does not depend on the charge"):
        check_charge(Toy())


def test_shipped_models_are_registered() -> None:
    assert {"so3lr", "file"} <= set(molecular_potential_names())
    assert molecular_potential_factory("so3lr").read_domain(None).elements == {"H", "C", "N", "O", "F", "P", "S", "Cl"}
    with pytest.raises(UnknownNameError, match="so3lr"):
        molecular_potential_factory("so3")
