"""Recorded molecules, labels and energies of force fields; benchmarks/force_fields says how they were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openmm

from benchmarks.force_fields.molecules import mapped_molecule
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, SimulationBox, Term, build

FOLDER = Path(__file__).parents[1] / "simulators" / "force_fields"


@dataclass(frozen=True, eq=False)
class Recorded:
    """A molecule with what another program says of it."""

    kind: str
    molecule: Any
    """RDKit molecule."""
    positions: np.ndarray
    """n x 3, angstrom."""
    charges: list[float]
    energies: dict[str, float]
    """By term, in the unit of the record."""
    labels: dict[str, list[list[Any]]]
    """By section, each as atoms and an id; empty for GAFF2."""


def recorded(name: str) -> dict[str, Recorded]:
    """Returns the molecules of a record, by their kind."""
    rows = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["molecules"]
    found = {}
    for row in rows:
        molecule = mapped_molecule(row["mapped_smiles"])
        positions = np.array(row["positions"])
        found[row["kind"]] = Recorded(
            row["kind"], molecule, positions, row["charges"], row["energies"], row.get("labels", {})
        )
    return found


def context_of(box: SimulationBox, positions: np.ndarray) -> openmm.Context:
    """Returns a context of OpenMM's Reference platform. positions: N x 3, nm."""
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(box.system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(positions)
    return context


def energies_of(context: openmm.Context) -> dict[str, float]:
    """Returns the energy of each term, kJ/mol."""
    found = {}
    for term in Term:
        state = context.getState(getEnergy=True, groups={int(term)})
        found[term.name.lower()] = state.getPotentialEnergy()._value
    return found


def alone(parameters: MoleculeParameters, positions: np.ndarray) -> dict[str, float]:
    """Returns the energies of an isolated molecule without constraints. positions: n x 3, angstrom."""
    box = build([Portion(parameters.flexible(), 1)], None)
    return energies_of(context_of(box, positions / 10))
