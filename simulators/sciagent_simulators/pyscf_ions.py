"""Ionisation energy and electron affinity of a molecule as differences of self-consistent energies (delta-SCF).

A vertical energy has both states at the same geometry. An adiabatic energy has the ion relaxed; it is electronic,
without zero-point vibration. For an open-shell molecule both spins of the ion are computed and the lower is taken.

An anion with a higher energy than its molecule is unbound. Its energy then depends on the basis set only, so the
affinity is reported as negative, without a number.

Sources: delta-SCF: Jones, Gunnarsson, Rev. Mod. Phys. 61, 689 (1989). Electron affinities by DFT and the effect of
unbound anions: Rienstra-Kiracofe et al., Chem. Rev. 102, 231 (2002).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, check_bonds, failure, spin_fault
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftResult, DftSettings, ground_state
from sciagent_simulators.pyscf_relax import relax


@dataclass(frozen=True)
class Relaxation:
    """The settings by which an ion is relaxed."""

    fmax: float
    """Largest force on an atom at convergence, eV/angstrom."""
    max_steps: int
    """Largest number of steps."""
    bonds: tuple[tuple[int, int], ...]
    """Pairs of atom indices that must stay bonded."""


@dataclass(frozen=True)
class Ion:
    """An ion of a molecule."""

    energy: float
    """E(ion) - E(molecule), eV."""
    geometry: Geometry
    """The geometry of the ion; the molecule's where the ion was not relaxed."""
    unbound: bool
    """True if the added electron is not bound."""
    diagnostics: dict[str, Any]


def ion(
    geometry: Geometry,
    molecule: DftResult,
    change: int,
    settings: DftSettings,
    relaxation: Relaxation | None = None,
    checkpoint: Path | None = None,
    threads: int = 1,
) -> Ion:
    """Returns the ion with the molecule's charge plus `change` (-1 or 1), vertical, or adiabatic with a relaxation.

    Of two possible multiplicities it has the one with the lower energy.
    geometry: the molecule's. molecule: its result at the same settings. checkpoint: stem of this ion's files.
    Raises SimulatorError as `ground_state` and `relax` do, and unstable (cation_dissociated, anion_dissociated).
    """
    # one unpaired electron fewer, if the molecule has any, and one more
    multiplicities = [m for m in (geometry.multiplicity - 1, geometry.multiplicity + 1) if m > 0]
    ions = [replace(geometry, charge=geometry.charge + change, multiplicity=m) for m in multiplicities]
    states = [state for state in ions if spin_fault(state.electrons, state.multiplicity) is None]
    if not states:
        raise failure(Reason.MULTIPLICITY, f"no electron is left at charge {geometry.charge + change:+d}")
    computed: list[Ion] = []
    problems: list[SimulatorError] = []
    for state in states:
        stem = None
        if checkpoint:
            stem = checkpoint.with_name(f"{checkpoint.name}.{state.charge:+d}.{state.multiplicity}")
        try:
            computed.append(_computed(state, molecule, change, settings, relaxation, stem, threads))
        except SimulatorError as error:
            problems.append(error)
    if not computed:
        raise problems[0]
    return min(computed, key=lambda one: one.energy)


def _computed(
    state: Geometry,
    molecule: DftResult,
    change: int,
    settings: DftSettings,
    relaxation: Relaxation | None,
    stem: Path | None,
    threads: int,
) -> Ion:
    """Returns the ion with the charge and multiplicity of `state`. stem: of its checkpoint files."""
    facts: dict[str, Any] = {"charge": state.charge, "multiplicity": state.multiplicity}
    geometry = state
    if relaxation is not None:
        geometry, relaxation_facts = relax(
            state, settings, fmax=relaxation.fmax, max_steps=relaxation.max_steps, checkpoint=stem, threads=threads
        )
        reason = Reason.CATION_DISSOCIATED if change > 0 else Reason.ANION_DISSOCIATED
        check_bonds(geometry, relaxation.bonds, reason, "relaxed, the ion is another molecule: ")
        facts |= relaxation_facts
    orbital_file = stem.with_suffix(".chk") if stem else None
    _, result = ground_state(geometry, settings, orbital_file, threads)
    energy = result.energy - molecule.energy
    facts["homo"] = result.homo
    facts |= result.diagnostics
    is_anion = change < 0
    is_homo_positive = result.homo > 0
    # In a solvent, which surrounds both states, the higher energy is not enough: the HOMO has to be above zero, too.
    is_unbound = is_anion and energy >= 0 and (settings.solvent is None or is_homo_positive)
    # This fact is a warning sign only: local functionals give even bound anions a HOMO above zero, while the energy
    # difference remains reliable.
    facts["held_by_basis"] = is_anion and is_homo_positive
    return Ion(energy, geometry, is_unbound, facts)
