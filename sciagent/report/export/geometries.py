"""The geometry of a candidate for exports: what a rung stored, else the structure as it was proposed."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from sciagent.chemistry.subjects.registry import subject_of
from sciagent.errors import SciagentError
from sciagent.report.parts.table import Entry, geometry
from sciagent.store.database.artifacts import ArtifactStore


def atoms_of(entry: Entry, artifacts: ArtifactStore) -> tuple[Any | None, str]:
    """Returns an ASE Atoms (angstrom) from a stored geometry, else of the structure as proposed, and its origin; None
    without coordinates."""
    from ase.io import read

    if geometry_file := geometry(artifacts, entry.answers):
        text, form, answer = geometry_file
        with suppress(ValueError, IndexError, KeyError, OSError):
            return read(io.StringIO(text), format=form), f"{answer.rung}, evidence {answer.key}"
    with suppress(SciagentError):
        if (atoms := subject_of(entry.candidate.kind).atoms(entry.candidate.payload)) is not None:
            return atoms, "as proposed"
    return None, ""
