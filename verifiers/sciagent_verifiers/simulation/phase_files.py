"""Files of phases whose energies a user brings: the hull of `energy_above_hull`.

A file is JSON, also with `.gz`, in one of two forms:

- `{"functional": "PBE+U", "correction": "MP2020", "entries": [{"name": "mp-22862", "formula": "NaCl",
  "energy_per_atom": -3.696}, …]}`
- a list of pymatgen's ComputedEntry or ComputedStructureEntry, as the Materials Project gives them. Their `energy` is
  raw, so the file counts as uncorrected; the functional is that of the `run_type` in their parameters. Corrections
  that some oxides and fluorides have and others lack are a mixture, and the file is refused. Entries with symbols that
  are no elements are left out and counted.

Raw energies of PBE+U get the corrections MP2020 before they are compared. The file must hold every element of a
candidate.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ase.data import chemical_symbols
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sciagent.verification.verifier_contract import ReferenceFile
from sciagent_simulators.potentials.materials_project_corrections import ANIONS_WITH_U, compared_on, on_mp2020
from sciagent_simulators.potentials.potential_base_and_registry import UNCORRECTED, Energy, EnergyScale
from sciagent_simulators.potentials.relaxed_phases_and_hull import KnownPhases, Phase

MAX_BYTES = 200_000_000  # of a file of phases, and of what it unpacks to
FUNCTIONALS = {"GGA": "PBE+U", "GGA+U": "PBE+U", "R2SCAN": "r2SCAN"}
"""Functional by the `run_type` of an entry; calculations without and with a Hubbard U belong to one data set."""
ELEMENTS = frozenset(chemical_symbols[1:])


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
    left_out: int = Field(0, ge=0, description="Number of entries that were left out, since a symbol is no element.")


class ComputedEntryOfFile(BaseModel):
    """The part of pymatgen's ComputedEntry that is read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    composition: Mapping[str, float] = Field(min_length=1, description="Atoms by symbol.")
    energy: float = Field(allow_inf_nan=False, description="Raw energy of all atoms, in eV.")
    correction: float = Field(0.0, allow_inf_nan=False, description="Sum of the corrections of all atoms, in eV.")
    energy_adjustments: Sequence[Mapping[str, Any]] = Field((), description="The corrections one by one.")
    parameters: Mapping[str, Any] = Field(default_factory=dict, description="Those of the calculation.")
    entry_id: str | None = None

    @property
    def is_corrected(self) -> bool:
        """Whether the entry carries a correction."""
        return bool(self.energy_adjustments) or self.correction != 0


@lru_cache(maxsize=4)
def read_entries(path: Path, sha256: str) -> HullFile:
    """Returns the content of a file. sha256: its hash, so that a changed file is read again. Raises ValueError."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MB")
    try:
        content = json.loads(_text(path))
        if isinstance(content, list):
            return _from_computed_entries(content)
        return HullFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path.name} is no file of entries: {place}: {first['msg']}") from error
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path.name} is no file of entries: {error}") from error


def _text(path: Path) -> str:
    """Returns the text of a file, unpacked if its name ends in .gz. Raises ValueError if it unpacks to too much."""
    if path.suffix != ".gz":
        return path.read_text(encoding="utf-8")
    with gzip.open(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES >> 20} MB")
    return content.decode("utf-8")


def _from_computed_entries(rows: Sequence[Any]) -> HullFile:
    """Returns the content of a list of computed entries. Raises ValueError if its energies cannot be compared."""
    computed = [ComputedEntryOfFile.model_validate(row) for row in rows]
    known = [entry for entry in computed if ELEMENTS.issuperset(entry.composition)]
    functionals = set()
    for entry in known:
        run_type = str(entry.parameters.get("run_type"))
        if run_type not in FUNCTIONALS:
            said = f"entry {entry.entry_id} has the run_type {run_type}; known are {', '.join(FUNCTIONALS)}"
            raise ValueError(said)
        functionals.add(FUNCTIONALS[run_type])
    if len(functionals) > 1:
        raise ValueError(f"energies of {' and '.join(sorted(functionals))} do not mix")
    # MP2020 corrects each oxide and fluoride, so that either all of them carry a correction or none
    ionic = [entry for entry in known if len(entry.composition) > 1 and ANIONS_WITH_U & set(entry.composition)]
    if len({entry.is_corrected for entry in ionic}) > 1:
        raise ValueError("some oxides and fluorides carry a correction and others do not, so their energies are mixed")
    phases = [_phase_of_file(entry) for entry in known]
    functional = functionals.pop() if functionals else ""
    return HullFile(functional=functional, correction=UNCORRECTED, entries=phases, left_out=len(computed) - len(known))


def _phase_of_file(entry: ComputedEntryOfFile) -> HullEntry:
    """Returns the phase of a computed entry, with its raw energy. Raises ValueError without atoms."""
    n_atoms = sum(entry.composition.values())
    if n_atoms <= 0 or min(entry.composition.values()) <= 0:
        raise ValueError(f"entry {entry.entry_id} has a composition without atoms")
    formula = " ".join(f"{symbol}{amount:g}" for symbol, amount in entry.composition.items())
    return HullEntry(formula=formula, energy_per_atom=entry.energy / n_atoms, name=entry.entry_id or "")


@lru_cache(maxsize=4)
def elements_alone(path: Path, sha256: str) -> frozenset[str]:
    """Returns the elements of which a file has a phase of their own. Raises ValueError as `read_entries` does."""
    from pymatgen.core import Composition

    symbols = set()
    for entry in read_entries(path, sha256).entries:
        amounts = Composition(entry.formula).get_el_amt_dict()
        if len(amounts) == 1:
            symbols |= amounts.keys()
    return frozenset(symbols)


def scale_fault(file: ReferenceFile, scale: EnergyScale) -> str | None:
    """Returns why energies of this scale cannot be compared with those of the file, or None. Raises ValueError."""
    content = read_entries(Path(file.path), file.sha256)
    file_scale = EnergyScale(file.name, content.functional, content.correction)
    if compared_on(file_scale).is_comparable(compared_on(scale)):
        return None
    return f"{file.name} is on the scale {file_scale.label}, {scale.model} on {scale.label}; the two do not mix"


def phases_of(file: ReferenceFile, scale: EnergyScale) -> KnownPhases:
    """Returns the phases of the file on the scale `compared_on` of the model's one; raw energies get the correction.

    Raises SimulatorError if the file has changed."""
    from pymatgen.core import Composition

    content = read_entries(file.check(), file.sha256)
    file_scale = EnergyScale(scale.model, content.functional, content.correction)
    phases = []
    for entry in content.entries:
        composition = Composition(entry.formula)
        energy = on_mp2020(Energy(entry.energy_per_atom, file_scale), composition)
        phases.append(Phase(entry.name or entry.formula, composition.get_el_amt_dict(), energy.per_atom))
    return KnownPhases(tuple(phases), compared_on(scale))
