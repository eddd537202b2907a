"""The verifier `lab.measurement`: quantities that a person measures on a sample.

`LAB_PROPERTIES` are properties that are mostly measured. Units that no factor converts (°C, wavelengths, logarithms)
have a conversion there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import Field, field_validator

from sciagent.chemistry.mass_concentrations import to_canonical_by_mass, units_for
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.lab_messages_and_codes import AskedQuantity, LabAnswer, LabForm
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.properties_and_levels import DENSITY, Level, Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import check_possible
from sciagent.domain.units import CELSIUS_TO_KELVIN, Conversion, logarithm_of, wavelength_of
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification.verifier_contract import ANY_KIND, Finding, ReferenceFile, Settings, WorldVerifier

MAX_QUANTITIES = 20


class LabMeasurementSettings(Settings):
    """What is measured, and everything that changes the number."""

    quantities: tuple[str, ...] = Field(
        min_length=1, max_length=MAX_QUANTITIES, description="Names of the properties that are measured."
    )
    method: str = Field(min_length=1, max_length=200, description="Method of measurement, such as shake-flask HPLC-UV.")
    conditions: dict[str, str] = Field(
        default_factory=dict, max_length=20, description="What is kept constant, such as {temperature: 25 °C, pH: 7.4}."
    )
    protocol: ReferenceFile | None = Field(None, description="The protocol; its content enters the identity.")

    @field_validator("quantities")
    @classmethod
    def _registered(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = properties()
        for name in names:
            if name not in known:
                raise ValueError(f'"{name}" is no property{did_you_mean(name, known)}')
            if names.count(name) > 1:
                raise ValueError(f'"{name}" is named twice')
        return names

    @field_validator("conditions", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """Turns numbers, such as that of `pH: 7.4`, into text."""
        if not isinstance(given, Mapping):
            return given
        return {key: str(value) if isinstance(value, int | float) else value for key, value in given.items()}


class LabMeasurement(WorldVerifier[Candidate]):
    """Quantities that a person measures. The level is the method with its conditions."""

    name = "lab.measurement"
    version = "1"
    kind = ANY_KIND
    Settings = LabMeasurementSettings
    settings: LabMeasurementSettings

    @cached_property
    def level(self) -> Level:
        """The level of all values."""
        stated = "; ".join(f"{key} {value}" for key, value in sorted(self.settings.conditions.items()))
        return Level(self.settings.method, conditions=stated)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, *self._quantities)

    @property
    def _quantities(self) -> tuple[Property, ...]:
        return tuple(properties()[name] for name in self.settings.quantities)

    def form(self, candidate: Candidate) -> LabForm:
        settings = self.settings
        asks = tuple(AskedQuantity(prop, units_for(candidate, prop)) for prop in self._quantities)
        protocol = settings.protocol.name if settings.protocol else ""
        return LabForm(asks, settings.method, conditions=settings.conditions, protocol=protocol)

    def read(self, candidate: Candidate, answer: LabAnswer) -> Finding:
        if answer.not_obtained is not None:
            return Finding(candidate.key, Outcome.NOT_OBTAINED, reason=answer.not_obtained)
        asked = {prop.name: prop for prop in self._quantities}
        for name in (*answer.values, *answer.reasons):
            if name not in asked:
                raise UsageError(f'"{name}" is not asked for{did_you_mean(name, asked)}; asked: {", ".join(asked)}')
        # in the order in which the quantities are asked for
        unobtained = {name: answer.reasons[name] for name in asked if name in answer.reasons}
        detail = "; ".join(f"{name} not obtained: {reason}" for name, reason in unobtained.items())
        if not answer.values:
            first_reason = next(iter(unobtained.values()), None)
            return Finding(candidate.key, Outcome.NOT_OBTAINED, reason=first_reason, detail=detail)
        measured = []
        for name, quantity in answer.values.items():
            converted = to_canonical_by_mass(quantity, asked[name], candidate)
            check_possible(converted, asked[name])
            measured.append(Measured(name, self.level, converted))
        return Finding(candidate.key, Outcome.OK, tuple(measured), detail=detail, unobtained=unobtained)


# units of properties, the first one canonical
_TEMPERATURE = ("K", "degC")
_PERCENT = ("%", "1")
_MOLAR = ("mol/L", "mmol/L", "umol/L", "nmol/L")
_ACTIVITY = ("1", "mol/L", "mmol/L", "umol/L", "nmol/L")
# conversions from concentrations to their logarithms
_LOG_CONVERSIONS = (
    logarithm_of("mol/L", factor=1.0, sign=1),
    logarithm_of("mmol/L", factor=1e-3, sign=1),
    logarithm_of("umol/L", factor=1e-6, sign=1),
)
_NEGATIVE_LOG_CONVERSIONS = (
    logarithm_of("mol/L", factor=1.0, sign=-1),
    logarithm_of("mmol/L", factor=1e-3, sign=-1),
    logarithm_of("umol/L", factor=1e-6, sign=-1),
    logarithm_of("nmol/L", factor=1e-9, sign=-1),
)


def _temperature(name: str, description: str, usual: tuple[float, float]) -> Property:
    """Returns a property that is a temperature. usual: range of organic compounds, in K."""
    return Property(name, _TEMPERATURE, description, low=1, high=4000, conversions=(CELSIUS_TO_KELVIN,), usual=usual)


def _activity(name: str, what: str) -> Property:
    """Returns a property such as pIC50. what: the concentration whose negative logarithm it is."""
    description = f"negative decimal logarithm of {what} in mol/L"
    return Property(name, _ACTIVITY, description, low=-2, high=18, conversions=_NEGATIVE_LOG_CONVERSIONS, usual=(1, 13))


def _band(name: str, description: str) -> Property:
    """Returns a property that is the wavelength of a band; it may be entered as an energy."""
    conversions: tuple[Conversion, ...] = (wavelength_of("eV"),)
    return Property(name, ("nm", "eV"), description, low=100, high=20_000, conversions=conversions, usual=(150, 2500))


# the usual ranges are wide on purpose: a typing error or a wrong unit falls outside, a rare compound hardly ever
LAB_PROPERTIES: Sequence[Property] = (
    Property("solubility", _MOLAR, "amount that dissolves, at the conditions of the level", low=0, high=60,
             usual=(0, 20)),
    Property("mass_solubility", ("g/L", "mg/mL", "mg/L", "ug/mL"), "mass that dissolves", low=0, high=5000,
             usual=(0, 2000)),
    Property("log_molar_solubility", ("1", *_MOLAR[:3]), "decimal logarithm of a solubility in mol/L", low=-15, high=2,
             conversions=_LOG_CONVERSIONS, usual=(-12, 1.3)),
    Property("pka", ("1",), "negative decimal logarithm of the acid dissociation constant", low=-20, high=60,
             usual=(-12, 40)),
    Property("logd", ("1",), "decimal logarithm of the distribution coefficient, at a pH", low=-15, high=20,
             usual=(-8, 10)),
    Property("measured_logp", ("1",), "decimal logarithm of the octanol-water partition coefficient", low=-15, high=20,
             usual=(-6, 12)),
    _band("absorption_maximum", "wavelength of the absorption maximum of lowest energy"),
    _band("emission_maximum", "wavelength of the emission maximum"),
    Property("optical_gap", ("eV", "nm"), "onset of absorption", low=0, high=20, conversions=(wavelength_of("nm"),),
             usual=(0.3, 10)),
    Property("quantum_yield", ("1", "%"), "photons emitted for each one absorbed", low=0, high=2, usual=(0, 1)),
    Property("fluorescence_lifetime", ("ns", "ps", "us"), "decay time of the emission", low=0, high=1e9,
             usual=(0, 1e6)),
    Property("molar_absorptivity", ("L/mol/cm", "m^2/mol"), "absorptivity at the maximum", low=0, high=1e7,
             usual=(0, 1e6)),
    _temperature("melting_point", "melting point", usual=(100, 1000)),
    _temperature("boiling_point", "boiling point, at the pressure of the level", usual=(150, 1000)),
    _temperature("decomposition_temperature", "onset of decomposition", usual=(250, 1500)),
    _temperature("glass_transition_temperature", "glass transition", usual=(100, 800)),
    Property("purity", _PERCENT, "share of the compound in the sample, by the method of the level", low=0, high=100),
    Property("enantiomeric_excess", _PERCENT, "excess of one enantiomer", low=0, high=100),
    Property("water_content", _PERCENT, "mass fraction of water", low=0, high=100),
    _activity("pic50", "the half-maximal inhibitory concentration"),
    _activity("pec50", "the half-maximal effective concentration"),
    _activity("pki", "the inhibition constant"),
    DENSITY,
    Property("viscosity", ("mPa*s", "Pa*s"), "dynamic viscosity", low=0, high=1e12),
    Property("refractive_index", ("1",), "refractive index, at the wavelength of the level", low=1, high=5,
             usual=(1.2, 4.2)),
    Property("vapour_pressure", ("Pa", "kPa", "mbar", "mmHg"), "vapour pressure", low=0, high=1e9, usual=(0, 1e6)),
    Property("ionic_conductivity", ("S/m", "mS/cm"), "conductivity of the solution or the solid", low=0, high=1e4,
             usual=(0, 300)),
    Property("expert_grade", ("1",), "grade of an expert, from 0 (worst) to 1 (best)", low=0, high=1),
    Property("enthalpy_of_fusion", ("kJ/mol", "kcal/mol"), "heat of melting", low=0, high=1000, usual=(0.3, 250)),
)  # fmt: skip
