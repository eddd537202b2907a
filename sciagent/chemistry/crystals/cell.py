"""Builds crystals from a cell and its sites within bounds of size and time, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciagent.chemistry.crystal import MAX_SITES, NO_PYMATGEN, Crystal, crystal_from_structure
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError, UsageError

MAX_CHARACTERS = 1_000_000
"""Longest text of one structure. A CIF of 500 atoms has 50,000; published ones with reflections have more."""
MAX_LENGTH = 1000.0
"""Longest lattice vector, in angstrom."""
MIN_HEIGHT = 0.5
"""Smallest distance between opposite faces of the reduced cell, in angstrom; flatter cells have too many images."""


def crystal_of(lattice: Any, species: Sequence[str], coordinates: Any) -> Crystal:
    """Returns the crystal with these lattice vectors (rows, in angstrom), symbols and fractional coordinates.

    Raises InvalidCandidateError for anything that is no crystal of at most MAX_SITES sites.
    """
    try:
        from pymatgen.core import Element, Lattice, Structure
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error

    if not 0 < len(species) <= MAX_SITES:
        reason = Reason.TOO_LARGE if species else Reason.EMPTY
        raise InvalidCandidateError(reason, f"{len(species)} sites; between 1 and {MAX_SITES}")
    unknown = next((symbol for symbol in species if not Element.is_valid_symbol(symbol)), None)
    if unknown is not None:
        raise InvalidCandidateError(Reason.UNKNOWN_ELEMENT, f'"{str(unknown)[:20]}" is not an element')
    try:
        structure = Structure(Lattice(lattice), list(species), coordinates)
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise InvalidCandidateError(Reason.UNPARSABLE, f"no cell with sites: {error}"[:300]) from error
    return bounded_crystal(structure)


def bounded_crystal(structure: Any) -> Crystal:
    """Returns the crystal of a pymatgen Structure whose cell is checked first. Raises InvalidCandidateError."""
    import numpy as np

    matrix = structure.lattice.matrix
    if not np.isfinite(matrix).all():
        raise InvalidCandidateError(Reason.NOT_FINITE, "the cell is not made of finite numbers")
    longest = float(np.linalg.norm(matrix, axis=1).max())
    if longest > MAX_LENGTH:
        raise InvalidCandidateError(
            Reason.TOO_LARGE, f"a lattice vector of {longest:.4g} angstrom; {MAX_LENGTH:g} at most"
        )
    if _height(matrix) < 2 * MIN_HEIGHT:
        structure = _reduced(structure)
    return crystal_from_structure(structure)


def _reduced(structure: Any) -> Any:
    """Returns the structure in its most compact cell. Raises InvalidCandidateError if the cell is flat even then."""
    import numpy as np

    if abs(np.linalg.det(structure.lattice.matrix)) > 1e-3:
        compact = structure.get_reduced_structure(reduction_algo="LLL")
        if _height(compact.lattice.matrix) >= MIN_HEIGHT:
            return compact
    raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, f"the cell is flatter than {MIN_HEIGHT} angstrom")


def _height(matrix: Any) -> float:
    """Returns the smallest distance between opposite faces of a cell, in angstrom; 0 for a flat one."""
    import numpy as np

    volume = abs(np.linalg.det(matrix))
    faces = [np.linalg.norm(np.cross(matrix[i - 2], matrix[i - 1])) for i in range(3)]
    return float(volume / max(faces)) if max(faces) > 0 else 0.0
