"""The edits of crystals, as an edit set."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals import edits
from sciagent.chemistry.crystals.edits import CrystalLimits, CrystalPlace
from sciagent.chemistry.crystals.family import family
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.edit_set import EditSet
from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import content_hash

MOST_SITES = 40
"""Largest number of sites in the primitive cell of a child, unless a campaign file states another."""
LISTED = 40
"""Most places of a crystal that are listed for a model."""


class CrystalEdits(EditSet):
    """Substitutions, decorations, distortions and changes of orbits of crystals."""

    named = edits.NAMED
    operations = edits.OPERATIONS
    shares = edits.SHARES

    def __init__(self, subject: Subject) -> None:
        """subject: reads and writes the notations."""
        self._subject = subject

    @cached_property
    def tables_hash(self) -> str:
        return content_hash({name: [edit.kind, list(edit.whats)] for name, edit in edits.NAMED.items()})

    def limits(self, checks: Sequence[Any] = (), size: int | None = None) -> CrystalLimits:
        """Returns the limits of the last rung of checks, and the smallest of the maximum sizes."""
        most = MOST_SITES if size is None else size
        if not checks:
            return CrystalLimits(max_sites=most)
        last = checks[-1]
        return CrystalLimits(
            elements=None if last.elements is None else tuple(last.elements),
            max_sites=min(most, *(each.max_sites for each in checks)),
        )

    def too_large(self, candidate: Candidate, limits: CrystalLimits) -> str | None:
        most = limits.max_sites
        n = candidate.n_atoms
        return None if n <= most else f"{n} atoms in the primitive cell are too many to edit; the limit is {most}"

    def mutate(self, text: str, rng: random.Random, operation: str, limits: CrystalLimits) -> str | None:
        child = edits.mutate(self._read(text), rng, operations=(operation,), limits=limits)
        return None if child is None else self._subject.notation(child[0])

    def group(self, text: str) -> str:
        return family(self._read(text))

    def sites(self, text: str) -> Sequence[CrystalPlace]:
        return edits.sites(self._read(text))

    def described_sites(self, candidate: Candidate) -> list[str]:
        assert isinstance(candidate, Crystal)
        places = edits.sites(candidate)[:LISTED]
        groups: dict[str, list[str]] = {}
        for place in places:
            fitting = ", ".join(edit.name for edit in edits.NAMED.values() if edit.fits(place))
            groups.setdefault(fitting, []).append(f"{place.number} {place.name}")
        return ["sites, number name:", *(f"{fitting}: {'; '.join(texts)}" for fitting, texts in groups.items())]

    def choices(
        self, text: str, edit: str, what: str | None = None, where: int | None = None
    ) -> list[tuple[str, CrystalPlace]]:
        return edits.choices(self._read(text), edit, what, where)

    def children(self, text: str, edit: str, what: str | None, where: int, limits: CrystalLimits) -> list[str]:
        found = edits.children(self._read(text), edit, what, where, limits)
        return [self._subject.notation(child) for child in found]

    def _read(self, text: str) -> Crystal:
        crystal = self._subject.read(text)
        assert isinstance(crystal, Crystal)
        return crystal
