"""SO3LR: a neural network with pairwise long-range forces, trained on PBE0+MBD forces of molecules and complexes.

The weights lie in the wheel of so3krates-torch. What is set here:

- Long-range cut-off 1000 angstrom, as the authors advise in the gas phase. The package's default is 12 angstrom, with a
  Coulomb force that is shifted to end there; the shift acts at bond lengths too. Water's bond angle is then 102.6
  degrees instead of 104.8 (PBE0: 104.8, see the test).
- Double precision. The network was trained in single precision, whose noise (0.01 meV to 0.1 meV) disturbs relaxations.
- The net charge under the key `charge`; the calculator ignores `total_charge` without a word.
- The eight elements of the training data: H, C, N, O, F, P, S, Cl. The package computes all others with random weights.
  The weights show it: the energy scale of an element that was never seen still is 1 exactly (`trained_elements`).

The model was trained on forces, not on energies: energies of two molecules cannot be compared. It knows charged
molecules, too; until their errors were measured they are refused.

Source: Kabylda et al., J. Am. Chem. Soc. 147, 33723 (2025), doi 10.1021/jacs.5c09558, and the README of
https://github.com/general-molecular-simulations/so3lr (cut-off, forces).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ase.data import chemical_symbols

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    Domain,
    MolecularPotentialFactory,
    MolecularValues,
)
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale

LONG_RANGE_CUTOFF = 1000.0
"""Angstrom."""
DEBYE_PER_E_ANGSTROM = 4.803204713
"""1 e angstrom in debye, CODATA 2018."""

DOMAIN = Domain(
    elements=frozenset({"H", "C", "N", "O", "F", "P", "S", "Cl"}),
    charges=frozenset({0}),
    scale=EnergyScale("SO3LR", functional="PBE0+MBD"),
    has_dipole=True,
)


@dataclass(frozen=True)
class So3lr:
    """The loaded model."""

    calculator: Any
    """A SO3LRCalculator in double precision."""
    domain: Domain = DOMAIN

    def evaluate(self, geometry: Geometry) -> MolecularValues:
        atoms = geometry.atoms
        atoms.info["charge"] = geometry.charge
        with double_precision():
            self.calculator.calculate(atoms)
        results = self.calculator.results
        dipole_vector = np.asarray(results["dipole"], dtype=float).reshape(3)
        return MolecularValues(
            energy=float(results["energy"]),
            forces=np.array(results["forces"], dtype=float),
            dipole=float(np.linalg.norm(dipole_vector)) * DEBYE_PER_E_ANGSTROM,
        )

    def trained_elements(self) -> frozenset[str]:
        """Returns the elements whose energy scale the training has changed from its start, 1."""
        [model] = self.calculator.models
        scales = model.atomic_energy_output_block.energy_scales.weight.detach().cpu().numpy().reshape(-1)
        return frozenset(chemical_symbols[index + 1] for index in np.flatnonzero(scales != 1.0))


@contextmanager
def double_precision() -> Iterator[None]:
    """Sets PyTorch's default to double precision for a while, since the package makes its tensors by the default."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _make(weights: Path | None, device: str) -> So3lr:
    """Returns the loaded model. Raises ValueError for a file of weights, or if the package has other weights."""
    if weights is not None:
        raise ValueError("so3lr has the weights of its package; for others take model: file")
    from so3krates_torch.calculator.so3 import SO3LRCalculator

    with double_precision():
        calculator = SO3LRCalculator(r_max_lr=LONG_RANGE_CUTOFF, device=device, default_dtype="float64")
    loaded = So3lr(calculator)
    if loaded.trained_elements() != DOMAIN.elements:
        raise ValueError(f"its weights know {', '.join(sorted(loaded.trained_elements()))}")
    return loaded


SO3LR = MolecularPotentialFactory(
    name="so3lr", make=_make, read_domain=lambda weights: DOMAIN, seconds=0.016, package="so3krates_torch"
)
