"""A rung of the ladder as YAML has it: a verifier with its settings, the gate on its results, its limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from sciagent.campaign.spec.goals import (
    NAME,
    GateSpec,
    Part,
    Positive,
    canonical_window,
    check_unit,
    check_window,
    registered_property,
)
from sciagent.domain import needs
from sciagent.domain.evidence import canonical_json
from sciagent.domain.objectives import Window
from sciagent.domain.tiers import Tier
from sciagent.errors import UnknownNameError, UsageError, did_you_mean
from sciagent.verification.checks import check_measures
from sciagent.verification.contract import Verifier
from sciagent.verification.registry import provider, verifier_class, verifier_names
from sciagent.yaml.faults import Faults, fault

# wall seconds (fast: per candidate) and MB of memory
TIER_LIMITS: dict[Tier, tuple[float, float]] = {
    Tier.FAST: (10.0, 2000.0),
    Tier.SIMULATION: (600.0, 4000.0),
    Tier.HIGH_FIDELITY: (7200.0, 8000.0),
    Tier.WORLD: (7200.0, 2000.0),
}


def default_label(verifier: str) -> str:
    return verifier.replace(".", "_").lower()


def find_verifier(name: object) -> type[Verifier[Any]] | None:
    """The class, or None when there is none or it does not load."""
    try:
        return verifier_class(name) if isinstance(name, str) else None
    except UsageError:
        return None


def _base(info: ValidationInfo) -> Path | None:
    """The folder of the campaign file, where it is known."""
    found = (info.context or {}).get("base")
    return None if found is None else Path(found)


class LimitsSpec(Part):
    """What one verification may use at most; the defaults go by tier."""

    wall_seconds: Positive = Field(
        default_factory=lambda: TIER_LIMITS[Tier.SIMULATION][0],
        description="Seconds on the clock; default: fast 10 (per candidate), simulation 600, high_fidelity 7200.",
    )
    memory_mb: Positive = Field(
        default_factory=lambda: TIER_LIMITS[Tier.SIMULATION][1],
        description="Memory in MB; default: fast 2000, simulation 4000, high_fidelity 8000.",
    )


Amount = Annotated[int, Field(strict=True, ge=1, le=needs.MOST_OTHERS)]


class RungSpec(Part):
    """One step of the ladder."""

    rung: str = Field(
        default_factory=str,
        pattern=NAME,
        description="Label, unique in the ladder; default: the verifier's name with dots as underscores.",
    )
    verifier: str = Field(description="A registered verifier, such as xtb.singlepoint.")
    settings: dict[str, Any] = Field(default_factory=dict, description="Settings of the verifier.")
    gate: dict[str, GateSpec] = Field(default_factory=dict, description="Limits by property the verifier measures.")
    limits: LimitsSpec = Field(default_factory=LimitsSpec, description="Wall time and memory of one verification.")
    resources: dict[str, Amount] = Field(
        default_factory=dict,
        description="What one verification holds while it runs, by name: cores, gpu, a licence; default: one core.",
    )
    on_refusal: Literal["drop", "skip"] = Field(
        default_factory=lambda: "skip",
        description="A candidate the verifier refuses: drop it, or skip the rung; default: drop if fast, else skip.",
    )

    _base: Path | None = PrivateAttr(None)
    _campaign: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def _defaults_by_tier(cls, data: Any) -> Any:
        found = find_verifier(data.get("verifier")) if isinstance(data, dict) else None
        if found is None:
            return data
        wall, memory = TIER_LIMITS[found.tier]
        given = data.get("limits", {})
        limits = {"wall_seconds": wall, "memory_mb": memory, **given} if isinstance(given, dict) else given
        on_refusal = "drop" if found.tier is Tier.FAST else "skip"
        return {"rung": default_label(found.name), "on_refusal": on_refusal, **data, "limits": limits}

    @field_validator("verifier")
    @classmethod
    def _registered(cls, value: str) -> str:
        try:
            verifier_class(value)
        except UnknownNameError:
            names = verifier_names()
            known = f"registered: {', '.join(names) or 'none'}"
            raise fault(f'unknown verifier "{value}"{did_you_mean(value, names)}', known) from None
        except UsageError as error:
            raise fault(str(error)) from None
        if verifier_class(value).subject != "candidate":
            raise fault(f'verifier "{value}" depends on the proposal; a campaign cannot run such a rung yet')
        return value

    @field_validator("settings")
    @classmethod
    def _taken_by_the_verifier(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if (found := find_verifier(info.data.get("verifier"))) is None:
            return value
        try:
            instance = found(value, _base(info))
            canonical_json(instance.settings.model_dump(mode="json"))
            _ = instance.measures
        except ValidationError:
            raise  # pydantic puts our path before the verifier's
        except (UsageError, ValueError, TypeError, LookupError) as error:
            raise fault(f'verifier "{found.name}" does not take these settings: {error}') from None
        return value

    @field_validator("resources")
    @classmethod
    def _can_be_held(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        try:
            needs.check(value)
        except ValueError as error:
            raise fault(str(error)) from None
        found = find_verifier(info.data.get("verifier"))
        if found is not None and found.tier is Tier.FAST and needs.text_of(value) is not None:
            raise fault(f'verifier "{found.name}" is of the fast tier, which has one core and nothing else')
        return value

    @field_validator("gate")
    @classmethod
    def _measured(cls, value: dict[str, GateSpec], info: ValidationInfo) -> dict[str, GateSpec]:
        found, settings = find_verifier(info.data.get("verifier")), info.data.get("settings")
        if found is None or settings is None:
            return value
        measured = sorted({one.property.name for one in found(settings, _base(info)).measures})
        faults = Faults()
        for name, gate in value.items():
            if name not in measured:
                message = f'verifier "{found.name}" does not measure "{name}"{did_you_mean(name, measured)}'
                faults.add((name,), message, f"it measures: {', '.join(measured)}", on_key=True)
                continue
            try:
                prop = registered_property(name)
                check_unit(gate.unit, prop)
            except PydanticCustomError as error:
                faults.take((name,) if gate.unit is None else (name, "unit"), error)
                continue
            if problem := check_window(canonical_window(gate.min, gate.max, gate.unit, name), prop):
                faults.add((name, "min" if gate.min is not None else "max"), problem)
        faults.raise_any()
        return value

    @model_validator(mode="after")
    def _keep_base(self, info: ValidationInfo) -> RungSpec:
        self._base = _base(info)
        return self

    @property
    def label(self) -> str:
        return self.rung

    @property
    def tier(self) -> Tier:
        return verifier_class(self.verifier).tier

    @property
    def holds(self) -> dict[str, int]:
        """What one verification holds, its cores among it."""
        return {needs.CORES: 1} | self.resources

    def belong(self, campaign: str) -> None:
        """Say whose rung it is: evidence that is not reusable is found by that campaign alone."""
        self._campaign = campaign

    def make(self) -> Verifier[Any]:
        """A verifier with these settings."""
        made = verifier_class(self.verifier)(self.settings, self._base)
        made.scope = self._campaign
        return made

    def window_gates(self) -> Mapping[str, Window]:
        """Gates by property, in canonical units: those of the campaign, and those that the settings bring."""
        brought = {name: Window(low, high) for name, (low, high) in self.make().gates.items()}
        return brought | {
            name: canonical_window(gate.min, gate.max, gate.unit, name) for name, gate in self.gate.items()
        }

    @property
    def is_opinion(self) -> bool:
        return verifier_class(self.verifier).opinion

    def measured(self) -> tuple[str, ...]:
        """Names of the properties that the verifier can report."""
        made = self.make()
        check_measures(made, f'verifier "{made.name}" of {provider(made.name)}')
        return tuple(sorted({one.property.name for one in made.measures}))
