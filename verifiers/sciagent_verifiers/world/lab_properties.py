"""Properties that a laboratory measures. Conversions that no factor makes are stated: °C, wavelengths, logarithms."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.domain.properties import DENSITY, Property
from sciagent.domain.units import CELSIUS_TO_KELVIN, Conversion, logarithm_of, wavelength_of

_TEMPERATURE = ("K", "degC")
_PERCENT = ("%", "1")
_MOLAR = ("mol/L", "mmol/L", "umol/L", "nmol/L")
_LOGS = tuple(
    logarithm_of(unit, factor, sign=1) for unit, factor in (("mol/L", 1.0), ("mmol/L", 1e-3), ("umol/L", 1e-6))
)
_ACTIVITY = ("1", "mol/L", "mmol/L", "umol/L", "nmol/L")
_ACTIVITIES = tuple(
    logarithm_of(unit, factor, sign=-1)
    for unit, factor in (("mol/L", 1.0), ("mmol/L", 1e-3), ("umol/L", 1e-6), ("nmol/L", 1e-9))
)


def _temperature(name: str, description: str) -> Property:
    return Property(name, _TEMPERATURE, description, low=1, high=4000, conversions=(CELSIUS_TO_KELVIN,))


def _activity(name: str, what: str) -> Property:
    description = f"negative decimal logarithm of {what} in mol/L"
    return Property(name, _ACTIVITY, description, low=-2, high=18, conversions=_ACTIVITIES)


def _band(name: str, description: str) -> Property:
    conversions: tuple[Conversion, ...] = (wavelength_of("eV"),)
    return Property(name, ("nm", "eV"), description, low=100, high=20_000, conversions=conversions)


LAB_PROPERTIES: Sequence[Property] = (
    Property("solubility", _MOLAR, "amount that dissolves, at the conditions of the level", low=0, high=60),
    Property("mass_solubility", ("g/L", "mg/mL", "mg/L", "ug/mL"), "mass that dissolves", low=0, high=5000),
    Property("log_molar_solubility", ("1", *_MOLAR[:3]), "decimal logarithm of a solubility in mol/L", low=-15, high=2,
             conversions=_LOGS),
    Property("pka", ("1",), "negative decimal logarithm of the acid dissociation constant", low=-20, high=60),
    Property("logd", ("1",), "decimal logarithm of the distribution coefficient, at a pH", low=-15, high=20),
    Property("measured_logp", ("1",), "decimal logarithm of the octanol-water partition coefficient", low=-15, high=20),
    _band("absorption_maximum", "wavelength of the absorption maximum of lowest energy"),
    _band("emission_maximum", "wavelength of the emission maximum"),
    Property("optical_gap", ("eV", "nm"), "onset of absorption", low=0, high=20, conversions=(wavelength_of("nm"),)),
    Property("quantum_yield", ("1", "%"), "photons emitted for each one absorbed", low=0, high=2),
    Property("fluorescence_lifetime", ("ns", "ps", "us"), "decay time of the emission", low=0, high=1e9),
    Property("molar_absorptivity", ("L/mol/cm", "m^2/mol"), "absorptivity at the maximum", low=0, high=1e7),
    _temperature("melting_point", "melting point"),
    _temperature("boiling_point", "boiling point, at the pressure of the level"),
    _temperature("decomposition_temperature", "onset of decomposition"),
    _temperature("glass_transition_temperature", "glass transition"),
    Property("purity", _PERCENT, "share of the compound in the sample, by the method of the level", low=0, high=100),
    Property("enantiomeric_excess", _PERCENT, "excess of one enantiomer", low=0, high=100),
    Property("water_content", _PERCENT, "mass fraction of water", low=0, high=100),
    _activity("pic50", "the half-maximal inhibitory concentration"),
    _activity("pec50", "the half-maximal effective concentration"),
    _activity("pki", "the inhibition constant"),
    DENSITY,
    Property("viscosity", ("mPa*s", "Pa*s"), "dynamic viscosity", low=0, high=1e12),
    Property("refractive_index", ("1",), "refractive index, at the wavelength of the level", low=1, high=5),
    Property("vapour_pressure", ("Pa", "kPa", "mbar", "mmHg"), "vapour pressure", low=0, high=1e9),
    Property("ionic_conductivity", ("S/m", "mS/cm"), "conductivity of the solution or the solid", low=0, high=1e4),
    Property("expert_grade", ("1",), "grade of an expert, from 0 (worst) to 1 (best)", low=0, high=1),
    Property("enthalpy_of_fusion", ("kJ/mol", "kcal/mol"), "heat of melting", low=0, high=1000),
)  # fmt: skip
