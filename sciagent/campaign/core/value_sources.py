"""The computations behind the values of quantities: values of different ones never share a law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltRung
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.rung_calibration_on_measurements import Fits
from sciagent.errors import UsageError
from sciagent.store.campaign_state.campaigns import RungRow


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

    @property
    def computation(self) -> Computation:
        """The verifier with its version and settings, without formula and calibration."""
        return Computation(self.verifier, self.version, self.settings_hash)

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
    return _source(rung.verifier.computation, derived, rung.fits, name)


def _source(computation: Computation, derived: str | None, fits: Fits, name: str) -> ValueSource:
    """Returns the source of a property. derived: its settings hash. fits: of the rung's values to measured ones."""
    fit = fits.get(name)
    return ValueSource(*computation, derived, None if fit is None else repr(fit))


def stored_sources(ladder: Sequence[RungRow]) -> dict[str, ValueSource]:
    """Returns what `sources_of` does, from the rows of a ladder, whose verifiers need not be installed."""
    sources = {}
    for rung in ladder:
        for name in rung.decides:
            sources[name] = _source(rung.computation, rung.derived.get(name), rung.fits, name)
    return sources


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
