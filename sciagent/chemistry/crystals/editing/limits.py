"""Bounds on the crystals that edits return, and the check of each child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.contacts import shortest_contact
from sciagent.chemistry.crystals.scaling import rescaled
from sciagent.errors import InvalidCandidateError


@dataclass(frozen=True)
class CrystalLimits:
    """Bounds on the crystals that edits may return."""

    elements: tuple[str, ...] | None = None
    """Allowed elements; None: all."""
    min_sites: int = 1
    max_sites: int = 60
    """Largest number of sites in the primitive cell."""
    min_elements: int = 1
    max_elements: int = 6
    min_contact: float = 0.6
    """Smallest distance of any two atoms over the sum of their radii, after the cell has been rescaled."""

    def allows(self, symbol: str) -> bool:
        """Returns whether an element is allowed."""
        return self.elements is None or symbol in self.elements


ANY = CrystalLimits()


def accepted(structure: Any, parent: Crystal, limits: CrystalLimits) -> Crystal | None:
    """Returns the crystal of an edited structure, at the volume of its radii; None if it is outside the limits or is
    its parent."""
    symbols = {site.specie.symbol for site in structure}
    if not limits.min_elements <= len(symbols) <= limits.max_elements or not all(map(limits.allows, symbols)):
        return None
    try:
        scaled = rescaled(structure)
        if shortest_contact(scaled) < limits.min_contact:
            return None
        child = crystal_from_structure(scaled)
    except InvalidCandidateError:
        return None
    if not limits.min_sites <= child.n_atoms <= limits.max_sites or child == parent:
        return None
    return child
