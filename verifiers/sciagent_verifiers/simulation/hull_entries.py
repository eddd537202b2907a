"""Energies of phases from a user's file, such as those of the Materials Project, that span a hull.

The file is JSON: `{"functional": "PBE+U", "correction": "MP2020", "entries": [{"name": "mp-22862", "formula": "NaCl",
"energy_per_atom": -3.696}, …]}`. It must hold every element of a candidate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sciagent.verification.contract import ReferenceFile
from sciagent_simulators.potentials.known_phases import KnownPhases, Phase
from sciagent_simulators.potentials.potential import EnergyScale

MAX_BYTES = 200_000_000


class HullEntry(BaseModel):
    """A phase of the file."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    formula: str = Field(min_length=1, max_length=200, description="Such as Na1 Cl1 or NaCl.")
    energy_per_atom: float = Field(allow_inf_nan=False, ge=-1000, le=1000, description="In eV per atom.")
    name: str = Field("", max_length=200, description="What results call it; default: the formula.")


class HullFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    functional: str = Field(description="Such as PBE+U.")
    correction: str = Field(description="uncorrected or MP2020.")
    entries: Sequence[HullEntry] = Field(min_length=1, description="The phases.")


@lru_cache(maxsize=4)
def read_entries(path: Path, sha256: str) -> HullFile:
    """Returns the content of a file. sha256: its hash, so that a changed file is read again. Raises ValueError."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MB")
    try:
        return HullFile.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path.name} is no file of entries: {place}: {first['msg']}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name} is no file of entries: {error}") from error


def scale_fault(file: ReferenceFile, scale: EnergyScale) -> str | None:
    """Returns why energies of this scale cannot be compared with those of the file, or None. Raises ValueError."""
    found = read_entries(Path(file.path), file.sha256)
    theirs = EnergyScale(file.name, found.functional, found.correction)
    if theirs.is_comparable(scale):
        return None
    return f"{file.name} is on the scale {theirs.label}, {scale.model} on {scale.label}; the two do not mix"


def phases_of(file: ReferenceFile, scale: EnergyScale) -> KnownPhases:
    """Returns the phases of the file on the model's scale. Raises SimulatorError if the file has changed."""
    from pymatgen.core import Composition

    content = read_entries(file.check(), file.sha256)
    phases = [
        Phase(entry.name or entry.formula, Composition(entry.formula).get_el_amt_dict(), entry.energy_per_atom)
        for entry in content.entries
    ]
    return KnownPhases(tuple(phases), scale)
