"""The key `standardise` of a campaign file as a mapping: fragments and protonation state of proposed structures."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, WrapValidator

from sciagent.campaign.spec.goals import Finite, Part
from sciagent.chemistry.protonation import LIBRARY, MISSING
from sciagent.yaml.document import kind_of
from sciagent.yaml.validation import fault

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
