"""The verifier `lab.measurement`: quantities that a person measures on a sample."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import Field, field_validator

from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import Measured
from sciagent.domain.lab import AskedQuantity, LabAnswer, LabForm
from sciagent.domain.outcomes import Outcome
from sciagent.domain.properties import Level, Property, PropertyAtLevel, at, properties
from sciagent.domain.quantities import check_possible, convert
from sciagent.errors import UsageError, did_you_mean
from sciagent.verification.contract import ANY_KIND, Finding, ReferenceFile, Settings, WorldVerifier

MOST_QUANTITIES = 20


class LabMeasurementSettings(Settings):
    """What is measured, and everything that changes the number."""

    quantities: tuple[str, ...] = Field(
        min_length=1, max_length=MOST_QUANTITIES, description="Names of the properties that are measured."
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
        asks = tuple(AskedQuantity(prop, prop.units) for prop in self._quantities)
        return LabForm(asks, settings.method, settings.conditions, settings.protocol.name if settings.protocol else "")

    def read(self, candidate: Candidate, answer: LabAnswer) -> Finding:
        if answer.not_obtained is not None:
            return Finding(candidate.key, Outcome.NOT_OBTAINED, reason=answer.not_obtained)
        asked = {prop.name: prop for prop in self._quantities}
        for name in answer.values:
            if name not in asked:
                raise UsageError(f'"{name}" is not asked for{did_you_mean(name, asked)}; asked: {", ".join(asked)}')
        if missing := [name for name in asked if name not in answer.values]:
            raise UsageError(f"no value for {', '.join(missing)}; or say why it was not obtained")
        measured = []
        for name, quantity in answer.values.items():
            converted = convert(quantity, asked[name])
            check_possible(converted, asked[name])
            measured.append(Measured(name, self.level, converted))
        return Finding(candidate.key, Outcome.OK, tuple(measured))
