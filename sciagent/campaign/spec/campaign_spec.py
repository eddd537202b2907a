"""The spec of a campaign: the validated content of its YAML file, with one canonical JSON form and one hash."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from sciagent.campaign.spec.checks import check_together, default_terminal, draft
from sciagent.campaign.spec.diff import differences, without_amendable
from sciagent.campaign.spec.goals import NAME, BudgetSpec, Count, GoalSpec, ObjectiveSpec, Part
from sciagent.campaign.spec.rungs import RungSpec
from sciagent.campaign.spec.safety import SCREEN, SafetySpec, screened
from sciagent.campaign.spec.sources import (
    OneProposerSpec,
    PricedSpec,
    ProposerSpec,
    SchedulerSpec,
    SeveralSpec,
    file_hash,
)
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.evidence import content_hash
from sciagent.domain.jobs.resource_requests import text_of
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.properties import properties
from sciagent.yaml.faults import Faults, fault

SCHEMA = 1


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CampaignSpec(Part):
    """The content of a campaign file, validated."""

    campaign: str = Field(pattern=NAME, description="Name, unique in a ledger.")
    description: str = Field("", description="Free text for people.")
    subject: Literal["molecule", "crystal"] = Field(description="What the candidates are.")
    seed: int = Field(0, strict=True, ge=0, le=2**31 - 1, description="Seed of the proposer's random choices.")
    standardise: Literal["refuse", "parent"] = Field(
        "refuse", description="A structure of several fragments: refuse it, or keep the parent molecule."
    )
    objectives: tuple[ObjectiveSpec, ...] = Field(min_length=1, description="The wanted properties.")
    ladder: tuple[RungSpec, ...] = Field(min_length=1, description="The rungs, in order, cheapest first.")
    terminal: str = Field(
        default_factory=str,
        description="Label of the rung that decides; default: the last one that is not of the world tier.",
    )
    safety: SafetySpec = Field(
        default_factory=SafetySpec,
        description="The safety screen, which is the first rung of every ladder of molecules.",
    )
    goal: GoalSpec = Field(description="What counts as success, and when the campaign is done.")
    budget: BudgetSpec = Field(description="What the campaign may spend.")
    proposer: ProposerSpec = Field(description="Where candidates come from.")
    scheduler: SchedulerSpec = Field(
        default_factory=lambda: PricedSpec(kind="priced", law=None), description="Which candidate gets which rung next."
    )
    workers: Count = Field(
        default_factory=cores, description="Single-core jobs at the same time; default: the number of cores."
    )

    _base: Path | None = PrivateAttr(None)
    _files: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _default_terminal(cls, data: Any) -> Any:
        if isinstance(data, dict) and "terminal" not in data and isinstance(data.get("ladder"), list | tuple):
            label = default_terminal(data["ladder"])
            return {**data, "terminal": label} if label else data
        return data

    @field_validator("proposer")
    @classmethod
    def _fits_the_subject(cls, value: ProposerSpec, info: ValidationInfo) -> ProposerSpec:
        if info.data.get("subject") == "crystal":
            raise fault(f'proposer "{value.kind}" is for molecules; none is for crystals yet')
        return value

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> CampaignSpec:
        faults = Faults()
        check_together(draft(self.__dict__), faults)
        faults.raise_any()
        is_stated = "safety" in self.model_fields_set
        ladder = screened(
            self.ladder, self.safety, is_stated, self.subject
        )  # last, since it shifts positions in messages
        self.__dict__["ladder"] = tuple(rung.owned_by(self.campaign) for rung in ladder)
        base = (info.context or {}).get("base")
        if base is not None:
            self._base = Path(base)
            files = self.proposer.files() if (info.context or {}).get("candidates", True) else {}
            for where, name in files.items():
                try:
                    self._files[where] = file_hash(self._base / name)
                except OSError as error:
                    faults.add(("proposer", *where), f'"{name}" cannot be read: {error.strerror or error}')
        faults.raise_any()
        return self

    @property
    def base(self) -> Path:
        """Folder of the campaign file, where relative paths start; if unknown, the working directory."""
        return self._base or Path()

    @property
    def proposers(self) -> list[tuple[str, OneProposerSpec]]:
        """The proposers as (name, spec); a single proposer has an empty name."""
        chosen = self.proposer
        return list(chosen.proposers.items()) if isinstance(chosen, SeveralSpec) else [("", chosen)]

    def without_screen(self, reason: str) -> CampaignSpec:
        """Returns the spec with the safety screen turned off. Raises ValidationError if the reason is too short."""
        ladder = tuple(rung for rung in self.ladder if rung.verifier != SCREEN)
        return self.model_copy(update={"ladder": ladder, "safety": SafetySpec(screen=False, reason=reason)})

    def position(self, label: str) -> Position:
        """Returns the position of a rung on the ladder. Raises ValueError for an unknown label."""
        return Position([rung.label for rung in self.ladder].index(label))

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
        parts = {"campaign", "description", "subject", "seed", "standardise"}
        if self.subject == "molecule":
            parts.add("safety")
        whole = self.model_dump(mode="json", include=parts)
        return whole | {
            "schema": SCHEMA,
            "objectives": [_objective(objective) for objective in self.domain_objectives()],
            "ladder": [_rung(rung) for rung in self.ladder],
            "terminal": self.terminal,
            "goal": self.goal.model_dump(mode="json"),
            "budget": self.budget.model_dump(mode="json", exclude_none=True),
            "proposer": self._proposer(),
            "scheduler": self.scheduler.model_dump(mode="json"),
            "workers": self.workers if "workers" in self.model_fields_set else None,
        }

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
        return content_hash(without_amendable(self.canonical()))

    def diff(self, other: Mapping[str, Any], identity_only: bool = False) -> list[str]:
        """Returns lines `path: old -> new` from another spec's canonical form to this one. identity_only: leave out the
        keys in AMENDABLE."""
        new = self.canonical()
        if identity_only:
            return differences(without_amendable(other), without_amendable(new))
        return differences(other, new)


def _objective(objective: Objective) -> Mapping[str, Any]:
    ramp = objective.direction in (Direction.MAXIMISE, Direction.MINIMISE)
    return {
        "property": objective.property,
        "direction": objective.direction.value,
        "unit": properties()[objective.property].unit,
        "accept": _window(objective.accept),
        **({"ramp": list(objective.ramp or ())} if ramp else {"scale": objective.scale}),
        "weight": objective.weight,
    }


def _rung(rung: RungSpec) -> Mapping[str, Any]:
    return {
        **rung.model_dump(mode="json", include={"rung", "verifier", "limits", "on_refusal"}),
        **({"resources": rung.holds} if text_of(rung.holds) else {}),
        "settings": rung.configured.settings.model_dump(mode="json"),
        "gate": {name: _window(window) for name, window in rung.window_gates().items()},
    }


def _window(window: Window | None) -> list[float | None] | None:
    return None if window is None else [window.low, window.high]
