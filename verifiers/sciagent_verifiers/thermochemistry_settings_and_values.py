"""The settings and values that the thermochemistry of tight binding and of density functionals have in common."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import (
    ENTHALPY,
    GIBBS_FREE_ENERGY,
    LOWEST_FREQUENCY,
    ZERO_POINT_ENERGY,
    Property,
)
from sciagent.verification.verifier_contract import Finding, Level, PropertyAtLevel, Settings, at
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.tblite_engine import Ion
from sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number import Conditions, thermal
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import (
    LARGEST_LIMIT,
    NormalModes,
    Stationary,
    real_frequencies,
    soft_mode_scatter,
)

HARMONIC = (ZERO_POINT_ENERGY, LOWEST_FREQUENCY)  # their level names no temperature, since they do not depend on it
THERMAL = (ENTHALPY, GIBBS_FREE_ENERGY)


class ThermalSettings(Settings):
    """Temperature, standard state and the treatment of frequencies."""

    temperature: float = Field(298.15, ge=1, le=5000, description="K.")
    pressure: float | None = Field(
        None, gt=0, le=1000, description="Of the gas, atm; default: 1 atm in the gas phase, 1 mol/L in a solvent."
    )
    scale: float = Field(1.0, ge=0.5, le=1.5, description="Factor on all frequencies.")
    imaginary_limit: float = Field(
        50.0,
        ge=0,
        le=LARGEST_LIMIT,
        description="Imaginary frequencies up to this, cm^-1, are taken as real. A molecule with a larger one is "
        "displaced along it and relaxed again; if that does not help, the finding is unstable.",
    )
    symmetry_number: int | None = Field(
        None, ge=1, le=60, description="Rotational symmetry number; default: that of the geometry."
    )
    ion: Ion | None = omitted_if_unset(
        None,
        description="Values of the molecule's `cation` or `anion` instead, relaxed, with one electron less or more and "
        "the lowest possible multiplicity: for redox free energies, as the difference of two rungs.",
    )

    def conditions(self, solvent: str | None) -> Conditions:
        """Returns temperature and standard state. The default is 1 atm in the gas phase, 1 mol/L in a solvent."""
        pressure = self.pressure
        if not pressure and not solvent:
            pressure = 1.0
        return Conditions(self.temperature, pressure)


def harmonic_level(level: Level, settings: ThermalSettings) -> Level:
    """Returns the level of zero-point energy and lowest frequency."""
    scaled = "" if settings.scale == 1.0 else f" x {settings.scale:g}"
    ion = f" {settings.ion}" if settings.ion else ""
    return replace(level, method=f"{level.method}{ion} harmonic{scaled}")


def thermal_level(level: Level, settings: ThermalSettings, solvent: str | None) -> Level:
    """Returns the level of enthalpy and free energy, with temperature and standard state."""
    harmonic = harmonic_level(level, settings)
    return replace(harmonic, method=f"{harmonic.method} ({settings.conditions(solvent).label})")


def thermal_measures(level: Level, settings: ThermalSettings, solvent: str | None) -> tuple[PropertyAtLevel, ...]:
    """Returns the four properties, each at its level."""
    return at(thermal_level(level, settings, solvent), *THERMAL) + at(harmonic_level(level, settings), *HARMONIC)


def thermal_values(
    stationary: Stationary[Any], energy: float, settings: ThermalSettings, solvent: str | None
) -> tuple[Mapping[Property, float | None], dict[str, Any], str]:
    """Returns the values in canonical units, diagnostics, and notes on saddle points and small imaginary frequencies.

    energy: electronic energy, eV, with the solvent's contribution. Raises SimulatorError unstable
    (imaginary_frequency).
    """
    geometry = stationary.geometry
    unscaled, imaginary_note = real_frequencies(
        stationary.modes, geometry, limit=settings.imaginary_limit, tried=stationary.tried
    )
    note = "; ".join(part for part in (stationary.tried, imaginary_note) if part)
    frequencies = unscaled * settings.scale
    conditions = settings.conditions(solvent)
    thermal_functions = thermal(geometry, frequencies, conditions, symmetry=settings.symmetry_number)
    values = {
        ZERO_POINT_ENERGY: thermal_functions.zero_point,
        ENTHALPY: energy + thermal_functions.enthalpy,
        GIBBS_FREE_ENERGY: energy + thermal_functions.gibbs(conditions.temperature),
        LOWEST_FREQUENCY: float(frequencies.min()) if frequencies.size else None,
    }
    diagnostics = {
        "electronic_energy": energy,
        "frequencies": [round(float(f), 2) for f in frequencies],
        "symmetry_number": thermal_functions.symmetry,
        "entropy": thermal_functions.entropy,
        "harmonic_entropy": thermal_functions.harmonic_entropy,
        "conditions": conditions.label,
    }
    return values, diagnostics, note


def soft_mode_spread(facts: Mapping[str, Any], settings: ThermalSettings) -> Mapping[Property, float]:
    """Returns what the noise of soft modes adds to each standard uncertainty.

    facts: diagnostics of `thermal_values`."""
    scatter = soft_mode_scatter(np.array(facts["frequencies"]), settings.temperature)
    return {
        ZERO_POINT_ENERGY: scatter.zero_point,
        ENTHALPY: scatter.enthalpy,
        GIBBS_FREE_ENERGY: scatter.gibbs,
        LOWEST_FREQUENCY: scatter.lowest or 0.0,  # an atom has none
    }


def with_frequencies(finding: Finding, folder: Path, geometry: Geometry, modes: NormalModes, scale: float) -> Finding:
    """Returns the finding with a CSV file of the modes: number, frequency (cm^-1, negative if imaginary), atoms."""
    file = folder / f"{finding.candidate_key[:16]}-frequencies.csv"
    symbols = list(geometry.atoms.symbols)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("mode", "frequency_cm^-1", "mainly_moving"))
        for k, frequency in enumerate(modes.frequencies * scale):
            _, _, atoms_and_parenthesis = modes.described(k, symbols).partition("mainly ")
            atoms = atoms_and_parenthesis.removesuffix(")")
            writer.writerow((k + 1, f"{frequency:.2f}", atoms))
    return replace(finding, artifacts=(*finding.artifacts, ArtifactFile(file.name, str(file), "text/csv")))
