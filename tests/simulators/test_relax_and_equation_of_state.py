"""Relaxations by a cheap potential, ASE's EMT, against ASE's own optimiser; the models have tests of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk, fcc111
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.filters import FrechetCellFilter
from ase.optimize import FIRE

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.potentials.ase_potential import AsePotential
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale, PotentialValues
from sciagent_simulators.potentials.relax_and_equation_of_state import (
    SETTLED,
    evaluate,
    heights,
    relax,
    settle,
    strain_between,
)

SCALE = EnergyScale("EMT", "effective medium")
POTENTIAL = AsePotential(EMT(), SCALE)


def strained(symbol: str, seed: int, size: int = 1) -> Any:
    atoms = bulk(symbol, cubic=True).repeat((size, 1, 1))
    rng = np.random.default_rng(seed)
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + 0.04 * rng.normal(size=(3, 3))), scale_atoms=True)
    atoms.rattle(0.1, seed=seed)
    return atoms


def test_steps_are_those_of_ase() -> None:
    atoms = strained("Cu", 1)
    ours = relax(POTENTIAL, [atoms], fmax=0.01)[0]
    atoms.calc = EMT()
    optimiser = FIRE(FrechetCellFilter(atoms), logfile=None)
    assert optimiser.run(fmax=0.01, steps=300)
    assert ours.fault is None
    assert ours.steps == optimiser.nsteps + 1
    assert ours.energy_per_atom == pytest.approx(atoms.get_potential_energy() / len(atoms), abs=1e-8)
    assert np.abs(ours.atoms.cell.array - atoms.cell.array).max() < 1e-7
    assert np.abs(ours.last.forces - atoms.get_forces()).max() < 1e-6


def test_a_crystal_relaxes_among_others_as_it_does_alone() -> None:
    batch = [strained(symbol, seed) for seed, symbol in enumerate(["Cu", "Al", "Ni"])]
    together = relax(POTENTIAL, batch)
    for atoms, found in zip(batch, together, strict=True):
        alone = relax(POTENTIAL, [atoms])[0]
        assert (alone.steps, alone.fmax) == (found.steps, found.fmax)
        assert np.array_equal(alone.atoms.positions, found.atoms.positions)
    assert len({found.steps for found in together}) > 1  # each converges by itself


def test_the_last_strain_says_how_far_the_cell_may_be_from_its_minimum() -> None:
    cells = [strained("Cu", 4), bulk("Cu", cubic=True)]
    minimum = relax(POTENTIAL, cells, fmax=1e-5)
    cells.append(minimum[0].atoms)
    for found in relax(POTENTIAL, cells, fmax=0.05, with_strain=True):
        error = strain_between(found.atoms.cell.array, minimum[1].atoms.cell.array)
        assert found.fault is None and error <= found.last_strain + 1e-4
    plain = relax(POTENTIAL, cells[:1], fmax=0.05)[0]
    assert plain.last_strain == 0, "nobody asked for it"
    near = bulk("Cu", a=minimum[1].atoms.cell.array[0, 0] * 1.001)
    assert relax(POTENTIAL, [near], fmax=0.05)[0].steps == 1, "it looks converged at its start"
    [found] = relax(POTENTIAL, [near], fmax=0.05, with_strain=True)
    assert found.steps > 1 and found.last_strain == pytest.approx(0.001, rel=0.3)


def test_rotations_of_a_cell_are_no_strain() -> None:
    cell = np.diag([3.0, 4.0, 5.0])
    turn = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    assert strain_between(cell, cell @ turn) == pytest.approx(0, abs=1e-12)
    assert strain_between(cell, cell * [1.03, 1, 1]) == pytest.approx(0.03 / np.sqrt(3))


def test_given_structures_do_not_change() -> None:
    atoms = strained("Cu", 3)
    before = atoms.positions.copy(), atoms.cell.array.copy()
    relax(POTENTIAL, [atoms])
    assert np.array_equal(before[0], atoms.positions)
    assert np.array_equal(before[1], atoms.cell.array)


def test_only_the_exploding_member_fails() -> None:
    potential = AsePotential(LennardJones(sigma=2.3, epsilon=0.4, rc=6.0), SCALE)
    overlapping = bulk("Cu")
    overlapping = overlapping.repeat((2, 1, 1))
    overlapping.positions[1] = overlapping.positions[0] + [0.5, 0, 0]
    first, second, third = relax(potential, [bulk("Cu", a=3.5), overlapping, bulk("Cu", a=3.7)])
    assert first.fault is third.fault is None
    assert first.energy_per_atom == pytest.approx(third.energy_per_atom, abs=1e-3)
    assert (second.fault.outcome, second.fault.reason) == (Outcome.IMPLAUSIBLE, Reason.OVERLAPPING_ATOMS)
    with pytest.raises(SimulatorError, match="overlap"):
        _ = second.energy_per_atom


def test_too_few_steps_are_not_converged() -> None:
    found = relax(POTENTIAL, [strained("Cu", 1)], fmax=1e-3, steps=3)[0]
    assert found.steps == 3
    assert (found.fault.outcome, found.fault.reason) == (Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED)


class Pressing(EMT):
    """EMT with a pressure added, positive or negative, under which a cell collapses or escapes."""

    def __init__(self, pressure: float) -> None:
        super().__init__()
        self.pressure = pressure

    def calculate(self, *args: Any, **kwargs: Any) -> None:
        super().calculate(*args, **kwargs)
        self.results["stress"] = self.results["stress"] * 0 + self.pressure * np.array([1, 1, 1, 0, 0, 0])
        self.results["forces"] = self.results["forces"] * 0


@pytest.mark.parametrize(("pressure", "reason"), [(5.0, Reason.COLLAPSED), (-5.0, Reason.VOLUME_CHANGED)])
def test_a_cell_that_collapses_or_escapes_is_named(pressure: float, reason: Reason) -> None:
    found = relax(AsePotential(Pressing(pressure), SCALE), [bulk("Cu", cubic=True)])[0]
    assert found.fault.reason is reason


class Nothing(EMT):
    """A potential whose energy is no number."""

    def calculate(self, *args: Any, **kwargs: Any) -> None:
        super().calculate(*args, **kwargs)
        self.results["energy"] = self.results["free_energy"] = float("nan")


def test_numbers_that_are_not_finite_are_named() -> None:
    found = relax(AsePotential(Nothing(), SCALE), [bulk("Cu")])[0]
    assert (found.fault.outcome, found.fault.reason) == (Outcome.IMPLAUSIBLE, Reason.NOT_FINITE)


def test_a_slab_is_refused() -> None:
    found = relax(POTENTIAL, [fcc111("Cu", (1, 1, 2), vacuum=5)])[0]
    assert found.fault.outcome is Outcome.REFUSED
    assert found.steps == 0


def test_heights_of_a_sheared_cell() -> None:
    assert heights(np.array([[2.0, 0, 0], [5.0, 3.0, 0], [0, 0, 4.0]]))[2] == pytest.approx(4.0)
    assert heights(np.array([[2.0, 0, 0], [5.0, 3.0, 0], [0, 0, 4.0]]))[1] == pytest.approx(3.0)


def test_batches_are_cut_at_the_number_of_atoms_that_a_potential_takes() -> None:
    calls: list[int] = []

    class Counting(AsePotential):
        def evaluate(self, batch: Any) -> Any:
            calls.append(len(batch))
            return super().evaluate(batch)

    evaluate(Counting(EMT(), SCALE, 9), [bulk("Cu", cubic=True)] * 5)
    assert calls == [2, 2, 1]


class WeakAxis:
    """A potential of cells whose third axis, at right angles to the others, is held at 11 angstrom by a weak spring."""

    scale = SCALE
    atoms_at_once = 100

    def __init__(self, spring: float) -> None:
        self.spring = spring  # eV/angstrom**2

    def evaluate(self, batch: Any) -> list[PotentialValues]:
        values = []
        for atoms in batch:
            stretched = atoms.cell.array[2, 2] - 11
            stress = np.zeros((3, 3))
            stress[2, 2] = self.spring * stretched * atoms.cell.array[2, 2] / atoms.get_volume()
            energy = self.spring * stretched**2 / 2
            values.append(PotentialValues(energy, np.zeros((len(atoms), 3)), stress))
        return values


def test_a_soft_axis_settles_at_smaller_forces_or_is_said_not_to() -> None:
    cell = bulk("Po", "sc", a=3.0).repeat((1, 1, 2))
    cell.set_cell([3.0, 3.0, 10.5], scale_atoms=True)
    potential = WeakAxis(0.007)
    [first] = relax(potential, [cell], fmax=0.02)
    assert first.fault is None and first.steps == 1, "it looks converged half an angstrom away from its minimum"
    [settled] = settle(potential, [first], fmax=0.02, steps=300)
    assert settled.fault is None and 0 < settled.last_strain <= SETTLED
    assert settled.atoms.cell.array[2, 2] == pytest.approx(11, abs=0.05)
    assert settled.volume_ratio == pytest.approx(settled.atoms.get_volume() / cell.get_volume())

    weaker = WeakAxis(0.0004)  # after its first move the forces are the smallest that are followed
    [lost] = settle(weaker, relax(weaker, [cell], fmax=0.01, with_strain=True), fmax=0.01, steps=300)
    assert lost.fault is not None and lost.fault.reason == Reason.GEOMETRY_NOT_CONVERGED
    assert "that no bonds cross" in str(lost.fault)
