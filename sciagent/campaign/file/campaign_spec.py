"""The spec of a campaign: the validated content of its YAML file, with one canonical JSON form and one hash.

All mistakes of a file are reported together, one per line: `file:line:col: path: fault`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from sciagent.campaign.file.allow_list import AllowList, refuse_unregistered
from sciagent.campaign.file.consistency_checks import check_together, default_terminal, draft
from sciagent.campaign.file.derived_properties_and_fits_to_measured import (
    DerivedSpec,
    canonical,
    register_all,
    with_derived,
)
from sciagent.campaign.file.objectives_and_budget import BudgetSpec, Count, GoalSpec, ObjectiveSpec
from sciagent.campaign.file.proposers import FilterSpec, LawSearchSpec, OneProposerSpec, ProposerSpec, SeveralSpec
from sciagent.campaign.file.rungs import DEFAULT_CONTROL_SHARE, RungSpec, charges_of, find_verifier
from sciagent.campaign.file.spec_differences import _in_same_units, differences, spec_differences
from sciagent.campaign.file.subject_and_safety import (
    SafetySpec,
    Standardise,
    SubjectName,
    check_value_for_subject,
    reading_of,
    screened,
)
from sciagent.chemistry.subjects.base import Reading
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import needs_text
from sciagent.errors import did_you_mean
from sciagent.inputs.yaml_document import Loc, read, read_text, show
from sciagent.inputs.yaml_validation import (
    NAME,
    PROPOSER_RUNS,
    Faults,
    Part,
    file_hash,
    keys_at,
    proposer_will_run,
    unknown_key,
    validated,
)
from sciagent.scheduling.rules import SCHEDULERS
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.scheduling.rules.rule_and_settings_bases import SchedulerSpec

if TYPE_CHECKING:
    AnyScheduler = SchedulerSpec
else:
    AnyScheduler = Annotated[Union[SCHEDULERS], Field(discriminator="kind")]  # noqa: UP007  a tuple takes no |

SCHEMA = 1  # version of the canonical form
AMENDABLE = (
    "budget",
    "goal.count",
    "workers",
    "description",
    "units",
    "ladder.limits",
    "ladder.resources",
    "ladder.lab",
)
"""The keys that may change in a running campaign."""


def cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CampaignSpec(Part):
    """The content of a campaign file, validated."""

    campaign: str = Field(pattern=NAME, description="Name, unique in a ledger.")
    description: str = Field("", description="Free text for people.")
    subject: SubjectName = Field(
        description="The kind of the candidates: molecule, crystal, or the name of another installed subject."
    )
    seed: int = Field(0, strict=True, ge=0, le=2**31 - 1, description="Seed of the proposer's random choices.")
    standardise: Standardise = Field(
        "refuse",
        description="A structure of several fragments: refuse it, or keep the parent molecule. As a mapping, also its "
        "protonation state, {ph: 7.4}, and whether its stereoisomers or tautomers are candidates: {stereo: enumerate}.",
    )
    derived: tuple[DerivedSpec, ...] = Field((), description="Properties that are computed from others by formulas.")
    objectives: tuple[ObjectiveSpec, ...] = Field(min_length=1, description="The wanted properties.")
    ladder: tuple[RungSpec, ...] = Field(min_length=1, description="The rungs, in order, cheapest first.")
    measured: Literal["flag", "decide"] = Field(
        "flag",
        description="What an imported experimental value of an objective's property does. flag: it is shown beside the "
        "computed one. decide: it takes the place of the computed one in the verdict, and of gates on the property.",
    )
    terminal: str = Field(
        default_factory=str,
        validate_default=True,
        description="Label of the rung that decides; default: the last one that is not of the world tier.",
    )
    safety: SafetySpec = Field(
        default_factory=SafetySpec, description="The safety screen, which is the first rung of every ladder."
    )
    goal: GoalSpec = Field(description="What counts as success, and when the campaign is done.")
    budget: BudgetSpec = Field(description="What the campaign may spend.")
    proposer: ProposerSpec = Field(description="Where candidates come from.")
    scheduler: AnyScheduler = Field(
        default_factory=lambda: PricedSpec(kind="priced", law=None), description="Which candidate gets which rung next."
    )
    workers: Count = Field(
        default_factory=cores, description="Single-core jobs at the same time; default: the number of cores."
    )

    _base: Path | None = PrivateAttr(None)
    _allowed: AllowList | None = PrivateAttr(None)
    _control: RungSpec | None = PrivateAttr(None)
    _files: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)
    _later_rows: dict[tuple[str, ...], int] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _know_derived(cls, data: Any) -> Any:
        register_all(data.get("derived") if isinstance(data, dict) else None)
        return data

    @field_validator("terminal")
    @classmethod
    def _default_terminal(cls, value: str, info: ValidationInfo) -> str:
        return value or default_terminal(info.data.get("ladder", ())) or ""

    @field_validator("standardise", "safety", "proposer")
    @classmethod
    def _fits_the_subject(cls, value: Any, info: ValidationInfo) -> Any:
        check_value_for_subject(info.field_name or "", value, info)
        return value

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> CampaignSpec:
        check_together(draft(self.__dict__))
        is_stated = "safety" in self.model_fields_set
        deciding = tuple(rung for rung in self.ladder if not rung.control)
        # after `check_together`, whose faults name the positions of the rungs in the file
        ladder = screened(deciding, self.safety, is_stated, subject_of(self.subject))
        # electric charges of the candidates: the defaults of some verifiers depend on them
        charges = charges_of(ladder)
        # evidence that is not reusable is found by its own campaign only
        owned = tuple(rung.for_charges(charges).owned_by(self.campaign) for rung in ladder)
        controls = [rung.for_charges(charges).owned_by(self.campaign) for rung in self.ladder if rung.control]
        self._control = controls[0] if controls else None
        # the spec cannot be changed by an assignment
        self.__dict__["ladder"] = with_derived(self.derived, owned, self.terminal)
        self._check_filters()
        context = info.context or {}
        if context.get("base") is None:
            return self
        self._base = Path(context["base"])
        if not proposer_will_run(context):
            return self
        with Faults() as faults:
            for where, name in self.proposer.files().items():
                try:
                    self._files[where] = file_hash(self._base / name)
                except OSError as error:
                    faults.add(("proposer", *where), f'"{name}" cannot be read: {error.strerror or error}')
        return self

    def _check_filters(self) -> None:
        """Raises ValidationError for a filter on a ladder that has answered before the filter chooses."""
        if any(rung.inline or not rung.may_answer_inside_turn for rung in self.ladder):
            return
        with Faults() as faults:
            for name, proposer in self.proposers:
                if not isinstance(proposer, LawSearchSpec) and proposer.filter is not None:
                    where = ("proposer", "proposers", name, "filter") if name else ("proposer", "filter")
                    faults.add(where, "has nothing to spare: all rungs are fast", "leave it out", on_key=True)

    @property
    def control(self) -> RungSpec | None:
        """The rung that decides nothing. After validation, `ladder` is without it."""
        return self._control

    @property
    def all_rungs(self) -> tuple[RungSpec, ...]:
        """The rungs of the ladder and the control, which is the last one."""
        return self.ladder if self._control is None else (*self.ladder, self._control)

    @property
    def base(self) -> Path:
        """Folder of the campaign file, where relative paths start; if unknown, the working directory."""
        return self._base or Path()

    @property
    def allowed(self) -> AllowList | None:
        """The list of things that the file was allowed to name when it was read; None if it was not restricted."""
        return self._allowed

    @property
    def remembering(self) -> list[LawSearchSpec | FilterSpec]:
        """The proposers and filters whose law may remember what was measured before the campaign."""
        found = list[LawSearchSpec | FilterSpec]()
        for _, proposer in self.proposers:
            law = proposer if isinstance(proposer, LawSearchSpec) else proposer.filter
            if law is not None:
                found.append(law)
        return found

    @property
    def filter_of_clients(self) -> FilterSpec | None:
        """The filter of MCP clients: that of the proposer, if the campaign has only one."""
        if isinstance(self.proposer, SeveralSpec | LawSearchSpec):
            return None
        return self.proposer.filter

    @property
    def proposers(self) -> list[tuple[str, OneProposerSpec]]:
        """The proposers as (name, spec); a single proposer has an empty name."""
        if isinstance(self.proposer, SeveralSpec):
            return list(self.proposer.proposers.items())
        return [("", self.proposer)]

    @property
    def standardisation(self) -> Reading:
        """The rules by which the text of a proposal becomes a candidate."""
        return reading_of(subject_of(self.subject), self.standardise)

    @property
    def screen(self) -> str | None:
        """Name of the verifier that screens the subject for safety; None if there is none."""
        return subject_of(self.subject).screen

    def without_screen(self, reason: str) -> CampaignSpec:
        """Returns the spec with the safety screen turned off. Raises ValidationError if the reason is too short."""
        ladder = tuple(rung for rung in self.ladder if rung.verifier != self.screen)
        return self.model_copy(update={"ladder": ladder, "safety": SafetySpec(screen=False, reason=reason)})

    def with_defaults_of(self, stored: Mapping[str, Any], before: CampaignSpec) -> CampaignSpec:
        """Returns the spec with the defaults from when the campaign began, so that a changed default ends no campaign.

        A setting that the file states wins; one that the stored file left out keeps its value of then. stored: the
        canonical form of the campaign's spec. before: the spec of the campaign's stored file.
        """
        stored_settings = {(rung["rung"], rung["verifier"]): rung["settings"] for rung in stored["ladder"]}
        stated = {(rung.rung, rung.verifier): rung.settings for rung in before.all_rungs}
        keys = [(rung.rung, rung.verifier) for rung in self.all_rungs]
        kept = tuple(
            rung.with_defaults_of(stored_settings.get(key, {}), stated.get(key, {}))
            for key, rung in zip(keys, self.all_rungs, strict=True)
        )
        if all(new is old for new, old in zip(kept, self.all_rungs, strict=True)):
            return self
        deciding = tuple(rung for rung in kept if not rung.control)
        changed = self.model_copy(update={"ladder": with_derived(self.derived, deciding, self.terminal)})
        changed._control = kept[-1] if kept[-1].control else None
        return changed

    @property
    def has_file_hashes(self) -> bool:
        """Whether the files of the proposer were read and hashed."""
        return bool(self._files)

    def file_as_begun(self, where: tuple[str, ...], sha256: str, n_later: int) -> CampaignSpec:
        """Returns the spec with one file of the proposer as it was when the campaign began.

        where: its path of keys in the proposer. sha256: of the content of then. n_later: number of structures that were
        added at its end since.
        """
        begun = self.model_copy()
        begun._files = {**self._files, where: sha256}
        begun._later_rows = {**self._later_rows, where: n_later}
        return begun

    def later_rows(self, proposer: OneProposerSpec) -> int:
        """Returns how many structures were added to the end of a proposer's file since the campaign began."""
        for name, each in self.proposers:
            if each is proposer:
                return self._later_rows.get(("proposers", name, "file") if name else ("file",), 0)
        return 0

    def position(self, label: str) -> Position:
        """Returns the position of a rung on the ladder; the control has the position after the last rung.

        Raises ValueError for an unknown label.
        """
        return Position([rung.rung for rung in self.all_rungs].index(label))

    @property
    def terminal_position(self) -> Position:
        return self.position(self.terminal)

    def domain_objectives(self) -> tuple[Objective, ...]:
        """Returns the objectives in canonical units, with default scales."""
        return tuple(objective.domain() for objective in self.objectives)

    def canonical(self) -> Mapping[str, Any]:
        """Returns the spec as JSON: canonical units, all defaults, files by name and SHA-256, no absolute path.

        `workers` is None if the file does not set it, since the default depends on the machine.
        """
        plain_keys = {"campaign", "description", "subject", "seed", "standardise"}
        if self.screen:
            plain_keys.add("safety")
        whole = self.model_dump(mode="json", include=plain_keys)
        units = self.chosen_units()
        if units:
            whole["units"] = units
        if self.measured != "flag":
            whole["measured"] = self.measured
        derived = list(chain.from_iterable(rung.derived for rung in self.ladder))
        if derived:
            whole["derived"] = [canonical(prop, self.ladder) for prop in derived]
        objectives = []
        for objective in self.objectives:
            calibrate = objective.model_dump(mode="json", include={"calibrate"})
            objectives.append({**_objective(objective.domain()), **calibrate})
        return whole | {
            "schema": SCHEMA,
            "objectives": objectives,
            "ladder": [_rung(rung) for rung in self.all_rungs],
            "terminal": self.terminal,
            "goal": self.goal.model_dump(mode="json"),
            "budget": self.budget.model_dump(mode="json", exclude_none=True),
            "proposer": self._proposer(),
            "scheduler": self.scheduler.model_dump(mode="json"),
            "workers": self.workers if "workers" in self.model_fields_set else None,
        }

    def chosen_units(self) -> dict[str, str]:
        """Returns {property: unit} where the file states another unit than the canonical one.

        The objective on the property decides, else the derived property, else the first gate.
        """
        stated = [(objective.property, objective.unit) for objective in self.objectives]
        stated.extend((prop.property, prop.unit) for prop in self.derived)
        for rung in self.ladder:
            stated.extend((name, gate.unit) for name, gate in rung.gate.items())
        units: dict[str, str] = {}
        for name, unit in stated:
            units.setdefault(name, unit or properties()[name].unit)
        return {name: unit for name, unit in units.items() if unit != properties()[name].unit}

    def _proposer(self) -> Mapping[str, Any]:
        """Returns the proposer as JSON, with name and SHA-256 of each of its files."""
        whole = self.proposer.model_dump(mode="json")
        for where, name in self.proposer.files().items():
            part = whole
            for key in where[:-1]:
                part = part[key]
            part[where[-1]] = {"name": Path(name).name, "sha256": self._files.get(where)}
        return whole

    @property
    def hash(self) -> str:
        return content_hash(self.canonical())

    @property
    def identity_hash(self) -> str:
        """Hash of everything that cannot be amended."""
        return content_hash(_without_amendable(self.canonical()))

    def diff(self, other: Mapping[str, Any]) -> list[str]:
        """Returns lines `path: old -> new` from another spec's canonical form to this one."""
        return spec_differences(other, self.canonical())

    def identity_diff(self, other: Mapping[str, Any]) -> str:
        """Returns the differences that cannot be amended as indented text."""
        old, new = _in_same_units(other, self.canonical())
        return "\n  ".join(differences(_without_amendable(old), _without_amendable(new)))

    @property
    def safety_note(self) -> str:
        """One line on a safety screen that is off or has exempt rules; otherwise an empty text."""
        if not self.safety.screen:
            return f"the safety screen is off: {self.safety.reason}"
        allowed = []
        for rung in self.ladder:
            if rung.verifier == self.screen:
                allowed.extend(rung.settings.get("allow", ()))
        return f"exempt from the safety screen: {', '.join(allowed)}: {self.safety.reason}" if allowed else ""


def _objective(objective: Objective) -> Mapping[str, Any]:
    """Returns an objective in the canonical form."""
    canonical_form: dict[str, Any] = {
        "property": objective.property,
        "direction": objective.direction.value,
        "unit": properties()[objective.property].unit,
        "accept": _window(objective.accept),
    }
    if objective.direction in (Direction.MAXIMISE, Direction.MINIMISE):
        canonical_form["ramp"] = list(objective.ramp or ())
    else:
        canonical_form["scale"] = objective.scale
    canonical_form["weight"] = objective.weight
    return canonical_form


def _rung(rung: RungSpec) -> Mapping[str, Any]:
    """Returns a rung in the canonical form."""
    plain_keys = {"rung", "verifier", "limits", "on_refusal", "calibrate", "inline", "lab"}
    whole = rung.model_dump(mode="json", include=plain_keys)
    holds_more_than_a_core = needs_text(rung.holds) is not None
    if holds_more_than_a_core:
        whole["resources"] = rung.holds
    gate: dict[str, Any] = {}
    if rung.control:
        whole["control"] = True
        whole["share"] = rung.share or DEFAULT_CONTROL_SHARE
        accept = {name: _window(window) for name, window in rung.accepted().items()}
        if accept:
            whole["accept"] = accept
    else:
        gate = {name: _window(window) for name, window in rung.window_gates().items()}
    whole["settings"] = rung.configured.settings.model_dump(mode="json")
    whole["gate"] = gate
    return whole


def _window(window: Window | None) -> list[float | None] | None:
    return None if window is None else [window.low, window.high]


def _without_amendable(canonical: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the spec in canonical form without the keys that can be amended."""

    def fixed_part(part: Mapping[str, Any], prefix: str = "") -> Mapping[str, Any]:
        return {key: value for key, value in part.items() if f"{prefix}{key}" not in AMENDABLE}

    ladder = [fixed_part(rung, "ladder.") for rung in canonical["ladder"]]
    return {**fixed_part(canonical), "goal": fixed_part(canonical["goal"], "goal."), "ladder": ladder}


def load_spec(path: Path) -> CampaignSpec:
    """Reads the campaign in a YAML file. Relative paths start at its folder. Raises SpecError."""
    return parse_spec(read_text(path), str(path), path.resolve().parent)


def parse_spec(
    text: str,
    name: str = "campaign.yaml",
    base: Path | None = None,
    *,
    candidates: bool = True,
    allowed: AllowList | None = None,
) -> CampaignSpec:
    """Reads the campaign in a YAML text. Raises SpecError.

    name: file name for messages. base: folder where relative paths start; None: the working directory. candidates:
    whether the proposer's files must exist; False: no proposer will run, and the hash of the spec differs. allowed:
    what a text may name that does not come from this machine's disk; None: anything.
    """
    folder = Path.cwd() if base is None else base
    document = read(text)
    if allowed is not None:  # before anything is validated, since validators open files
        refuse_unregistered(document, name, CampaignSpec, allowed, folder)
    context = {"base": folder, PROPOSER_RUNS: candidates}
    spec = validated(
        document,
        name,
        CampaignSpec,
        context=context,
        unknown=_unknown_key,
        # as the model does at its end, so that these faults are reported together with those of single keys
        further=lambda data: check_together(draft(data, folder)),
    )
    spec._allowed = allowed
    return spec


def check_registered(text: str, name: str, base: Path, allowed: AllowList) -> None:
    """Raises SpecError if a campaign's text names what is not in the list. Nothing else is checked, and no file that
    the text names is opened. name, base: as `parse_spec` takes them."""
    refuse_unregistered(read(text), name, CampaignSpec, allowed, base)


def campaign_schema() -> JsonSchemaValue:
    """Returns the JSON schema of the campaign file."""
    schema = CampaignSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sciagent campaign"}


def _unknown_key(loc: Loc, data: Any, root: type[BaseModel]) -> tuple[str, str]:
    """Returns message and hint for an unknown key. Keys below `settings` belong to the verifier."""
    # such a key is at (ladder, number of the rung, settings, key, ...)
    if loc[0] != "ladder" or loc[2:3] != ("settings",) or len(loc) == 3:
        return unknown_key(loc, data, root)
    rung = data["ladder"][loc[1]]
    verifier = find_verifier(rung.get("verifier"))
    known = keys_at(loc[3:-1], rung["settings"], verifier.Settings) if verifier else []
    message = f"unknown setting{did_you_mean(str(loc[-1]), known)}"
    is_direct_setting = len(loc) == 4  # ladder, number of the rung, settings, key
    if is_direct_setting:
        return message, f'verifier "{rung.get("verifier")}" takes: {", ".join(known) or "no settings"}'
    if known:
        return message, f"{show(loc[2:-1])} takes: {', '.join(known)}"
    return message, ""
