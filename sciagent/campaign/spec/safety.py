"""The safety screen: the first rung of every ladder, unless the file turns it off with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from sciagent.campaign.file.goals import NAME, Part
from sciagent.campaign.file.rungs import RungSpec, find_verifier
from sciagent.chemistry.subjects.base import Subject
from sciagent.inputs.validation import Faults

_REASON = "say why, in a sentence that a colleague can judge: three words and 15 characters at least"


class ExtraSmartsSpec(Part):
    """A pattern of the user's own, refused like those that ship with sciagent."""

    name: str = Field(pattern=NAME, description="Name, different from that of any other safety rule.")
    smarts: str = Field(min_length=1, description="SMARTS; a match is refused.")
    reason: str = Field(description="Reason, shown with every refusal.")
    group: Literal["explosive", "acute_hazard", "chemical_weapon"] = Field(
        default="acute_hazard", description="The group under which a refusal is counted."
    )


class ExtraElementsSpec(Part):
    """A rule of the user's own for crystals, refused like those that ship with sciagent."""

    name: str = Field(pattern=NAME, description="Name, different from that of any other safety rule.")
    elements: tuple[str, ...] = Field(min_length=1, description="A crystal with any of these elements is refused.")
    reason: str = Field(min_length=10, max_length=500, description="Reason, shown with every refusal.")
    group: Literal["explosive", "acute_hazard", "radioactive"] = Field(
        default="acute_hazard", description="The group under which a refusal is counted."
    )


class SafetySpec(Part):
    """The rules of the safety screen. Turning it off, or exempting rules, needs a reason."""

    screen: bool = Field(default=True, strict=True, description="False turns the screen off; needs a reason.")
    allow: tuple[str, ...] = Field(
        default_factory=tuple, description="Safety rules that are not applied in this campaign; needs a reason."
    )
    extra_smarts: tuple[ExtraSmartsSpec, ...] = Field(
        default_factory=tuple, description="Additional patterns to refuse; for molecules."
    )
    extra_elements: tuple[ExtraElementsSpec, ...] = Field(
        default_factory=tuple,
        exclude_if=lambda rules: not rules,  # as in campaigns from before this key
        description="Additional elements to refuse; for crystals.",
    )
    reason: str = Field(
        default="", max_length=1000, description="Reason for which the screen is off, or rules are exempt."
    )

    @model_validator(mode="after")
    def _reasoned(self) -> SafetySpec:
        with Faults() as faults:
            if not self.screen and self.settings():
                rules = "allow, extra_smarts or extra_elements"
                faults.add(("screen",), f"is false, and {rules} would have no effect; keep one of them")
            if (not self.screen or self.allow) and not is_reason(self.reason):
                what = "turning the safety screen off" if not self.screen else "exempting safety rules"
                faults.add(("reason",), f"{what} needs a reason", _REASON, on_key=True)
        return self

    def settings(self) -> Mapping[str, Any]:
        """Returns the settings of the screening verifier."""
        given = self.model_dump(mode="json", include={"allow", "extra_smarts", "extra_elements"})
        return {key: value for key, value in given.items() if value}


def check_settings(safety: SafetySpec, subject: Subject) -> None:
    """Raises ValidationError if the verifier that screens does not take the settings of the key `safety`."""
    settings, screen = safety.settings(), subject.screen
    if not settings or screen is None or (found := find_verifier(screen)) is None:
        return
    taken = found.Settings.model_fields
    with Faults() as faults:
        for key in sorted(set(settings) - set(taken)):
            known = ", ".join(key for key in SafetySpec.model_fields if key in taken)
            faults.add((key,), f"the screen of {subject.words.many} takes no such rules; it takes {known}", on_key=True)
    found.Settings.model_validate(settings)


def is_reason(text: str) -> bool:
    """Whether a text is long enough for a reason: at least 15 characters and three words with two letters."""
    words = {word.lower() for word in text.split() if sum(c.isalpha() for c in word) >= 2}
    return len(" ".join(text.split())) >= 15 and len(words) >= 3


def screened(ladder: tuple[RungSpec, ...], safety: SafetySpec, given: bool, subject: Subject) -> tuple[RungSpec, ...]:
    """Returns the ladder with the safety screen as its first rung. given: whether the file has the key `safety`.

    Raises ValidationError if the file's own ladder has another screening rung.
    """
    screen = None
    with Faults() as faults:
        if subject.screen is None:
            if given:
                message = f"there is no safety screen for {subject.words.many}; leave this out"
                faults.add(("safety",), message, on_key=True)
            return ladder
        if safety.screen and find_verifier(subject.screen) is None:
            faults.add(("ladder",), f'the safety screen "{subject.screen}" is not installed; install sciagent whole')
        elif safety.screen:
            screen = RungSpec.model_validate({"verifier": subject.screen, "settings": safety.settings()})
        stated = screen is not None and ladder[0].model_dump() == screen.model_dump()
        others = ladder[1:] if stated else ladder
        for i, rung in enumerate(others, int(stated)):
            if rung.verifier == subject.screen:
                message = "sciagent puts the safety screen first; leave this rung out"
                hint = "turn it off, or exempt single rules, under the key safety, with a reason"
                faults.add(("ladder", i, "verifier"), message, hint)
            elif screen is not None and rung.rung == screen.rung:
                faults.add(("ladder", i, "rung"), f'"{rung.rung}" is the label of the safety screen')
    return others if screen is None else (screen, *others)
