from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk

from sciagent_simulators.potentials.potential_base_and_registry import (
    EnergyScale,
    load_potential,
    potential_factory,
    potential_names,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import evaluate
from sciagent_simulators.potentials.sevennet import SevenNet


@pytest.mark.long  # importing its calculator takes longest
@pytest.mark.parametrize(
    ("name", "model", "head"), [("7net-0", "7net-0", None), ("7net-mf-0-r2scan", "7net-mf-0", "R2SCAN")]
)
def test_a_batch_gives_the_numbers_of_sevennets_own_calculator(name: str, model: str, head: str | None) -> None:
    from sevenn.calculator import SevenNetCalculator

    batch = [bulk("Si"), bulk("NaCl", "rocksalt", a=5.8), bulk("MgO", "rocksalt", a=4.15)]
    calculator = (
        SevenNetCalculator(model, modal=head, device="cpu") if head else SevenNetCalculator(model, device="cpu")
    )
    for seed, atoms in enumerate(batch):
        atoms.rattle(0.05, seed=seed)
    for atoms, found in zip(batch, evaluate(load_potential(name), batch), strict=True):
        atoms.calc = calculator
        assert found.energy == pytest.approx(atoms.get_potential_energy(), abs=1e-4)
        assert np.abs(found.forces - atoms.get_forces()).max() < 1e-3
        assert np.abs(found.stress - atoms.get_stress(voigt=False)).max() < 1e-5


def test_elements_are_those_of_the_model() -> None:
    from ase.data import chemical_symbols

    potential: Any = load_potential("7net-0")
    assert isinstance(potential, SevenNet)
    assert {chemical_symbols[number] for number in potential.model.type_map} == potential_factory("7net-0").elements


def test_every_shipped_name_has_its_weights_in_the_package() -> None:
    """A name without a file would be downloaded at the first use."""
    from pathlib import Path

    from sevenn import util

    shipped = {
        potential_factory(name).make.args[0]
        for name in potential_names()
        if potential_factory(name).package == "sevenn"
    }  # type: ignore[attr-defined]
    assert shipped == {"7net-0", "7net-l3i5", "7net-mf-0"}
    package = Path(util.__file__).parent
    assert all(Path(util.pretrained_name_to_path(name)).is_relative_to(package) for name in shipped)


def test_scales_name_model_and_functional() -> None:
    assert potential_factory("7net-0").scale == EnergyScale("7net-0", "PBE+U", "uncorrected")
    assert potential_factory("7net-mf-0-r2scan").scale.functional == "r2SCAN"
