"""Ionisation energies and electron affinities as differences of total energies of extended tight binding (delta SCC).

IPEA1-xTB is GFN1-xTB refitted to vertical ionisation energies and electron affinities, with diffuse s functions on the
light main group elements. `xtb --vipea` uses it by default and lowers both results by 4.8455 eV: 0.178069 hartree, the
`ipeashift` of param_ipea-xtb.txt. This empirical constant brings differences of tight-binding energies to the scale of
experiment. The sources of xtb have the same number for GFN1 and GFN2 and use it under `--gfn 2 --vipea`.

Sources: IPEA1: Ásgeirsson, Bauer, Grimme, Chem. Sci. 8, 4879 (2017). Shift: xtb 6.5.1, /usr/share/xtb, and
https://xtb-docs.readthedocs.io/en/latest/sp.html.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import Geometry, check_bonds, failure
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.tblite_engine import HARTREE, Method, relax, single_point

SHIFT = 0.178069 * HARTREE  # eV
ELECTRONS: dict[str, int] = {"cation": 1, "anion": -1}  # charge of the ion minus charge of the molecule
TOLERANCE = 0.3  # eV; see `check_relaxation`
DISSOCIATED = {"cation": Reason.CATION_DISSOCIATED, "anion": Reason.ANION_DISSOCIATED}

Ion = Literal["cation", "anion"]


def ionised(geometry: Geometry, ion: Ion) -> Geometry:
    """Returns the same positions with one electron less (cation) or more (anion), at the lowest possible multiplicity.

    A closed shell becomes a doublet, a doublet a singlet, a triplet a doublet. Extended tight binding has no exchange
    between unpaired electrons, so higher multiplicities are never lower in energy here.
    """
    multiplicity = 2 if geometry.multiplicity == 1 else geometry.multiplicity - 1
    return replace(geometry, charge=geometry.charge + ELECTRONS[ion], multiplicity=multiplicity)


def difference(
    neutral: Geometry, charged: Geometry, ion: Ion, method: Method = "IPEA1-xTB", solvation: Solvation | None = None
) -> tuple[float, str]:
    """Returns E(cation) - E for a cation or E - E(anion) for an anion, minus SHIFT, eV, and the ion's recovery step.

    Equal geometries give a vertical energy. Raises SimulatorError as `single_point` does, and refused (missing_basis)
    if the valence basis is full: for the anion of helium tblite drops the extra electron without an error.
    """
    start = single_point(neutral, method, solvation=solvation)
    if ion == "anion" and neutral.multiplicity == 1 and start.lumo is None:
        raise failure(Reason.MISSING_BASIS, f"{method} has no empty orbital for another electron")
    end = single_point(charged, method, solvation=solvation)
    return ELECTRONS[ion] * (end.energy - start.energy) - SHIFT, end.recovery


def relaxed(charged: Geometry, ion: Ion, bonds: list[tuple[int, int]], solvation: Solvation | None = None) -> Geometry:
    """Returns the ion relaxed in GFN2-xTB, with the bonds of the neutral molecule.

    IPEA1-xTB is not made for structures. Raises SimulatorError as `relax` does, and unstable (cation_dissociated,
    anion_dissociated) if a bond broke or formed.
    """
    geometry, _ = relax(charged, solvation=solvation)
    check_bonds(geometry, bonds, DISSOCIATED[ion], f"the {ion}, relaxed in GFN2-xTB, is another species: ")
    return geometry


def check_relaxation(ion: Ion, vertical: float, adiabatic: float) -> None:
    """Checks that the adiabatic ionisation energy is not above the vertical, or the adiabatic affinity not below.

    The relaxation is by GFN2-xTB and the energies may be by IPEA1-xTB, so TOLERANCE is allowed. Beyond it the two
    methods place the charge differently (mostly in unbound anions). Raises SimulatorError implausible
    (implausible_value).
    """
    if ELECTRONS[ion] * (adiabatic - vertical) > TOLERANCE:
        raise failure(
            Reason.IMPLAUSIBLE_VALUE,
            f"the {ion} relaxed in GFN2-xTB lies {abs(adiabatic - vertical):.2f} eV above the one at the neutral's "
            f"geometry (vertical {vertical:.2f}, adiabatic {adiabatic:.2f} eV): take the vertical value alone",
            vertical=vertical,
            adiabatic=adiabatic,
        )
