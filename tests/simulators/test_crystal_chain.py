"""A crystal at a temperature: springs and free atoms with known answers, copper that is ended and resumed, failures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.chunks import loaded_array
from sciagent_simulators.dynamics.crystal_chain import (
    CrystalProtocol,
    CrystalSimulation,
    atoms_that_left,
    neighbour_pairs,
    repeats,
    supercell,
)
from sciagent_simulators.potentials.ase_potential import AsePotential
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale, PotentialValues

SCALE = EnergyScale("toy", "none")
KELVIN = 8.617333262e-5  # eV, CODATA 2018
NO_STRESS = np.zeros((3, 3))


@dataclass(frozen=True)
class Springs:
    """Each atom is bound to its site by a spring; atoms of `free` are not bound."""

    sites: Any
    stiffness: float = 2.0
    free: str = ""
    atoms_at_once: int = 1
    scale: EnergyScale = SCALE

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        found = []
        for atoms in batch:
            moves = atoms.positions - self.sites.positions
            stiffness = np.where(np.array(atoms.get_chemical_symbols()) == self.free, 0.0, self.stiffness)[:, None]
            energy = float(np.sum(stiffness * moves**2) / 2)
            found.append(PotentialValues(energy, -stiffness * moves, NO_STRESS))
        return found


@dataclass(frozen=True)
class Broken:
    """A potential whose forces are no numbers from the second evaluation on."""

    calls: list[int]
    atoms_at_once: int = 1
    scale: EnergyScale = SCALE

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        self.calls.append(1)
        size = 0.0 if len(self.calls) < 2 else math.nan
        return [PotentialValues(0.0, np.full((len(atoms), 3), size), NO_STRESS) for atoms in batch]


def copper(n: int = 2) -> Any:
    from ase.build import bulk

    return bulk("Cu", "fcc", a=3.6, cubic=True).repeat(n)


def salt() -> Any:
    from ase.build import bulk

    return bulk("LiF", "rocksalt", a=4.03, cubic=True).repeat(2)


def emt() -> AsePotential:
    from ase.calculators.emt import EMT

    return AsePotential(EMT(), SCALE)


def no_report(done: float, of: float, text: str) -> None:
    """Ignores a report."""


def test_springs_have_the_displacements_and_energies_of_statistical_mechanics(tmp_path: Path) -> None:
    """Each of 3 n directions has kT / 2 of potential energy and the mean square kT / stiffness."""
    sites = copper()
    protocol = CrystalProtocol(300, 5.0, equilibration_chunks=5, production_chunks=40, replicas=2, friction=5.0)
    simulation = CrystalSimulation(Springs(sites), sites, protocol, tmp_path, "springs")
    values = simulation.run(no_report)
    assert values.temperature.mean == pytest.approx(300, abs=4 * values.temperature.uncertainty)
    assert values.temperature.uncertainty < 6
    assert values.energy.mean == pytest.approx(1.5 * KELVIN * 300, abs=4 * values.energy.uncertainty)
    # the centre of 32 atoms is taken off; the root of a mean square is above the mean of roots by less than 0.5 %
    expected = math.sqrt(3 * KELVIN * 300 / 2.0 * 31 / 32)
    assert values.displacement[0] == pytest.approx(expected, abs=4 * values.displacement[1] + 0.005 * expected)
    assert values.kept == (1.0, 0.0)
    plateau = values.squared_displacements["Cu"][-400:-100].mean()
    assert plateau == pytest.approx(2 * expected**2, rel=0.05), "two independent displacements"


def test_pairs_of_a_crystal_have_the_distances_of_its_lattice(tmp_path: Path) -> None:
    """Lithium fluoride: 6 unlike neighbours at half of the edge, 12 like ones at its share of root two."""
    sites = salt()
    pairs = (("Li", "F"), ("Li", "Li"))
    protocol = CrystalProtocol(50, 4.0, 5, 20, replicas=1, friction=5.0, pairs=pairs)
    values = CrystalSimulation(Springs(sites, stiffness=5.0), sites, protocol, tmp_path, "pairs").run(no_report)
    unlike, like = (found for _, found in values.distributions)
    assert [name for name, _ in values.distributions] == ["Li-F", "Li-Li"]
    half = 4.03 / 2
    assert unlike.r[-1] == pytest.approx(4.03, abs=0.03), "half of the supercell"
    assert unlike.highest_peak[0] == pytest.approx(half, abs=0.05)
    assert unlike.neighbours[np.searchsorted(unlike.r, 1.2 * half)] == pytest.approx(6)
    assert like.highest_peak[0] == pytest.approx(half * math.sqrt(2), abs=0.05)
    assert like.neighbours[np.searchsorted(like.r, 1.6 * half)] == pytest.approx(12)


def test_free_atoms_diffuse_as_brownian_particles(tmp_path: Path) -> None:
    """D = kT / (mass friction). The other atoms are the framework, which keeps its neighbours."""
    sites = salt()
    protocol = CrystalProtocol(
        600, 5.0, equilibration_chunks=2, production_chunks=40, replicas=3, friction=10.0, species="Li"
    )
    values = CrystalSimulation(Springs(sites, free="Li"), sites, protocol, tmp_path, "free").run(no_report)
    assert values.diffusion is not None and not values.no_diffusion
    mass = 6.94 * 1.66053906660e-27
    expected = 1.380649e-23 * 600 / (mass * 10e12)
    assert values.diffusion.uncertainty < 0.2 * expected
    assert values.diffusion.uncorrected == pytest.approx(expected, rel=0.25)
    assert values.hops > 90 and values.kept[0] == 1.0
    assert values.squared_displacements["Li"][50] > 20 * values.squared_displacements["F"][50]


def test_diffusion_that_cannot_be_told_is_no_number(tmp_path: Path) -> None:
    sites = salt()
    protocol = CrystalProtocol(
        300, 5.0, equilibration_chunks=1, production_chunks=10, replicas=3, friction=5.0, species="Li"
    )
    values = CrystalSimulation(Springs(sites), sites, protocol, tmp_path, "bound").run(no_report)
    assert values.diffusion is None
    assert values.no_diffusion.startswith("0 of 96 atoms of Li left their sites in 5 ps")
    two = CrystalProtocol(300, 5.0, 1, 10, replicas=2, friction=5.0, species="Li")
    again = CrystalSimulation(Springs(sites), sites, two, tmp_path, "bound").run(no_report)
    assert again.diffusion is None and again.no_diffusion.startswith("2 replicas; the error of a diffusion")
    with pytest.raises(ValueError, match="no Na"):
        CrystalSimulation(Springs(sites), sites, CrystalProtocol(300, 5.0, 1, 1, species="Na"), tmp_path, "other")


def test_a_crystal_that_loses_its_structure_ends_by_that_name_as_soon_as_it_shows(tmp_path: Path) -> None:
    sites = salt()
    protocol = CrystalProtocol(900, 2.0, equilibration_chunks=0, production_chunks=100, replicas=1)
    gas = Springs(sites, stiffness=0.0)
    with pytest.raises(SimulatorError, match=r"loses its structure: after .* of the neighbours") as caught:
        CrystalSimulation(gas, sites, protocol, tmp_path, "gas").run(no_report)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "phase")
    assert len(list(tmp_path.rglob("*.zip"))) < 5, "of 101"
    mobile = Springs(sites, free="Li")
    with pytest.raises(SimulatorError, match="Mostly Li moves: where that is"):
        CrystalSimulation(mobile, sites, protocol, tmp_path / "mobile", "mobile").run(no_report)


def test_atoms_that_fly_apart_and_forces_that_are_no_numbers_end_by_name(tmp_path: Path) -> None:
    sites = copper()
    protocol = CrystalProtocol(300, 5.0, equilibration_chunks=0, production_chunks=20, replicas=1)
    stiff = Springs(sites, stiffness=6000.0)  # a period of 0.7 steps
    for potential, words in ((stiff, "the atoms reached .* K at 300 K"), (Broken([]), "no finite number")):
        with pytest.raises(SimulatorError, match=words) as caught:
            CrystalSimulation(potential, sites, protocol, tmp_path / words[:5], "hot").run(no_report)
        assert (caught.value.outcome, caught.value.reason) == ("unstable", "exploded")


def test_a_time_step_that_heats_the_crystal_is_named(tmp_path: Path) -> None:
    sites = copper()
    protocol = CrystalProtocol(300, 5.0, equilibration_chunks=4, production_chunks=20, replicas=2, friction=5.0)
    stiff = Springs(sites, stiffness=900.0)  # a period of 1.9 times the step's pi
    with pytest.raises(SimulatorError, match="instead of 300 K: take a shorter time step"):
        CrystalSimulation(stiff, sites, protocol, tmp_path, "stiff").run(no_report)


class JobDiedError(Exception):
    """The end of a job in the middle of a chunk."""


def dying_after(chunks: float) -> Callable[[float, float, str], None]:
    def report(done: float, of: float, text: str) -> None:
        if done > chunks:
            raise JobDiedError

    return report


@pytest.mark.parametrize("name", ["springs", "emt"])
def test_a_run_that_died_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    """The forces of springs are pure; EMT adds them up in an order that depends on when it listed the neighbours."""

    def simulation(folder: str) -> CrystalSimulation:
        protocol = CrystalProtocol(300, 5.0, 1, 3, replicas=1, steps=10, frame_every=5)
        potential = Springs(copper()) if name == "springs" else emt()
        return CrystalSimulation(potential, copper(), protocol, tmp_path / folder, "copper")

    whole = simulation("whole").chain(0)
    whole.run()
    with pytest.raises(JobDiedError):
        simulation("died").chain(0).run(dying_after(2.5))
    resumed = simulation("died").chain(0)
    assert resumed.resume() == 2, "the start and the first chunk"
    resumed.run()
    if name == "springs":
        assert resumed.path(4).read_bytes() == whole.path(4).read_bytes()
    for what, digits in (("end_positions", 1e-9), ("end_velocities", 1e-9), ("temperature", 1e-6)):
        assert loaded_array(resumed.read(4), what) == pytest.approx(loaded_array(whole.read(4), what), abs=digits)
    record = simulation("whole").record(whole)
    assert record.paths.shape == (6, 32, 3) and record.kept.tolist() == [1.0] * 6
    velocities = loaded_array(whole.read(0), "end_velocities")
    energy = 0.5 * np.sum(copper().get_masses()[:, None] * velocities**2)
    assert energy == pytest.approx(3 * 32 * KELVIN * 300, rel=0.35), "twice the kinetic energy of 300 K"


def test_it_ends_before_a_chunk_that_would_not_end_in_time(tmp_path: Path) -> None:
    protocol = CrystalProtocol(300, 5.0, 1, 3, replicas=1, steps=10, frame_every=5)
    simulation = CrystalSimulation(Springs(copper()), copper(), protocol, tmp_path, "copper")
    with pytest.raises(SimulatorError, match="a later run goes on") as caught:
        simulation.run(no_report, deadline=time.monotonic())
    assert (caught.value.outcome, caught.value.reason) == ("timeout", "wall_limit")


def test_supercells_are_wide_and_as_small_as_they_can_be() -> None:
    from ase.build import bulk

    primitive = bulk("Si", "diamond", a=5.43)
    conventional = bulk("Si", "diamond", a=5.43, cubic=True)
    assert repeats(conventional.cell.array, 10) == (2, 2, 2) and repeats(primitive.cell.array, 10) == (4, 4, 4)
    assert len(supercell([primitive, conventional], 10)) == 64
    assert len(supercell([primitive, conventional], 6)) == 16, "2 x 2 x 2 primitive cells, 6.27 angstrom wide"
    assert repeats(conventional.cell.array, 5.43) == (1, 1, 1)


def test_neighbours_of_silicon_and_of_salt() -> None:
    from ase.build import bulk

    silicon = bulk("Si", "diamond", a=5.43, cubic=True).repeat(2)
    pairs = neighbour_pairs(silicon, np.arange(64))
    assert len(pairs.first) == 64 * 4 / 2 and pairs.distances == pytest.approx(5.43 * math.sqrt(3) / 4)
    assert pairs.kept_share(silicon.positions) == 1.0
    moved = silicon.positions.copy()
    moved[0] += 2.4
    assert pairs.kept_share(moved) < 1.0
    fluorine = np.flatnonzero(np.array(salt().get_chemical_symbols()) == "F")
    between = neighbour_pairs(salt(), fluorine)
    assert len(between.first) == 32 * 12 / 2 and set(between.first) <= set(fluorine)


def test_atoms_that_only_vibrate_have_not_left() -> None:
    random = np.random.default_rng(3)
    paths = random.normal(0, 0.3, (200, 5, 3))
    assert atoms_that_left(paths) == 0
    paths[90:, 2] += [1.5, 0, 0]
    assert atoms_that_left(paths) == 1
