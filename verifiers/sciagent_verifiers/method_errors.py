"""The one table of the errors of the shipped methods against experiment; each verifier takes its rows from here.

Errors are computed minus reference values. The figures are those of the files named in `source`, which a test compares.
A benchmark that does not compare like with like (vertical values beside adiabatic experiment) has no row.
"""

from __future__ import annotations

from typing import Literal

from sciagent.domain.properties_and_levels import (
    ADIABATIC_EA,
    ADIABATIC_IP,
    DENSITY,
    DIPOLE,
    S1_ENERGY,
    S1_OSCILLATOR_STRENGTH,
    SOLVATION_ENERGY,
    VAPORISATION_ENTHALPY,
    VERTICAL_EA,
    Property,
)
from sciagent.verification.verifier_contract import MethodError

FOLDER = "benchmarks/numbers/"
FREESOLV = "neutral solutes of FreeSolv, in water"
SMALL = "small molecules and radicals"

Figures = tuple[int, float, float, float]
"""Number of values, mean error, mean absolute error and root mean square error."""


def _row(
    prop: Property, method: str, figures: Figures, unit: str, chemistry: str, source: str,
    basis: str = "", phase: str = "gas", reference: str = "experiment",
    charge: Literal["neutral", "ion", "any"] = "neutral",
) -> MethodError:  # fmt: skip
    """Returns a row of the table. chemistry: the molecules of the benchmark. source: file in FOLDER and entry."""
    n, mean_error, mean_absolute_error, root_mean_square = figures
    return MethodError(
        property=prop.name,
        method=method,
        n=n,
        mean_error=mean_error,
        mean_absolute_error=mean_absolute_error,
        unit=unit,
        chemistry=chemistry,
        source=FOLDER + source,
        basis=basis,
        phase=phase,
        reference=reference,
        root_mean_square=root_mean_square,
        charge=charge,
    )


def _hydration(method: str, figures: Figures) -> MethodError:
    """Returns the row of hydration free energies by a method such as `GFN1-xTB+ALPB`."""
    entry = f"xtb_solvation.json: summary of more of FreeSolv: {method.replace('+', ' ')}"
    return _row(SOLVATION_ENERGY, method, figures, "kcal/mol", FREESOLV, entry, phase="water")


XTB_SINGLEPOINT = (
    _row(
        DIPOLE, "GFN2-xTB", (46, 0.294, 0.362, 0.498), "D", "small molecules in the gas phase",
        "xtb_second_opinion.json: dipoles: GFN2-xTB",
    ),
    _row(
        DIPOLE, "GFN1-xTB", (46, 0.468, 0.523, 0.678), "D", "small molecules in the gas phase",
        "xtb_second_opinion.json: dipoles: GFN1-xTB",
    ),
)  # fmt: skip

XTB_IP_EA = tuple(
    _row(prop, method, figures, "eV", chemistry, f"xtb_ip_ea.json: summary: {entry}")
    for prop, method, figures, chemistry, entry in (
        (ADIABATIC_IP, "IPEA1-xTB", (30, 0.165, 0.241, 0.359), "organics", "ip IPEA1-xTB adiabatic"),
        (ADIABATIC_IP, "GFN2-xTB", (30, -0.078, 0.305, 0.436), "organics", "ip GFN2-xTB adiabatic"),
        (ADIABATIC_EA, "IPEA1-xTB", (15, 0.349, 0.391, 0.456), "acceptors with bound anions", "ea IPEA1-xTB adiabatic"),
        (ADIABATIC_EA, "GFN2-xTB", (15, 0.212, 0.340, 0.437), "acceptors with bound anions", "ea GFN2-xTB adiabatic"),
        (VERTICAL_EA, "IPEA1-xTB", (8, -0.149, 0.352, 0.407), "unbound anions", "resonance IPEA1-xTB vertical"),
        (VERTICAL_EA, "GFN2-xTB", (8, -0.871, 0.871, 0.993), "unbound anions", "resonance GFN2-xTB vertical"),
    )
)

XTB_SOLVATION = (
    _hydration("GFN1-xTB+ALPB", (516, -0.181, 1.146, 1.610)),
    _hydration("GFN1-xTB+GBSA", (516, 0.179, 1.123, 1.686)),
    _hydration("GFN2-xTB+ALPB", (516, -0.039, 1.585, 2.092)),
    _hydration("GFN2-xTB+GBSA", (516, 0.036, 1.749, 2.363)),
)

PYSCF_IP_EA = (
    _row(
        ADIABATIC_IP, "PBE0 delta-SCF", (7, 0.021, 0.155, 0.229), "eV", SMALL,
        "pyscf_ip_ea.json: summary adiabatic ip beside adiabatic", basis="def2-SVPD",
    ),
    _row(
        ADIABATIC_EA, "PBE0 delta-SCF", (6, -0.014, 0.193, 0.256), "eV", SMALL,
        "pyscf_ip_ea.json: summary adiabatic ea beside adiabatic", basis="def2-SVPD",
    ),
)  # fmt: skip

PYSCF_SOLVATION = tuple(
    _row(
        SOLVATION_ENERGY, "B3LYP+SMD", figures, "kcal/mol", "small neutral solutes in water", f"{file}.json: summary",
        basis=basis, phase="water", charge="neutral",
    )
    for basis, figures, file in (
        ("def2-SVP", (12, 0.952, 0.952, 1.071), "pyscf_hydration"),
        ("def2-SVPD", (12, 0.387, 0.577, 0.688), "pyscf_hydration_diffuse"),
    )
)  # fmt: skip

PYSCF_TDA = tuple(
    _row(
        prop, f"{name}-CAM-B3LYP", figures, unit, "small chromophores", f"pyscf_tda.json: summary {name} {entry}",
        basis="def2-SVPD", reference="theoretical best estimates (QUEST)",
    )
    for prop, name, figures, unit, entry in (
        (S1_ENERGY, "TDA", (7, 0.309, 0.325, 0.481), "eV", "s1"),
        (S1_ENERGY, "TDDFT", (7, 0.098, 0.198, 0.271), "eV", "s1"),
        (S1_OSCILLATOR_STRENGTH, "TDA", (7, 0.119, 0.119, 0.194), "1", "f"),
        (S1_OSCILLATOR_STRENGTH, "TDDFT", (7, 0.004, 0.011, 0.022), "1", "f"),
    )
)  # fmt: skip

MD_LIQUID = tuple(
    MethodError(
        property=prop.name,
        method=f"{name}/AM1-BCC",
        n=n,
        mean_error=mean_error,
        mean_absolute_error=mean_absolute_error,
        unit=unit,
        chemistry="organic liquids, one a class, at 298 K",
        source=f"benchmarks/md/rows.jsonl: {force_field}",
        phase="liquid",
        root_mean_square=root_mean_square,
        charge="neutral",
    )
    for prop, unit, name, force_field, (n, mean_error, mean_absolute_error, root_mean_square) in (
        (DENSITY, "g/mL", "OpenFF-2.2.1", "openff-2.2.1", (8, -0.00817, 0.0136, 0.0194)),
        (VAPORISATION_ENTHALPY, "kJ/mol", "OpenFF-2.2.1", "openff-2.2.1", (8, 0.842, 3.21, 4.29)),
        (DENSITY, "g/mL", "GAFF2", "gaff2", (8, -0.00781, 0.01999, 0.03264)),
        (VAPORISATION_ENTHALPY, "kJ/mol", "GAFF2", "gaff2", (8, 1.25, 3.78, 4.49)),
    )
)
