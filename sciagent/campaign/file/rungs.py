"""The rungs of a campaign file: each a verifier with its settings, gates on its results, and limits.

A control is a rung that decides nothing; its answers are compared with the rewards of a policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from sciagent.campaign.file.lab_rung import DEFAULT_OPEN_TASKS, LabSpec
from sciagent.campaign.file.objectives_and_budget import (
    CalibrateSpec,
    GateSpec,
    ObjectiveSpec,
    canonical_window,
    check_unit,
    fault_of,
    window_fault,
)
from sciagent.domain import states_and_needs
from sciagent.domain.derived_properties import DerivedProperty, is_derived
from sciagent.domain.evidence_keys_and_pooled_replicates import canonical_json
from sciagent.domain.objectives import Window
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import PropertyAtLevel, properties
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.names_outside_the_file import ModelOf
from sciagent.inputs.yaml_validation import NAME, Faults, Part, fault
from sciagent.scheduling.candidate_pool import WEEKS
from sciagent.verification.verifier_contract import BaseVerifier, Settings
from sciagent.verification.verifier_registry import check_measures, provider, verifier_class

# default limits by tier: wall time in seconds (fast: per candidate) and memory in MB
TIER_LIMITS: dict[Tier, tuple[float, float]] = {
    Tier.FAST: (10.0, 2000.0),
    Tier.SIMULATION: (600.0, 4000.0),
    Tier.HIGH_FIDELITY: (7200.0, 8000.0),
    Tier.WORLD: (7200.0, 2000.0),
}


INLINE_SECONDS = 60.0  # longest default limit of wall time for a rung marked inline, whatever its tier


def default_label(verifier: str) -> str:
    """Returns the label of a rung that states none."""
    return verifier.replace(".", "_").lower()


def find_verifier(name: object) -> type[BaseVerifier[Any]] | None:
    """Returns the verifier class; None if it does not exist or does not load."""
    try:
        return verifier_class(name) if isinstance(name, str) else None
    except UsageError:
        return None


def _settings_model(rung: Mapping[str, Any]) -> type[Settings] | None:
    """Returns the model of the settings of a rung that nobody has validated; None if its verifier is unknown."""
    verifier = find_verifier(rung.get("verifier"))
    return None if verifier is None else verifier.Settings


def charges_of(ladder: Iterable[RungSpec]) -> tuple[int, ...]:
    """Returns the charges that the last `molecule.checks` of a ladder allows; without such a rung, charge 0 alone."""
    checks: list[Any] = [rung.configured.settings for rung in ladder if rung.verifier == "molecule.checks"]
    return tuple(checks[-1].charges) if checks else (0,)


class LimitsSpec(Part):
    """The most that one verification may use; the defaults depend on the tier."""

    wall_seconds: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1e9)] = Field(
        default_factory=lambda: TIER_LIMITS[Tier.SIMULATION][0],
        description="Elapsed seconds; default: fast 10 (per candidate), simulation 600, high_fidelity 7200; 60 if the "
        "rung is inline.",
    )
    memory_mb: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=1e9)] = Field(
        default_factory=lambda: TIER_LIMITS[Tier.SIMULATION][1],
        description="Memory in MB; default: fast 2000, simulation 4000, high_fidelity 8000.",
    )
    stall_seconds: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1e9)] | None = Field(
        default=None,
        description="Longest time without a report of progress, after which the verification ends as stalled; default: "
        "that of the verifier, if it reports progress.",
    )


Amount = Annotated[int, Field(strict=True, ge=1, le=states_and_needs.MOST_OTHERS)]
"""A number of cores, GPUs or other resources; `states` holds the rules on resources of a job."""


class _SettingsWithVerifier(dict[str, Any]):
    """Settings as in the file, with the verifier built from them, so that each rung builds its verifier only once."""

    verifier: BaseVerifier[Any] | None = None


def _require_measures(verifier: BaseVerifier[Any]) -> None:
    """Raises an error if the settings of the verifier do not fit its properties."""
    _ = verifier.measures  # computed from the settings


def _setting_that_hides(
    name: str, settings: Mapping[str, Any], verifier: type[BaseVerifier[Any]], base: Path | None
) -> str | None:
    """Returns a stated setting without which the verifier would measure the property."""
    for key, stated in settings.items():
        others = {other: setting for other, setting in settings.items() if other != key}
        try:
            measures = verifier(others, base).measures
        except Exception:  # noqa: BLE001  a plug-in may raise anything where a setting is missing
            continue
        if any(measure.property.name == name for measure in measures):
            return f"{key}: {stated}"
    return None


class RungSpec(Part):
    """One step of the ladder."""

    rung: str = Field(
        default_factory=str,
        pattern=NAME,
        description="Label, unique in the ladder; default: the verifier's name with dots as underscores.",
    )
    verifier: str = Field(description="A registered verifier, such as xtb.singlepoint.")
    settings: Annotated[dict[str, Any], ModelOf(_settings_model)] = Field(
        default_factory=dict, validate_default=True, description="Settings of the verifier."
    )
    gate: dict[str, GateSpec] = Field(default_factory=dict, description="Limits on the measured properties.")
    limits: LimitsSpec = Field(default_factory=LimitsSpec, description="Wall time and memory of one verification.")
    resources: dict[str, Amount] = Field(
        default_factory=dict,
        description="Resources that one verification holds: cores, gpu, and others by name; default: one core.",
    )
    calibrate: CalibrateSpec | None = omitted_if_unset(
        None, description="Calibrates the rung's values of all properties that its gate or an objective names."
    )
    inline: bool = omitted_if_unset(
        False,
        description="Whether the rung answers every candidate inside the turn that proposes it, as fast rungs do, "
        "instead of being bought later. For rungs of seconds, below which all rungs answer inside the turn as well.",
    )
    control: bool = omitted_if_unset(
        False,
        strict=True,
        description="Whether the rung is a control: it decides nothing, teaches no law and is never rewarded. It runs "
        "by lot on candidates that the terminal rung has answered, to show whether a policy exploits its rewards.",
    )
    share: Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1)] | None = omitted_if_unset(
        None, description="control: the chance with which it runs on a candidate; default 0.2."
    )
    accept: dict[str, GateSpec] = omitted_if_unset(
        default_factory=dict,
        description="control: limits within which it confirms a candidate, in its own scale; default: those of the "
        "objectives that it measures.",
    )
    lab: LabSpec | None = omitted_if_unset(
        None, description="Of a rung that people do: cost, deadline and approval of its tasks."
    )
    on_refusal: Literal["drop", "skip"] = Field(
        default_factory=lambda: "skip",
        description="If the verifier refuses a candidate: drop it, or skip the rung; default: drop if fast, else skip.",
    )

    _base: Path | None = PrivateAttr(None)  # folder of the campaign file
    _campaign: str = PrivateAttr("")  # name of the campaign that owns the rung; empty: none yet
    _verifier: BaseVerifier[Any] | None = PrivateAttr(None)  # None: not built yet
    _defaults: Mapping[str, Any] = PrivateAttr({})  # settings that replace the verifier's own defaults
    _derived: tuple[DerivedProperty, ...] = PrivateAttr(())

    @model_validator(mode="before")
    @classmethod
    def _defaults_by_tier(cls, data: Any) -> Any:
        verifier = find_verifier(data.get("verifier")) if isinstance(data, dict) else None
        if verifier is None:
            return data
        wall, memory = TIER_LIMITS[verifier.tier]
        if data.get("inline") is True:
            wall = min(wall, INLINE_SECONDS)
        limits = data.get("limits", {})
        if isinstance(limits, dict):
            defaults = {"wall_seconds": wall, "memory_mb": memory, "stall_seconds": verifier.stall_seconds}
            limits = {**defaults, **limits}
        on_refusal = "drop" if verifier.tier is Tier.FAST else "skip"
        tier_defaults: dict[str, Any] = {"rung": default_label(verifier.name), "on_refusal": on_refusal}
        if verifier.tier is Tier.WORLD:
            tier_defaults["lab"] = {}
        return {**tier_defaults, **data, "limits": limits}

    @field_validator("verifier")
    @classmethod
    def _is_registered(cls, value: str) -> str:
        try:
            verifier_class(value)
        except UsageError as error:
            raise fault_of(error) from None
        return value

    @field_validator("settings")
    @classmethod
    def _settings_are_accepted(cls, value: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        verifier = find_verifier(info.data.get("verifier"))
        if verifier is None:
            return value
        configured = _SettingsWithVerifier(value)
        try:
            configured.verifier = verifier(value, (info.context or {}).get("base"))
            canonical_json(configured.verifier.settings.model_dump(mode="json"))
            _require_measures(configured.verifier)
        except ValidationError:
            raise  # pydantic puts the rung's path of keys before the setting's
        except (UsageError, ValueError, TypeError, LookupError) as error:
            raise fault(f'verifier "{verifier.name}" does not take these settings: {error}') from None
        except Exception as error:  # noqa: BLE001  a plug-in may raise anything
            what = f"{type(error).__name__}: {error}"
            raise fault(f'verifier "{verifier.name}" fails with these settings: {what}') from None
        return configured

    @field_validator("resources")
    @classmethod
    def _resources_can_be_held(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        try:
            states_and_needs.check_needs(value)
        except ValueError as error:
            raise fault(str(error)) from None
        verifier = find_verifier(info.data.get("verifier"))
        is_more_than_one_core = states_and_needs.needs_text(value) is not None
        if verifier is not None and verifier.tier is Tier.FAST and is_more_than_one_core:
            raise fault(f'verifier "{verifier.name}" is of the fast tier, which has one core and nothing else')
        return value

    @field_validator("inline")
    @classmethod
    def _can_answer_at_once(cls, value: bool, info: ValidationInfo) -> bool:
        verifier = find_verifier(info.data.get("verifier"))
        if not value or verifier is None:
            return value
        if verifier.tier is Tier.WORLD:
            raise fault(
                f'verifier "{verifier.name}" is of the world tier, whose answers take days; no turn waits so long'
            )
        other_resources = set(info.data.get("resources") or {}) - {states_and_needs.CORES}
        if other_resources:
            name = min(other_resources)  # the first in alphabetical order
            raise fault(f"an inline rung runs beside the campaign's driver and holds cores alone, not {name}")
        return value

    @field_validator("lab")
    @classmethod
    def _done_by_people(cls, value: LabSpec | None, info: ValidationInfo) -> LabSpec | None:
        verifier = find_verifier(info.data.get("verifier"))
        if value is not None and verifier is not None and verifier.tier is not Tier.WORLD:
            raise fault(f'verifier "{verifier.name}" is run by computers; leave this out')
        asking = getattr(info.data.get("settings"), "verifier", None)
        if value is None or asking is None:
            return value
        asked = {measure.property.name: measure.property for measure in asking.measures}
        with Faults() as faults:
            for name, unit in value.units.items():
                place = ("units", name)
                if name not in asked:
                    message = f'the rung does not ask for "{name}"{did_you_mean(name, asked)}'
                    faults.add(place, message, f"it asks for: {', '.join(asked)}", on_key=True)
                elif unit not in asked[name].typed_units:
                    takes = asked[name].typed_units
                    faults.add(
                        place,
                        f'{name} is not entered in "{unit}"{did_you_mean(unit, takes)}',
                        f"{name} takes: {', '.join(takes)}",
                    )
        return value

    @field_validator("gate", "accept")
    @classmethod
    def _gates_are_measured(cls, value: dict[str, GateSpec], info: ValidationInfo) -> dict[str, GateSpec]:
        settings = info.data.get("settings")
        if not isinstance(settings, _SettingsWithVerifier) or settings.verifier is None:
            return value
        verifier = settings.verifier
        base = (info.context or {}).get("base")
        measured = {measure.property.name: measure.property for measure in verifier.measures}
        if info.field_name == "gate":
            # whether a derived property is known after this rung is checked in `checks`, which sees the whole ladder
            measured |= {name: properties()[name] for name in value if is_derived(name)}
        with Faults() as faults:
            for name, gate in value.items():
                if name not in measured:
                    message = f'verifier "{verifier.name}" does not measure "{name}"{did_you_mean(name, measured)}'
                    setting = _setting_that_hides(name, settings, type(verifier), base)
                    hint = f"it does without `{setting}`" if setting else f"it measures: {', '.join(sorted(measured))}"
                    faults.add((name,), message, hint, on_key=True)
                    continue
                try:
                    check_unit(gate.unit, measured[name])
                except PydanticCustomError as error:
                    path = (name,) if gate.unit is None else (name, "unit")
                    faults.take(path, error)
                    continue
                problem = window_fault(gate.min, gate.max, gate.unit, measured[name])
                if problem:
                    key = "min" if gate.min is not None else "max"
                    faults.add((name, key), problem)
        return value

    @model_validator(mode="after")
    def _control_only(self) -> RungSpec:
        """Refuses keys of a control at other rungs, and keys with which a control would decide."""
        with Faults() as faults:
            if self.control:
                self._add_faults_of_control(faults)
                return self
            for key in ("share", "accept"):
                if getattr(self, key):
                    faults.add((key,), "is for a control", "add control: true, or leave this out", on_key=True)
        return self

    def _add_faults_of_control(self, faults: Faults) -> None:
        """Adds a fault for each key with which the control would decide."""
        message = "a control decides nothing, so that it cannot be exploited; leave this out"
        if self.gate:
            faults.add(("gate",), message, "limits that only score it stand under accept", on_key=True)
        if self.calibrate:
            faults.add(("calibrate",), message, on_key=True)
        if self.inline:
            message = "a control runs after the terminal rung, not inside a turn; leave this out"
            faults.add(("inline",), message, on_key=True)

    @model_validator(mode="after")
    def _keep_the_verifier(self, info: ValidationInfo) -> RungSpec:
        self._base = (info.context or {}).get("base")
        if isinstance(self.settings, _SettingsWithVerifier) and self.settings.verifier is not None:
            self._verifier = self.settings.verifier
            self.__dict__["settings"] = dict(self.settings)
            with Faults() as faults:
                try:
                    check_measures(self._verifier, provider(self.verifier))
                except UsageError as error:
                    faults.add(("verifier",), str(error))
        return self

    @property
    def tier(self) -> Tier:
        return verifier_class(self.verifier).tier

    @property
    def is_world(self) -> bool:
        """Whether people do the rung."""
        return self.tier is Tier.WORLD

    @property
    def tasks_per_candidate(self) -> int:
        """Number of jobs for each candidate: the replicates of a rung that people do, else 1."""
        return 1 if self.lab is None else self.lab.replicates

    def most_listed_candidates(self, weekly: float | None) -> int:
        """Returns the largest number of candidates with tasks of the rung that nobody has claimed: those whose tasks
        `most_unclaimed_tasks` allows, and at least one with all of its replicates."""
        return max(1, self.most_unclaimed_tasks(weekly) // self.tasks_per_candidate)

    def most_unclaimed_tasks(self, weekly: float | None) -> int:
        """Returns the largest number of tasks of the rung that nobody has claimed.

        weekly: the campaign's weekly limit of lab_slots; None: no limit.
        """
        if self.lab is not None and self.lab.ahead is not None:
            return self.lab.ahead
        return DEFAULT_OPEN_TASKS if weekly is None else max(1, round(WEEKS * weekly))

    @property
    def may_answer_inside_turn(self) -> bool:
        """Whether the rung may answer inside the turn that proposes a candidate: it is fast, or marked inline."""
        return self.inline or self.tier is Tier.FAST

    @property
    def holds(self) -> dict[str, int]:
        """Resources that one verification holds, including its cores."""
        return {states_and_needs.CORES: 1} | self.resources

    def owned_by(self, campaign: str) -> RungSpec:
        """Returns the rung as part of a campaign; only this campaign finds its evidence that is not reusable."""
        owned = self
        belongs_to_another = self._campaign not in ("", campaign)
        if belongs_to_another:
            owned = self.model_copy()
            owned._verifier = None
        owned._campaign = campaign
        owned.configured.scope = campaign
        return owned

    def for_charges(self, charges: Collection[int]) -> RungSpec:
        """Returns the rung with the verifier's defaults for candidates of these charges; stated settings stay."""
        return self._with_defaults(self.configured.defaults_for(charges))

    def with_defaults_of(self, settings: Mapping[str, Any], stated: Collection[str]) -> RungSpec:
        """Returns the rung with the defaults that stored settings have, so that a changed default changes nothing.

        settings: all stored settings, as JSON. stated: names of the settings that are no defaults. If the verifier no
        longer takes the stored settings, the rung is returned as it is.
        """
        if self.configured.settings.model_dump(mode="json") == settings:
            return self
        changed = self._with_defaults({name: value for name, value in settings.items() if name not in stated})
        try:
            _ = changed.configured  # builds the verifier, which checks its settings
        except ValidationError:
            return self
        return changed

    def _with_defaults(self, settings: Mapping[str, Any]) -> RungSpec:
        defaults = {name: value for name, value in settings.items() if name not in self.settings}
        if not defaults:
            return self
        changed = self.model_copy()
        changed._defaults = defaults
        changed._verifier = None
        return changed

    @property
    def configured(self) -> BaseVerifier[Any]:
        """The verifier with these settings, built once."""
        if self._verifier is None:
            self._verifier = verifier_class(self.verifier)({**self._defaults, **self.settings}, self._base)
            self._verifier.scope = self._campaign
        return self._verifier

    def window_gates(self) -> Mapping[str, Window]:
        """Returns gates by property, in canonical units: those of the spec and those of the verifier's settings."""
        windows = {name: Window(low, high) for name, (low, high) in self.configured.gates.items()}
        for name, gate in self.gate.items():
            windows[name] = canonical_window(gate.min, gate.max, gate.unit, properties()[name])
        return windows

    def accepted(self) -> Mapping[str, Window]:
        """Returns the limits of a control by property, in canonical units."""
        return {
            name: canonical_window(limits.min, limits.max, limits.unit, properties()[name])
            for name, limits in self.accept.items()
        }

    def setting_that_hides(self, name: str) -> str | None:
        """Returns a stated setting without which the verifier would measure the property, as it stands in the file."""
        return _setting_that_hides(name, self.settings, type(self.configured), self._base)

    def measured(self) -> tuple[str, ...]:
        """Returns the names of properties that the verifier can report."""
        return tuple(sorted({measure.property.name for measure in self.measures}))

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        """The properties that are known after the rung: the verifier's, and the derived ones."""
        derived = tuple(PropertyAtLevel(prop.definition, prop.level) for prop in self.derived)
        return (*self.configured.measures, *derived)

    @property
    def derived(self) -> tuple[DerivedProperty, ...]:
        """The campaign's derived properties that are known after this rung."""
        return self._derived

    def with_derived_properties(self, derived: tuple[DerivedProperty, ...]) -> RungSpec:
        """Returns the rung with these derived properties, which are known after it."""
        if not derived and not self._derived:
            return self
        completed = self.model_copy()
        completed._derived = derived
        return completed


DEFAULT_CONTROL_SHARE = 0.2
"""The chance with which a control runs on a candidate unless the file states another."""


def check_control(
    controls: Mapping[int, RungSpec],
    ladder: Mapping[int, RungSpec],
    terminal: str | None,
    objectives: Iterable[ObjectiveSpec],
    faults: Faults,
) -> None:
    """Adds a fault for a second control, for a control before other rungs, and for a control that checks nothing.

    controls, ladder: the valid controls and other rungs, by position in the file. terminal: label of the terminal rung.
    """
    wanted = {objective.property for objective in objectives}
    for i, control in controls.items():
        if i > min(controls):
            faults.add(("ladder", i, "control"), "a campaign has one control", "leave out the other")
        elif any(position > i for position in ladder):
            faults.add(("ladder", i, "control"), "a control comes after all other rungs", "move it to the end")
        elif control.rung == terminal:
            faults.add(("ladder", i, "control"), "the terminal rung decides, so it cannot be the control")
        for rung in ladder.values():
            if rung.rung == control.rung:
                faults.add(("ladder", i, "rung"), f'"{rung.rung}" labels another rung; labels must differ')
            if rung.configured.computation == control.configured.computation:
                message = f'is the same calculation as "{rung.rung}", so that it would confirm whatever that says'
                faults.add(("ladder", i, "verifier"), message, "take another level or another method")
        if not control.accept and not wanted & set(control.measured()):
            message = "measures no objective, so that nothing says which of its values are good"
            faults.add(("ladder", i, "verifier"), message, f"state limits: accept: {{{control.measured()[0]}: …}}")
