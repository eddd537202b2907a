"""Comparison of GFN1-xTB and GFN2-xTB on the same geometry, as a measure of uncertainty.

The two methods are similar and are fitted to different data. They share part of their errors, so agreement does not
prove that a value is right.

- Dipoles and free energies of solvation are comparable. Their difference is added to the repeatability in quadrature.
  On average it is as large as the error against experiment (dipoles: root mean square 0.53 D and 0.50 D, 46 molecules;
  hydration: 1.3 and 1.6 kcal/mol for GFN1-xTB). It says less about a single molecule: the mean error of GFN2 dipoles is
  0.26 D for differences below the usual and 0.46 D above. The error of the GFN1-xTB hydration free energy is the same
  for differences of 0.5 and 2 kcal/mol, and half as much again beyond.
- Orbital energies are not comparable: those of GFN1 lie about 1 eV lower. A line predicts the GFN1 value from the GFN2
  value. The diagnostics give the deviation in standard deviations: beyond 3, the molecule is unlike those of the fit.
  The deviation enters no uncertainty. For LUMOs above -3 eV in GFN2 (saturated molecules) the line does not hold.

Figures: benchmarks/numbers/xtb_second_opinion.json and xtb_solvation.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sciagent.domain.properties import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, Property
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.tblite_engine import single_point

GfnMethod = Literal["GFN2-xTB", "GFN1-xTB"]
OTHER: dict[GfnMethod, GfnMethod] = {"GFN2-xTB": "GFN1-xTB", "GFN1-xTB": "GFN2-xTB"}


# Lines y = slope x + intercept, eV, and the standard deviation of y about each: (slope, intercept, residual).
# y: GFN1-xTB, x: GFN2-xTB; fitted by benchmarks/numbers/xtb_second_opinion.py
LINES: dict[Property, tuple[float, float, float]] = {
    HOMO: (1.015, -0.841, 0.284),
    LUMO: (0.948, -1.062, 0.435),
    HOMO_LUMO_GAP: (0.958, 0.433, 0.385),
}
HIGHEST_LUMO = -3.0  # eV, in GFN2-xTB; the lines of LUMO and gap hold below it


def second_opinion(
    geometry: Geometry, method: GfnMethod, first: Mapping[Property, float | None], solvation: Solvation | None = None
) -> tuple[dict[str, Any], dict[Property, float]]:
    """Returns diagnostics and further standard uncertainties of comparable properties; none if the method fails.

    first: the values by `method`."""
    other = OTHER[method]
    try:
        result = single_point(geometry, other, solvation=solvation)
    except SimulatorError as error:
        return {"method": other, "failed": str(error.reason)}, {}
    details: dict[str, Any] = {"method": other, DIPOLE.name: result.dipole}
    low = (first.get(LUMO) if method == "GFN2-xTB" else result.lumo) or 0.0
    for prop, second in ((HOMO, result.homo), (LUMO, result.lumo), (HOMO_LUMO_GAP, result.gap)):
        value = first.get(prop)
        if value is None or second is None:
            continue
        x, y = (value, second) if method == "GFN2-xTB" else (second, value)
        details[prop.name] = second
        if prop == HOMO or low < HIGHEST_LUMO:
            slope, intercept, residual = LINES[prop]
            details[f"{prop.name}_deviations"] = round((y - slope * x - intercept) / residual, 2)
    dipole = first.get(DIPOLE)
    return details, {} if dipole is None else {DIPOLE: abs(dipole - result.dipole)}
