"""The keys `subject` and `standardise` of a campaign file, and what a subject asks of its other keys."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, WrapValidator
from pydantic_core import PydanticCustomError

from sciagent.campaign.file.goals import Finite, Part
from sciagent.campaign.spec.safety import check_settings
from sciagent.chemistry.subjects.base import Reading, Subject
from sciagent.chemistry.subjects.protonation import LIBRARY, MISSING
from sciagent.chemistry.subjects.registry import subject_names, subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.document import kind_of
from sciagent.inputs.validation import Faults, fault
from sciagent.yaml.files import check_path

if TYPE_CHECKING:
    from sciagent.campaign.file.sources import OneProposerSpec, ProposerSpec


def _installed(value: str) -> str:
    """Returns the name of a subject. Raises a fault if no package offers it, or if it does not load."""
    known = subject_names()
    if value not in known:
        raise fault(f'"{value}" is no subject{did_you_mean(value, known)}', f"takes: {', '.join(known)}")
    try:
        subject_of(value)
    except UsageError as error:
        raise fault(str(error)) from None
    return value


SubjectName = Annotated[str, AfterValidator(_installed)]

Fragments = Literal["refuse", "parent"]
_WORD: TypeAdapter[Fragments] = TypeAdapter(Fragments)


def _can_be_set(ph: float) -> float:
    """Returns the pH. Raises a fault if the library of protonation states is not installed."""
    if find_spec(LIBRARY) is None:
        raise fault(MISSING)
    return ph


class StandardiseSpec(Part):
    """The rules by which a proposed structure becomes a candidate."""

    fragments: Fragments = Field(
        "parent", description="A structure of several fragments: refuse it, or keep the parent molecule, neutralised."
    )
    ph: Annotated[Finite, Field(ge=0, le=14), AfterValidator(_can_be_set)] | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="The candidate is the dominant protonation state at this pH in water, by the pKa rules of "
        "dimorphite_dl; default: hydrogens stay as they are.",
    )


def _word_or_mapping(value: Any, _: Any) -> Fragments | StandardiseSpec:
    """Returns the treatment of fragments, whether written as a word or as a mapping without a pH; else the mapping."""
    if isinstance(value, str):
        return _WORD.validate_python(value)
    if not isinstance(value, dict | StandardiseSpec):
        raise fault(f"must be refuse, parent or a mapping, not {kind_of(value)}", "such as {ph: 7.4}")
    stated = StandardiseSpec.model_validate(value)
    return stated.fragments if stated.ph is None else stated


Standardise = Annotated[Fragments | StandardiseSpec, WrapValidator(_word_or_mapping)]


def check_proposer(subject: Subject, proposer: ProposerSpec, info: ValidationInfo) -> None:
    """Raises faults if a proposer cannot propose candidates of the subject, or names a file that cannot be read."""
    with Faults() as faults:
        for path, chosen in _by_path(proposer):
            if why := _misfit(subject, chosen):
                faults.add((*path, why[0]), why[1], on_key=why[0] != "kind")
            for where, name in _structure_files(chosen).items():
                if not subject.is_file_of(name):
                    message, takes = f'"{name}" is no table of {subject.words.many}', ", ".join(subject.formats)
                    faults.add((*path, *where), message, f"takes: {takes}, each also with .gz")
                    continue
                try:
                    check_path(name, info, folders=not Path(name).suffix)
                except PydanticCustomError as error:
                    faults.take((*path, *where), error)


def _by_path(proposer: ProposerSpec) -> list[tuple[tuple[str, ...], OneProposerSpec]]:
    """Returns the proposers with their path of keys below the key `proposer`."""
    if proposer.kind == "several":
        return [(("proposers", name), chosen) for name, chosen in proposer.proposers.items()]
    return [((), proposer)]


def _structure_files(chosen: OneProposerSpec) -> Mapping[tuple[str, ...], str]:
    """Returns the names of the files with structures; a plug-in's own file is none."""
    files = chosen.files()
    return {path: name for path, name in files.items() if not (chosen.kind == "plugin" and path == ("file",))}


def stated_column(chosen: OneProposerSpec) -> str | None:
    """Returns the column of a csv with the structures; None if the file does not state it."""
    return getattr(chosen, "column", None) if "column" in chosen.model_fields_set else None


def _misfit(subject: Subject, chosen: OneProposerSpec) -> tuple[str, str] | None:
    """Returns the key that does not fit the subject, and why; None if all fit."""
    if chosen.kind == "enumerate" and subject.name != MOLECULE_KIND:
        return "kind", f"enumerate combines molecules, not {subject.words.many}"
    if chosen.kind in ("evolve", "llm") and subject.edits is None:
        return "kind", f'the subject "{subject.name}" has no edits; use screen'
    if chosen.kind == "evolve":
        other = "max_sites" if subject.name == MOLECULE_KIND else "max_heavy_atoms"
        if other in chosen.model_fields_set:
            return other, f"has no effect on {subject.words.many}; leave it out"
    return None


def reading_of(subject: Subject, standardise: Standardise) -> Reading:
    """Returns the rules by which the text of a proposal becomes a candidate.

    Raises ValueError for a value that the subject does not take."""
    return subject.reading(standardise if isinstance(standardise, str) else standardise.model_dump())


def check_part(name: str, value: Any, info: ValidationInfo) -> None:
    """Raises a fault if the subject of the campaign does not take this value of the key `name`."""
    if (stated := info.data.get("subject")) is None:
        return
    subject = subject_of(stated)
    if name == "proposer":
        check_proposer(subject, value, info)
    elif name == "safety":
        check_settings(value, subject)
    else:
        try:
            reading_of(subject, value)
        except ValueError as error:
            raise fault(str(error)) from None
