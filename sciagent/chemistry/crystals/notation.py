"""Text notations of crystals: reads every one that people use, within bounds, and writes one line without loss."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.cell import MAX_CHARACTERS
from sciagent.chemistry.crystals.cif import crystal_from_cif, is_cif
from sciagent.chemistry.crystals.contacts import electronegativity
from sciagent.chemistry.crystals.family import REMEMBERED, family
from sciagent.chemistry.crystals.plain_formats import (
    crystal_from_json,
    crystal_from_poscar,
    crystal_from_xyz,
    is_extended_xyz,
)
from sciagent.chemistry.crystals.prototypes import (
    Prototype,
    crystal_from_shorthand,
    decorated,
    is_shorthand,
    prototypes,
)
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError

MAX_ASSIGNMENTS = 24
"""Largest number of assignments of elements to the places of a prototype that are tried."""


def read_crystal(text: str) -> Crystal:
    """Returns the crystal of a CIF, POSCAR, extended XYZ, JSON (ours or pymatgen's) or shorthand `rocksalt: Na Cl`.

    Raises InvalidCandidateError for any other text. Time and memory are bounded by the length of the text, the number
    of sites and the shape of the cell, which are checked before anything is computed.
    """
    if not isinstance(text, str):
        raise InvalidCandidateError(Reason.NOT_TEXT, f"a {type(text).__name__}, not a text")
    if len(text) > MAX_CHARACTERS:
        raise InvalidCandidateError(Reason.TOO_LONG, f"{len(text)} characters; at most {MAX_CHARACTERS}")
    if not text.strip():
        raise InvalidCandidateError(Reason.EMPTY, "no text")
    if any(ord(c) < 32 and c not in "\t\n\r\f\v" for c in text):
        raise InvalidCandidateError(Reason.NOT_TEXT, "the text holds control characters")
    text = text.lstrip("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        return crystal_from_json(text)
    if is_cif(text):
        return crystal_from_cif(text)
    if is_shorthand(text):
        return crystal_from_shorthand(text)
    if is_extended_xyz(text):
        return crystal_from_xyz(text)
    return crystal_from_poscar(text)


@lru_cache(maxsize=REMEMBERED)
def write_notation(crystal: Crystal) -> str:
    """Returns one line that `read_crystal` reads back to the same key: the shorthand if it does, else our JSON."""
    for prototype in prototypes().values():
        if prototype.family == family(crystal) and (text := _shorthand(prototype, crystal)):
            return text
    return payload_notation(crystal.payload())


def payload_notation(payload: Mapping[str, Any]) -> str:
    """Returns the payload of a crystal as one line of JSON."""
    return json.dumps(payload, separators=(",", ":"))


def _shorthand(prototype: Prototype, crystal: Crystal) -> str:
    """Returns the shorthand of a crystal in a prototype; empty if no assignment of its elements gives its key."""
    counts = Counter(crystal.species)
    assignments = itertools.islice(
        itertools.permutations(sorted(counts, key=lambda symbol: electronegativity(symbol) or 5.0)), MAX_ASSIGNMENTS
    )
    for elements in assignments:
        if not prototype.fits([counts[element] for element in elements]):
            continue
        if decorated(prototype.name, elements).key == crystal.key:
            return f"{prototype.name}: {' '.join(elements)}"
    return ""
