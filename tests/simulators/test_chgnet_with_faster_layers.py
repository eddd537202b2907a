from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk

from sciagent_simulators.potentials.potential_base_and_registry import load_potential
from sciagent_simulators.potentials.relax_and_equation_of_state import evaluate, relax


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def cells() -> list[Any]:
    made = [
        bulk("Si", a=5.3),
        bulk("NaCl", "rocksalt", a=5.8),
        bulk("MgO", "rocksalt", a=4.15, cubic=True),
        bulk("Cu", a=3.7),
        bulk("CsCl", "cesiumchloride", a=4.2),
    ]
    for seed, atoms in enumerate(made):
        atoms.rattle(0.05, seed=seed)
    symmetric = [bulk("NaCl", "rocksalt", a=5.8, cubic=True), bulk("Ti", "hcp", a=2.9)]
    one_displaced = symmetric[0].copy()
    one_displaced.positions[0, 0] += 0.2
    return [*made, *symmetric, one_displaced]


def test_a_batch_gives_the_numbers_of_chgnets_own_calculator() -> None:
    from chgnet.model import CHGNetCalculator

    potential: Any = load_potential("chgnet-0.3.0")
    calculator = CHGNetCalculator(potential.model, use_device="cpu")
    for atoms, found in zip(cells(), evaluate(potential, cells()), strict=True):
        atoms.calc = calculator
        assert found.energy == pytest.approx(atoms.get_potential_energy(), abs=1e-4 * len(atoms))
        assert np.abs(found.forces - atoms.get_forces()).max() < 1e-3
        assert np.abs(found.stress - atoms.get_stress(voigt=False)).max() < 1e-5


def test_a_crystal_relaxes_alone_as_among_31_others() -> None:
    potential = load_potential("chgnet-0.3.0")
    batch = cells()[1:2] + [bulk("NaCl", "rocksalt", a=5.4 + 0.02 * n) for n in range(31)]
    together, alone = relax(potential, batch)[0], relax(potential, batch[:1])[0]
    assert together.energy_per_atom == pytest.approx(alone.energy_per_atom, abs=1e-4)
    assert np.abs(together.last.forces - alone.last.forces).max() < 1e-3
    assert together.atoms.cell.volume == pytest.approx(alone.atoms.cell.volume, rel=1e-4)


def test_an_atom_without_neighbours_has_an_energy() -> None:
    found = evaluate(load_potential("chgnet-0.3.0"), [bulk("Ar", "sc", a=9.0), bulk("Si")])
    assert all(one.is_finite for one in found)
    assert np.abs(found[0].forces).max() == 0


def test_loading_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    load_potential.cache_clear()
    load_potential("chgnet-0.3.0")
    assert capsys.readouterr().out == ""
