"""The safety screen in a campaign: first rung of every ladder of molecules, unless the file gives a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from sciagent.campaign.spec.goals import NAME, Part
from sciagent.campaign.spec.rungs import RungSpec, default_label, find_verifier
from sciagent.errors import did_you_mean
from sciagent.yaml.faults import Faults

SCREEN = "molecule.safety"
_REASON = "say why, in a sentence that a colleague can judge: three words and 15 characters at least"


class ExtraSmartsSpec(Part):
    """A pattern of one's own, refused like those that ship."""

    name: str = Field(pattern=NAME, description="Name, different from that of any other safety rule.")
    smarts: str = Field(min_length=1, description="SMARTS; a match is refused.")
    reason: str = Field(description="Why, in plain words; shown with every refusal.")
    group: Literal["explosive", "acute_hazard", "chemical_weapon"] = Field(
        default="acute_hazard", description="The reason under which a refusal is counted."
    )


class SafetySpec(Part):
    """What the safety screen refuses. Turned off, or softened, only with a reason."""

    screen: bool = Field(default=True, strict=True, description="False turns the screen off; needs a reason.")
    allow: tuple[str, ...] = Field(
        default_factory=tuple, description="Safety rules that do not refuse in this campaign; needs a reason."
    )
    extra_smarts: tuple[ExtraSmartsSpec, ...] = Field(
        default_factory=tuple, description="Patterns beyond those that ship."
    )
    reason: str = Field(default="", max_length=1000, description="Why the screen is off, or softened.")

    @field_validator("allow")
    @classmethod
    def _rules_there_are(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if (found := find_verifier(SCREEN)) is None:
            return value
        known: Sequence[str] = getattr(found, "rule_names")()  # noqa: B009  (of the plug-in, not of the contract)
        faults = Faults()
        for i, name in enumerate(value):
            if name not in known:
                message = f'no safety rule is named "{name}"{did_you_mean(name, known)}'
                faults.add((i,), message, "sciagent refuses with the rule's name first; docs/safety.md lists them")
        faults.raise_any()
        return value

    @field_validator("extra_smarts")
    @classmethod
    def _taken_by_the_screen(cls, value: tuple[ExtraSmartsSpec, ...]) -> tuple[ExtraSmartsSpec, ...]:
        if (found := find_verifier(SCREEN)) is None or not value:
            return value
        faults = Faults()
        try:
            found.Settings.model_validate({"extra_smarts": [one.model_dump() for one in value]})
        except ValidationError as error:
            for one in error.errors(include_url=False):
                faults.add(one["loc"][1:], str(one["msg"]).removeprefix("Value error, "))
        faults.raise_any()
        return value

    @model_validator(mode="after")
    def _reasoned(self) -> SafetySpec:
        faults = Faults()
        if not self.screen and (self.allow or self.extra_smarts):
            faults.add(("screen",), "is false, and allow or extra_smarts would have no effect; keep one of them")
        if (not self.screen or self.allow) and not is_reason(self.reason):
            what = "turning the safety screen off" if not self.screen else "exempting safety rules"
            faults.add(("reason",), f"{what} needs a reason", _REASON, on_key=True)
        faults.raise_any()
        return self

    def settings(self) -> dict[str, Any]:
        """For the verifier."""
        given = {"allow": list(self.allow), "extra_smarts": [one.model_dump() for one in self.extra_smarts]}
        return {key: value for key, value in given.items() if value}


def is_reason(text: str) -> bool:
    """Whether a text says something: three words with letters, 15 characters."""
    words = {word.lower() for word in text.split() if sum(c.isalpha() for c in word) >= 2}
    return len(" ".join(text.split())) >= 15 and len(words) >= 3


def screened(ladder: tuple[RungSpec, ...], safety: SafetySpec, given: bool, subject: str) -> tuple[RungSpec, ...]:
    """The ladder with the screen as its first rung, where the file does not name it. given: `safety:` is in the file.

    Raises ValidationError where the ladder's own screen stands elsewhere, is softened without a reason, or is
    contradicted.
    """
    faults = Faults()
    places = [i for i, rung in enumerate(ladder) if rung.verifier == SCREEN]
    if subject != "molecule":
        if given:
            faults.add(("safety",), "the safety screen is for molecules; leave this out", on_key=True)
        faults.raise_any()
        return ladder
    if not places:
        if safety.screen and default_label(SCREEN) in [rung.label for rung in ladder]:
            where = [rung.label for rung in ladder].index(default_label(SCREEN))
            faults.add(("ladder", where, "rung"), f'"{default_label(SCREEN)}" is the label of the safety screen')
        if safety.screen and find_verifier(SCREEN) is None:
            faults.add(("ladder",), f'the safety screen "{SCREEN}" is not installed; install sciagent whole')
        faults.raise_any()
        return (
            (RungSpec.model_validate({"verifier": SCREEN, "settings": safety.settings()}), *ladder)
            if safety.screen
            else ladder
        )
    own = ladder[places[0]]
    if not safety.screen:
        faults.add(("ladder", places[0], "verifier"), "safety.screen is false; leave this rung out, or the switch")
    elif places != [0]:
        late = next(i for i in places if i != 0)
        faults.add(
            ("ladder", late, "verifier"), "the safety screen comes first, and once", "or leave it out: it is put there"
        )
    if own.on_refusal != "drop":
        message = "the safety screen drops what it refuses"
        faults.add(
            ("ladder", places[0], "on_refusal"), message, "exempt single rules by safety: {allow: [...], reason: ...}"
        )
    if safety.settings() and own.settings and safety.settings() != own.settings:
        faults.add(("safety",), f"ladder[{places[0]}].settings says it too; say it in one place", on_key=True)
    if own.settings.get("allow") and not is_reason(safety.reason):
        faults.add(("ladder", places[0], "settings", "allow"), "exempting safety rules needs safety.reason", _REASON)
    faults.raise_any()
    if safety.settings() and not own.settings:
        own = own.with_settings(safety.settings())
    return (own, *ladder[1:])


__all__ = ["SCREEN", "ExtraSmartsSpec", "SafetySpec", "is_reason", "screened"]
