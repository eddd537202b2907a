"""The corrections of the Materials Project from 2020 (MP2020), to compare force fields trained with and without them.

A structure without oxidation states would silently get no correction for its anions, so they are guessed from the
composition first.

Source: Wang et al., Sci. Rep. 11, 15496 (2021), doi 10.1038/s41598-021-94550-5; pymatgen's implementation.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sciagent_simulators.potentials.potential import MP2020, UNCORRECTED, Energy, EnergyScale

HUBBARD = {"Co": 3.32, "Cr": 3.7, "Fe": 5.3, "Mn": 3.9, "Mo": 4.38, "Ni": 6.2, "V": 3.25, "W": 6.2}
"""Hubbard U of the Materials Project for oxides and fluorides, in eV."""


def mp2020_correction(structure: Any) -> float:
    """Returns the correction of a pymatgen Structure, in eV per atom, zero for most intermetallics."""
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    composition = structure.composition
    symbols = {element.symbol for element in composition}
    hubbards = {symbol: HUBBARD.get(symbol, 0.0) for symbol in symbols} if symbols & {"O", "F"} else {}
    has_u = any(hubbards.values())
    guesses = composition.oxi_state_guesses(max_sites=-50)
    entry = ComputedStructureEntry(
        structure,
        0.0,
        parameters={"run_type": "GGA+U" if has_u else "GGA", "hubbards": hubbards if has_u else {}, "software": "vasp"},
        data={"oxidation_states": guesses[0] if guesses else {}},
    )
    return float(sum(found.value for found in load().get_adjustments(entry))) / len(structure)


@cache
def load() -> Any:
    """Returns the scheme, loaded once per process; importing it takes seconds."""
    from pymatgen.entries.compatibility import MaterialsProject2020Compatibility

    return MaterialsProject2020Compatibility(check_potcar=False)


def on_mp2020(energy: Energy, structure: Any) -> Energy:
    """Returns the energy with the correction, if its scale lacks it and its functional is the corrected one."""
    scale = energy.scale
    if scale.correction != UNCORRECTED or scale.functional != "PBE+U":
        return energy
    corrected = EnergyScale(scale.model, scale.functional, MP2020)
    return Energy(energy.per_atom + mp2020_correction(structure), corrected)
