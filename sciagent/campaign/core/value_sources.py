"""The computations behind the values of quantities: values of different ones never share a law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltRung
from sciagent.errors import UsageError


@dataclass(frozen=True)
class ValueSource:
    """The computation behind the values of a quantity; values of different sources never share a law."""

    verifier: str
    version: str
    settings_hash: str
    derived: str | None = None
    """Settings hash of the derived property; None for a property that the verifier reports."""
    calibration: str | None = None
    """The calibration on measured values that was applied, in words; None without one."""

    def difference(self, other: ValueSource) -> str:
        """Returns in words how another source differs; empty if it does not."""
        if self.verifier != other.verifier:
            return f"by {self.verifier}, not {other.verifier}"
        if self.version != other.version:
            return f"by {self.verifier} in version {self.version}, not {other.version}"
        if self.settings_hash != other.settings_hash:
            return f"by {self.verifier} with other settings"
        if self.derived != other.derived:
            return "by another formula"
        return "with another calibration on measured values" if self != other else ""


def source_of(rung: BuiltRung, name: str) -> ValueSource:
    """Returns the computation behind the values that a rung gives of a property."""
    derived = next((prop.settings_hash for prop in rung.spec.derived if prop.definition.name == name), None)
    fit = rung.fits.get(name)
    calibration = None if fit is None else repr(fit)
    return ValueSource(*rung.verifier.computation, derived, calibration)


def sources_of(rungs: Sequence[BuiltRung]) -> dict[str, ValueSource]:
    """Returns the computation that decides each property of an objective."""
    return {name: source_of(rung, name) for rung in rungs for name in rung.rules.decides}


def refuse_other_level(law: str, remembered: Mapping[str, ValueSource], deciding: Mapping[str, ValueSource]) -> None:
    """Raises UsageError if a law shares no quantity with a campaign, or one from another computation.

    law: its name. remembered: the sources of its quantities. deciding: those of the campaign.
    """
    shared = remembered.keys() & deciding.keys()
    if not shared:
        names = ", ".join(sorted(remembered))
        raise UsageError(f"{law} is a law of {names}: none of them decides an objective of the campaign")
    for name in sorted(shared):
        difference = deciding[name].difference(remembered[name])
        if difference:
            raise UsageError(
                f"the campaign has its {name} {difference}, unlike {law}: values of different levels share no law"
            )
