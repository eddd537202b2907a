"""Drawings of candidates, whatever they are."""

from __future__ import annotations

from functools import lru_cache

from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.values import StructureText
from sciagent.domain.candidates import Candidate

KEPT = 2048


@lru_cache(KEPT)
def drawn(kind: str, notation: str, width: int = 260, height: int = 190) -> str:
    """Returns an SVG with colours from CSS; an empty text if the notation cannot be drawn."""
    return subject_of(kind).drawing(notation, width, height) if notation else ""


def structure_text(candidate: Candidate) -> StructureText:
    """Returns a candidate as text, with what it is drawn from."""
    notation = subject_of(candidate.kind).notation(candidate)
    return StructureText(kind=candidate.kind, text=candidate.text, drawn_from=notation)
