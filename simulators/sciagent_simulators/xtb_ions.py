"""Ionisation energies and electron affinities as differences of total energies of extended tight binding (delta SCC).

IPEA1-xTB is GFN1-xTB fitted anew to vertical ionisation energies and electron affinities, with diffuse s functions on
the light main group. It is what `xtb --vipea` runs by default, and both results are lowered by 4.8455 eV:
0.178069 hartree, the `ipeashift` of param_ipea-xtb.txt, an empirical constant that brings differences of tight-binding
energies onto the scale of experiment. The same number stands among the globals of GFN1 and GFN2 in the sources of xtb
and serves under `--gfn 2 --vipea`.

Sources: IPEA1: Ásgeirsson, Bauer, Grimme, Chem. Sci. 8, 4879 (2017). Shift: xtb 6.5.1, /usr/share/xtb, and
https://xtb-docs.readthedocs.io/en/latest/sp.html.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sciagent.domain.outcomes import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry, check_bonds, failure
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.tblite_engine import HARTREE, Method, relax, single_point

SHIFT = 0.178069 * HARTREE  # eV
ELECTRONS: dict[str, int] = {"cation": 1, "anion": -1}  # change of the charge
TOLERANCE = 0.3  # eV
DISSOCIATED = {"cation": Reason.CATION_DISSOCIATED, "anion": Reason.ANION_DISSOCIATED}

Ion = Literal["cation", "anion"]


@dataclass(frozen=True)
class IonResult:
    """energy: eV, ionisation energy or electron affinity, the shift taken off. recovery: as XtbResult's."""

    energy: float
    recovery: str


def ionised(geometry: Geometry, ion: Ion) -> Geometry:
    """The same positions with an electron less or more, at the lowest multiplicity that is a step away.

    A closed shell becomes a doublet, a doublet a singlet, a triplet a doublet. Extended tight binding has no exchange
    between unpaired electrons, so higher multiplicities are never lower here, whatever they are in nature.
    """
    multiplicity = 2 if geometry.multiplicity == 1 else geometry.multiplicity - 1
    return replace(geometry, charge=geometry.charge + ELECTRONS[ion], multiplicity=multiplicity)


def difference(
    neutral: Geometry, charged: Geometry, ion: Ion, method: Method = "IPEA1-xTB", solvation: Solvation | None = None
) -> IonResult:
    """E(cation) - E for a cation, E - E(anion) for an anion, less SHIFT.

    Vertical where both geometries are the same. Raises SimulatorError as `single_point`, and refused (missing_basis)
    where the valence basis is full: tblite leaves the extra electron of helium out and returns helium's energy.
    """
    start = single_point(neutral, method, solvation=solvation)
    if ion == "anion" and neutral.multiplicity == 1 and start.lumo is None:
        raise failure(Reason.MISSING_BASIS, f"{method} has no empty orbital for another electron")
    end = single_point(charged, method, solvation=solvation)
    return IonResult(ELECTRONS[ion] * (end.energy - start.energy) - SHIFT, end.recovery)


def relaxed(charged: Geometry, ion: Ion, bonds: list[tuple[int, int]], solvation: Solvation | None = None) -> Geometry:
    """The ion's own geometry in GFN2-xTB, still bonded as the neutral is.

    IPEA1-xTB is not made for structures. Raises SimulatorError as `relax`, and unstable (cation_dissociated,
    anion_dissociated) where a bond broke or formed.
    """
    geometry, _ = relax(charged, "GFN2-xTB", solvation=solvation)
    try:
        check_bonds(geometry, bonds)
    except SimulatorError as error:
        raise failure(
            DISSOCIATED[ion], f"the {ion}, relaxed in GFN2-xTB, is another species: {error.detail}", **error.diagnostics
        ) from error
    return geometry


def check_relaxation(ion: Ion, vertical: float, adiabatic: float) -> None:
    """Relaxing an ion lowers its energy: no adiabatic ionisation energy lies above the vertical, no affinity below.

    The relaxation is GFN2-xTB's and the energies may be IPEA1-xTB's, so TOLERANCE is granted. Beyond it the two
    methods hold the charge in different places (most anions that do not exist). Raises SimulatorError implausible
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
