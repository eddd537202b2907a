"""Corrections of the Materials Project from 2020 (MP2020), and the scale on which energies of compounds are compared.

The Materials Project computes oxides and fluorides of eight transition metals with a Hubbard U (PBE + U), and all else
by PBE. Energies of the two differ by 1 to 4 eV an atom of the metal, so a formation energy of NiO from raw energies is
wrong by 1.7 eV/atom. MP2020 adds an energy for each such atom and for each anion, fitted to measured formation
enthalpies. A model that learnt raw energies (`uncorrected`, PBE+U) is put on the corrected scale by the same sums,
which depend on composition and on the bonds between anions. Energies of another functional have no such corrections,
so compounds of these metals are not compared with other phases.

A structure without oxidation states would silently get no correction for its anions, so they are guessed from the
composition first.

Source: Wang et al., Sci. Rep. 11, 15496 (2021), doi 10.1038/s41598-021-94550-5; pymatgen's implementation.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from sciagent_simulators.potentials.potential_base_and_registry import MP2020, UNCORRECTED, Energy, EnergyScale

MIXED_FUNCTIONAL = "PBE+U"
"""The functional of models that learnt calculations of the Materials Project, with a Hubbard U and without one."""
HUBBARD_U = {"Co": 3.32, "Cr": 3.7, "Fe": 5.3, "Mn": 3.9, "Mo": 4.38, "Ni": 6.2, "V": 3.25, "W": 6.2}
"""Hubbard U of the Materials Project for oxides and fluorides, in eV."""
ANIONS_WITH_U = frozenset({"O", "F"})
"""Elements whose compounds with a metal of HUBBARD_U are computed with it."""


def metals_with_u(symbols: Collection[str]) -> list[str]:
    """Returns the sorted metals that a compound of these elements has a Hubbard U for; empty for most compounds."""
    return sorted(set(symbols) & set(HUBBARD_U)) if ANIONS_WITH_U & set(symbols) else []


def compared_on(scale: EnergyScale) -> EnergyScale:
    """Returns the scale on which energies of different compounds are compared: MP2020 for raw energies of PBE+U."""
    if scale.correction != UNCORRECTED or scale.functional != MIXED_FUNCTIONAL:
        return scale
    return EnergyScale(scale.model, scale.functional, MP2020)


def comparison_fault(symbols: Collection[str], scale: EnergyScale) -> str | None:
    """Returns why a compound of these elements is not compared with other phases on this scale; None if it can be."""
    metals = metals_with_u(symbols)
    if not metals or compared_on(scale).correction == MP2020:
        return None
    return (
        f"{scale.model} ({scale.label}) has no correction for {', '.join(metals)} in an oxide or fluoride, so that its "
        "formation energy is not comparable"
    )


def on_mp2020(energy: Energy, structure: Any) -> Energy:
    """Returns the energy with the MP2020 correction. An energy that is corrected, or not of PBE+U, is unchanged.

    structure: a pymatgen Structure, or a Composition where only this is known."""
    scale = compared_on(energy.scale)
    if scale == energy.scale:
        return energy
    return Energy(energy.per_atom + mp2020_correction(structure), scale)


def mp2020_correction(structure: Any) -> float:
    """Returns the MP2020 correction of a pymatgen Structure, in eV per atom. It is 0 for most intermetallics.

    Of a Composition, in place of a structure, only the known formulas of peroxides and superoxides count as such."""
    from pymatgen.core import Composition
    from pymatgen.entries.computed_entries import ComputedEntry, ComputedStructureEntry

    is_composition = isinstance(structure, Composition)
    composition = structure if is_composition else structure.composition
    symbols = {element.symbol for element in composition}
    parameters: dict[str, Any] = {"run_type": "GGA", "hubbards": {}, "software": "vasp"}
    if metals_with_u(symbols):
        parameters["run_type"] = "GGA+U"
        parameters["hubbards"] = {symbol: HUBBARD_U.get(symbol, 0.0) for symbol in symbols}
    guesses = composition.oxi_state_guesses(max_sites=-50)  # of the reduced formula, with at most 50 atoms
    data = {"oxidation_states": guesses[0] if guesses else {}}
    make = ComputedEntry if is_composition else ComputedStructureEntry
    entry = make(
        structure, energy=0.0, parameters=parameters, data=data
    )  # the correction does not depend on the energy
    adjustments = load_correction().get_adjustments(entry)
    return float(sum(adjustment.value for adjustment in adjustments) / composition.num_atoms)


@cache
def load_correction() -> Any:
    """Returns pymatgen's correction scheme MP2020, loaded once per process; importing it takes seconds."""
    from pymatgen.entries.compatibility import MaterialsProject2020Compatibility

    return MaterialsProject2020Compatibility(check_potcar=False)
