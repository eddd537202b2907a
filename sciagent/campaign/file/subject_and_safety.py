"""The keys `subject` and `standardise` of a campaign file, and what a subject asks of the other keys of the file.

What the subject asks for includes the safety screen: the first rung of every ladder, unless the file turns it off with
a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from sciagent.campaign.file.objectives_and_budget import Finite
from sciagent.campaign.file.rungs import RungSpec, find_verifier
from sciagent.chemistry.subjects.base import Reading, Subject
from sciagent.chemistry.subjects.fragments_and_protonation import LIBRARY, MISSING, MOST_FORMS
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.yaml_document import kind_of
from sciagent.inputs.yaml_validation import NAME, Faults, Part, check_path, fault

if TYPE_CHECKING:
    from sciagent.campaign.file.proposers import OneProposerSpec, ProposerSpec


MIN_REASON_CHARACTERS = 15
MIN_REASON_WORDS = 3  # different words with at least two letters
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
    # left out of the stored file while empty, so that files of molecules keep their hashes
    extra_elements: tuple[ExtraElementsSpec, ...] = omitted_if_unset(
        default_factory=tuple, description="Additional elements to refuse; for crystals."
    )
    reason: str = Field(
        default="", max_length=1000, description="Reason for which the screen is off, or rules are exempt."
    )

    @model_validator(mode="after")
    def _has_reason(self) -> SafetySpec:
        with Faults() as faults:
            if not self.screen and self.settings():
                rules = "allow, extra_smarts or extra_elements"
                faults.add(("screen",), f"is false, and {rules} would have no effect; keep one of them")
            if (not self.screen or self.allow) and not is_reason(self.reason):
                what = "turning the safety screen off" if not self.screen else "exempting safety rules"
                # on_key: the message points to the key, not to its value
                faults.add(("reason",), f"{what} needs a reason", _REASON, on_key=True)
        return self

    def settings(self) -> Mapping[str, Any]:
        """Returns the settings of the screening verifier."""
        given = self.model_dump(mode="json", include={"allow", "extra_smarts", "extra_elements"})
        return {key: value for key, value in given.items() if value}


def check_settings(safety: SafetySpec, subject: Subject) -> None:
    """Raises ValidationError if the verifier that screens does not take the settings of the key `safety`."""
    settings = safety.settings()
    screen = subject.screen
    verifier = None if screen is None else find_verifier(screen)
    if not settings or verifier is None:
        return
    taken = verifier.Settings.model_fields
    with Faults() as faults:
        for key in sorted(set(settings) - set(taken)):
            known = ", ".join(key for key in SafetySpec.model_fields if key in taken)
            faults.add((key,), f"the screen of {subject.words.many} takes no such rules; it takes {known}", on_key=True)
    verifier.Settings.model_validate(settings)


def is_reason(text: str) -> bool:
    """Whether a text is long enough for a reason."""
    words = text.split()
    real_words = {word.lower() for word in words if sum(character.isalpha() for character in word) >= 2}
    return len(" ".join(words)) >= MIN_REASON_CHARACTERS and len(real_words) >= MIN_REASON_WORDS


def screened(ladder: tuple[RungSpec, ...], safety: SafetySpec, given: bool, subject: Subject) -> tuple[RungSpec, ...]:
    """Returns the ladder with the safety screen as its first rung, unless the file turns it off.

    given: whether the file has the key `safety`.
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
        # the ladder may begin with this very screen already, which is no fault
        begins_with_screen = screen is not None and ladder[0].model_dump() == screen.model_dump()
        start = 1 if begins_with_screen else 0
        others = ladder[start:]
        for i, rung in enumerate(others, start):
            if rung.verifier == subject.screen:
                message = "sciagent puts the safety screen first; leave this rung out"
                hint = "turn it off, or exempt single rules, under the key safety, with a reason"
                faults.add(("ladder", i, "verifier"), message, hint)
            elif screen is not None and rung.rung == screen.rung:
                faults.add(("ladder", i, "rung"), f'"{rung.rung}" is the label of the safety screen')
    return others if screen is None else (screen, *others)


def _existing_subject(value: str) -> str:
    """Returns the name of a subject. Raises a fault if no package offers it, or if it does not load."""
    known = subject_names()
    if value not in known:
        raise fault(f'"{value}" is no subject{did_you_mean(value, known)}', f"takes: {', '.join(known)}")
    try:
        subject_of(value)
    except UsageError as error:
        raise fault(str(error)) from None
    return value


SubjectName = Annotated[str, AfterValidator(_existing_subject)]

Fragments = Literal["refuse", "parent"]
_FRAGMENTS_ADAPTER: TypeAdapter[Fragments] = TypeAdapter(Fragments)


def _ph_if_installed(ph: float) -> float:
    """Returns the pH. Raises a fault if the library of protonation states is not installed."""
    if find_spec(LIBRARY) is None:
        raise fault(MISSING)
    return ph


class StandardiseSpec(Part):
    """The rules by which a proposed structure becomes a candidate."""

    fragments: Fragments = Field(
        "parent", description="A structure of several fragments: refuse it, or keep the parent molecule, neutralised."
    )
    ph: Annotated[Finite, Field(ge=0, le=14), AfterValidator(_ph_if_installed)] | None = omitted_if_unset(
        None,
        description="The candidate is the dominant protonation state at this pH in water, by the pKa rules of "
        "dimorphite_dl; default: hydrogens stay as they are.",
    )
    stereo: Literal["enumerate"] | None = omitted_if_unset(
        None,
        description="`enumerate`: each stereoisomer of a structure with undefined stereo is a candidate of its own; "
        "default: the structure as it is written, computed for one isomer that the evidence names.",
    )
    tautomers: Literal["enumerate"] | None = omitted_if_unset(
        None,
        description="`enumerate`: each tautomer of a structure, by RDKit's rules, is a candidate of its own; default: "
        "the structure as it is written.",
    )
    most: int = omitted_if_unset(
        MOST_FORMS,
        ge=2,
        le=64,
        description="Largest number of stereoisomers and tautomers of a structure that become candidates: first those "
        "of the tautomer as written, then of others by RDKit's score; of mirror images one first, by their SMILES.",
    )

    @model_validator(mode="after")
    def _most_has_an_effect(self) -> StandardiseSpec:
        with Faults() as faults:
            if "most" in self.model_fields_set and not (self.stereo or self.tautomers):
                hint = "add stereo: enumerate or tautomers: enumerate, or leave it out"
                faults.add(("most",), "has no effect without enumeration", hint, on_key=True)
        return self


def _word_or_mapping(value: Any, _: Any) -> Fragments | StandardiseSpec:
    """Returns the treatment of fragments, as a word, if the value states nothing else; else the whole mapping."""
    if isinstance(value, str):
        return _FRAGMENTS_ADAPTER.validate_python(value)
    if not isinstance(value, dict | StandardiseSpec):
        raise fault(f"must be refuse, parent or a mapping, not {kind_of(value)}", "such as {ph: 7.4}")
    stated = StandardiseSpec.model_validate(value)
    is_only_a_word = stated.ph is None and stated.stereo is None and stated.tautomers is None
    return stated.fragments if is_only_a_word else stated


Standardise = Annotated[Fragments | StandardiseSpec, WrapValidator(_word_or_mapping)]


def check_proposer(subject: Subject, proposer: ProposerSpec, info: ValidationInfo) -> None:
    """Raises faults if a proposer cannot propose candidates of the subject, or names a file that cannot be read."""
    with Faults() as faults:
        for path, chosen in _by_path(proposer):
            misfit = _misfit(subject, chosen)
            if misfit is not None:
                key, message = misfit
                faults.add((*path, key), message, on_key=key != "kind")
            for where, name in _structure_files(chosen).items():
                if not subject.is_file_of(name):
                    message = f'"{name}" is no table of {subject.words.many}'
                    takes = ", ".join(subject.formats)
                    faults.add((*path, *where), message, f"takes: {takes}, each also with .gz")
                    continue
                may_be_folder = not Path(name).suffix  # a folder of structures, one in each file
                try:
                    check_path(name, info, folders=may_be_folder)
                except PydanticCustomError as error:
                    faults.take((*path, *where), error)


def _by_path(proposer: ProposerSpec) -> list[tuple[tuple[str, ...], OneProposerSpec]]:
    """Returns the proposers with their path of keys below the key `proposer`."""
    if proposer.kind == "several":
        return [(("proposers", name), chosen) for name, chosen in proposer.proposers.items()]
    return [((), proposer)]


def _structure_files(chosen: OneProposerSpec) -> Mapping[tuple[str, ...], str]:
    """Returns the names of the files with structures, by their path of keys."""
    files = dict(chosen.files())
    if chosen.kind == "plugin":
        files.pop(("file",), None)  # the plug-in's own file holds code
    return files


def stated_column(chosen: OneProposerSpec) -> str | None:
    """Returns the column of a csv with the structures; None if the file does not state it."""
    return getattr(chosen, "column", None) if "column" in chosen.model_fields_set else None


def _misfit(subject: Subject, chosen: OneProposerSpec) -> tuple[str, str] | None:
    """Returns the key that does not fit the subject, and why; None if all fit."""
    if chosen.kind == "enumerate" and subject.name != MOLECULE_KIND:
        return "kind", f"enumerate combines molecules, not {subject.words.many}"
    if chosen.kind in ("evolve", "law", "llm") and subject.edits is None:
        return "kind", f'the subject "{subject.name}" has no edits; use screen'
    if chosen.kind in ("evolve", "law"):
        limit_of_other_kind = "max_sites" if subject.name == MOLECULE_KIND else "max_heavy_atoms"
        if limit_of_other_kind in chosen.model_fields_set:
            return limit_of_other_kind, f"has no effect on {subject.words.many}; leave it out"
    return None


def reading_of(subject: Subject, standardise: Standardise) -> Reading:
    """Returns the rules by which the text of a proposal becomes a candidate.

    Raises ValueError for a value that the subject does not take."""
    return subject.reading(standardise if isinstance(standardise, str) else standardise.model_dump())


def check_value_for_subject(name: str, value: Any, info: ValidationInfo) -> None:
    """Raises a fault if the subject of the campaign does not take this value of the key `name`."""
    subject_name = info.data.get("subject")
    if subject_name is None:
        return
    subject = subject_of(subject_name)
    if name == "proposer":
        check_proposer(subject, value, info)
    elif name == "safety":
        check_settings(value, subject)
    else:
        try:
            reading_of(subject, value)
        except ValueError as error:
            raise fault(str(error)) from None
