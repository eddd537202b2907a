"""Files of phases that a user brings: their energies, or their structures.

Energies are the hull of `energy_above_hull`. Structures are relaxed by the model and join its known phases; any file of
crystals will do (`split_files_into_records`), such as a CIF or a list of pymatgen's ComputedStructureEntry, whose
energies then do not count.

A file of energies is JSON, also with `.gz`, in one of two forms:

- `{"functional": "PBE+U", "correction": "MP2020", "entries": [{"name": "mp-22862", "formula": "NaCl",
  "energy_per_atom": -3.696}, …]}`
- a list of pymatgen's ComputedEntry or ComputedStructureEntry, as the Materials Project gives them. Their `energy` is
  raw, so the file counts as uncorrected; the functional is that of the `run_type` in their parameters. Corrections
  that some oxides and fluorides have and others lack are a mixture, and the file is refused. Entries that `sciagent
  export` wrote state their model and scale (`energy_scale`), and fit this model alone. Entries with symbols that
  are no elements are left out and counted.

An entry whose energy no phase can have is refused, by its number and name, when the campaign file is read.

Raw energies of PBE+U get the corrections MP2020 before they are compared. The file must hold every element of a
candidate.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from ase.data import chemical_symbols
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.layers_and_vacuum import VACUUM, part_in_vacuum
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.split_files_into_records import read_crystals
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.errors import InputFileError, InvalidCandidateError
from sciagent.verification.verifier_contract import ReferenceFile
from sciagent_simulators.potentials.materials_project_corrections import ANIONS_WITH_U, compared_on, on_mp2020
from sciagent_simulators.potentials.potential_base_and_registry import MP2020, UNCORRECTED, Energy, EnergyScale
from sciagent_simulators.potentials.relaxed_phases_and_hull import KnownPhases, Phase

MAX_BYTES = 200_000_000  # of a file of phases, and of what it unpacks to
MAX_ENTRIES = 200_000
"""Largest number of entries of a file; the Materials Project has fewer."""
MAX_STRUCTURES = 500
"""Largest number of structures of a file, since each is relaxed by the model."""
MAX_NAME = 60  # characters of the name of a structure
ENERGY_LIMITS = (-200.0, 50.0)
"""Energies in eV per atom that an entry may have. By r2SCAN and PAW data of the Materials Project, uranium has -79."""
MAX_FORMATION_ENERGY = 12.0
"""Largest size of a formation energy in eV per atom, against the elements of the same file: a slip of the decimal point
exceeds it, and neither raw energies with a Hubbard U nor strained cells do."""
FUNCTIONALS = {"GGA": "PBE+U", "GGA+U": "PBE+U", "R2SCAN": "r2SCAN"}
"""Functional by the `run_type` of an entry; calculations without and with a Hubbard U belong to one data set."""
ELEMENTS = frozenset(chemical_symbols[1:])


class HullEntry(BaseModel):
    """A phase of the file."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    formula: str = Field(min_length=1, max_length=200, description="Such as Na1 Cl1 or NaCl.")
    energy_per_atom: float = Field(
        allow_inf_nan=False, ge=ENERGY_LIMITS[0], le=ENERGY_LIMITS[1], description="In eV per atom."
    )
    name: str = Field("", max_length=200, description="What results call it; default: the formula.")

    @property
    def amounts(self) -> Mapping[str, float]:
        """Atoms of each element in the formula. Raises ValueError for a text that is no formula."""
        from pymatgen.core import Composition

        try:
            amounts: Mapping[str, float] = Composition(self.formula).get_el_amt_dict()
        except Exception as error:  # pymatgen raises several types without a common base
            raise ValueError(f'"{self.formula[:40]}" is no formula') from error
        return amounts


class HullFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    functional: str = Field(max_length=40, description="Such as PBE+U.")
    correction: str = Field(max_length=40, description="uncorrected or MP2020.")
    model: str = Field("", max_length=100, description="The force field that the energies are of; empty for others.")
    entries: Sequence[HullEntry] = Field(min_length=1, max_length=MAX_ENTRIES, description="The phases.")
    left_out: int = Field(0, ge=0, description="Number of entries that were left out, since a symbol is no element.")


class ComputedEntryOfFile(BaseModel):
    """The part of pymatgen's ComputedEntry that is read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    composition: Mapping[str, float] = Field(min_length=1, max_length=100, description="Atoms by symbol.")
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
    """Returns the content of a file. sha256: its hash, so that a changed file is read again.

    Raises ValueError, which names the entry, for energies that no phase can have."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MB")
    try:
        content = json.loads(_text(path))
        file = _from_computed_entries(content) if isinstance(content, list) else _from_own_format(content)
        _require_plausible_energies(file)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is no file of entries: {error}") from error
    return file


def _text(path: Path) -> str:
    """Returns the text of a file, unpacked if its name ends in .gz. Raises ValueError if it unpacks to too much."""
    if path.suffix != ".gz":
        return path.read_text(encoding="utf-8")
    with gzip.open(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES >> 20} MB")
    return content.decode("utf-8")


def _from_own_format(content: Any) -> HullFile:
    """Returns the content of a file of our own form. Raises ValueError, which names the entry."""
    try:
        return HullFile.model_validate(content)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        if len(place) > 1 and place[0] == "entries" and isinstance(place[1], int):
            row = content["entries"][place[1]]
            raise ValueError(f"{_entry_title(place[1], row)}: {_first_fault(error, place[2:])}") from error
        raise ValueError(_first_fault(error, place)) from error


def _first_fault(error: ValidationError, place: Sequence[int | str]) -> str:
    """Returns the first fault, with its place in the entry or the file."""
    where = ".".join(map(str, place))
    message = error.errors()[0]["msg"]
    return f"{where}: {message}" if where else str(message)


def _entry_title(index: int, row: Any) -> str:
    """Returns `entry 3 (mp-22862, NaCl)`: number, name and formula of a row, as far as it has them."""
    if not isinstance(row, Mapping):
        return f"entry {index + 1}"
    composition = row.get("formula") or row.get("composition")
    if isinstance(composition, Mapping):
        composition = " ".join(f"{symbol}{amount}" for symbol, amount in list(composition.items())[:10])
    names = [str(name)[:60] for name in (row.get("name") or row.get("entry_id"), composition) if name]
    return f"entry {index + 1} ({', '.join(names)})" if names else f"entry {index + 1}"


def _from_computed_entries(rows: Sequence[Any]) -> HullFile:
    """Returns the content of a list of computed entries. Raises ValueError, which names the entry, if its energies
    cannot be compared."""
    if len(rows) > MAX_ENTRIES:
        raise ValueError(f"{len(rows)} entries; at most {MAX_ENTRIES}")
    phases = []
    scales: set[EnergyScale] = set()
    have_correction = set()  # of oxides and fluorides: True, False, or both
    for index, row in enumerate(rows):
        entry = _usable_entry(index, row)
        if entry is None:
            continue
        scale = _scale(entry)
        scales.add(scale)
        phases.append(_phase_of_file(entry))
        # MP2020 corrects each oxide and fluoride, so that either all of them carry a correction or none
        is_ionic = len(entry.composition) > 1 and bool(ANIONS_WITH_U & set(entry.composition))
        if is_ionic and not scale.model:
            have_correction.add(entry.is_corrected)
    functionals = sorted({scale.functional for scale in scales})
    if len(functionals) > 1:
        raise ValueError(f"energies of {' and '.join(functionals)} do not mix")
    if len(scales) > 1:
        said = " and ".join(sorted(f"{scale.model or 'calculations'} ({scale.label})" for scale in scales))
        raise ValueError(f"energies of {said} do not mix")
    if len(have_correction) > 1:
        raise ValueError("some oxides and fluorides carry a correction and others do not, so their energies are mixed")
    if not phases:
        raise ValueError("no entry with known elements")
    n_left_out = len(rows) - len(phases)
    (scale,) = scales
    return HullFile(
        functional=scale.functional, correction=scale.correction, model=scale.model, entries=phases, left_out=n_left_out
    )


def _usable_entry(index: int, row: Any) -> ComputedEntryOfFile | None:
    """Returns an entry that can be used; None if a symbol of it is no element. Raises ValueError, which names it."""
    try:
        entry = ComputedEntryOfFile.model_validate(row)
        if not ELEMENTS.issuperset(entry.composition):
            return None
        _scale(entry)
        _phase_of_file(entry)
    except ValidationError as error:
        fault = _first_fault(error, error.errors()[0]["loc"])
        raise ValueError(f"{_entry_title(index, row)}: {fault}") from error
    except ValueError as error:
        raise ValueError(f"{_entry_title(index, row)}: {error}") from error
    return entry


def _scale(entry: ComputedEntryOfFile) -> EnergyScale:
    """Returns the scale of an entry's energy: with a model where `energy_scale` states it, as in an export of a
    campaign, else by the `run_type` of a calculation. Raises ValueError for an unknown one."""
    stated = entry.parameters.get("energy_scale")
    if stated is None:
        run_type = str(entry.parameters.get("run_type"))
        if run_type not in FUNCTIONALS:
            raise ValueError(f"it has the run_type {run_type[:40]}; known are {', '.join(FUNCTIONALS)}")
        return EnergyScale("", FUNCTIONALS[run_type], UNCORRECTED)
    functional, _, correction = str(stated).partition(", ")
    model = str(entry.parameters.get("model") or "")
    if not functional or correction not in (UNCORRECTED, MP2020) or not model:
        raise ValueError(f'its energy_scale is "{str(stated)[:40]}" of the model "{model[:40]}"; give both')
    if entry.is_corrected:
        raise ValueError("it has an energy_scale and a correction; give one of them")
    return EnergyScale(model[:100], functional[:40], correction)


def _phase_of_file(entry: ComputedEntryOfFile) -> HullEntry:
    """Returns the phase of a computed entry, with its raw energy. Raises ValueError without atoms."""
    n_atoms = sum(entry.composition.values())
    if not (math.isfinite(n_atoms) and n_atoms > 0 and min(entry.composition.values()) > 0):
        raise ValueError("its composition has no atoms of an element")
    formula = " ".join(f"{symbol}{amount:g}" for symbol, amount in entry.composition.items())
    return HullEntry(formula=formula, energy_per_atom=entry.energy / n_atoms, name=entry.entry_id or "")


def _require_plausible_energies(file: HullFile) -> None:
    """Raises ValueError, which names the entry, for a text that is no formula or an absurd formation energy.

    An element without a phase of its own in the file leaves its compounds unchecked."""
    all_shares = []  # of each element in each entry
    lowest: dict[str, float] = {}  # energy of each element, eV per atom
    for index, entry in enumerate(file.entries):
        try:
            amounts = entry.amounts
        except ValueError as error:
            raise ValueError(f"{_entry_title(index, entry.model_dump())}: {error}") from error
        total = sum(amounts.values())
        if not total > 0 or not ELEMENTS.issuperset(amounts):
            raise ValueError(f"{_entry_title(index, entry.model_dump())}: a symbol of the formula is no element")
        all_shares.append({symbol: n / total for symbol, n in amounts.items()})
        for symbol in amounts if len(amounts) == 1 else ():
            lowest[symbol] = min(entry.energy_per_atom, lowest.get(symbol, math.inf))
    for index, (entry, shares) in enumerate(zip(file.entries, all_shares, strict=True)):
        if shares.keys() <= lowest.keys():
            mixture = sum(share * lowest[symbol] for symbol, share in shares.items())
            difference = entry.energy_per_atom - mixture
            if abs(difference) > MAX_FORMATION_ENERGY:
                elements = f"its elements in the file have {mixture:.4g}, and the difference is above"
                fault = f"{entry.energy_per_atom:.4g} eV/atom; {elements} {MAX_FORMATION_ENERGY:g} eV/atom"
                raise ValueError(f"{_entry_title(index, entry.model_dump())}: {fault}")


@lru_cache(maxsize=4)
def read_phase_structures(path: Path, sha256: str, max_atoms: int) -> Mapping[str, Crystal]:
    """Returns the structures of a file by name, the same structure once. sha256: as in `read_entries`.

    A name is that of the entry with formula and space group, such as `mp-5827 CaTiO3 Pnma`.
    Raises ValueError, which names the entry, for what is no crystal or has more atoms in the primitive cell."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MB")
    try:
        records = list(islice(read_crystals(path), MAX_STRUCTURES + 1))
    except (OSError, EOFError, InputFileError) as error:
        raise ValueError(f"{path.name} is no file of structures: {error}") from error
    if len(records) > MAX_STRUCTURES:
        raise ValueError(f"{path.name} has more than {MAX_STRUCTURES} structures")
    structures: dict[str, Crystal] = {}
    keys: set[str] = set()
    for record in records:
        crystal = _phase_structure(path, record, max_atoms)
        if crystal.key in keys:
            continue
        keys.add(crystal.key)
        name = f"{_record_name(record)} {crystal.text}".strip()
        if name in structures:
            name = f"{name} ({record.number + 1})"
        structures[name] = crystal
    return structures


def _phase_structure(path: Path, record: StructureRecord, max_atoms: int) -> Crystal:
    """Returns the crystal of a record. Raises ValueError, which names the record."""
    title = f"{path.name}: structure {record.number + 1} ({_record_name(record) or 'no name'})"
    if record.fault:
        raise ValueError(f"{title}: {record.fault}")
    try:
        crystal = read_crystal(record.text)
    except InvalidCandidateError as error:
        raise ValueError(f"{title}: {error}") from error
    if crystal.n_atoms > max_atoms:
        raise ValueError(f"{title}: {crystal.n_atoms} atoms in the primitive cell; max_atoms is {max_atoms}")
    part = part_in_vacuum(crystal)
    if part is not None:
        raise ValueError(f"{title}: {part.name} with more than {VACUUM:g} angstrom of vacuum around it")
    return crystal


def _record_name(record: StructureRecord) -> str:
    """Returns what a phase is called: the `entry_id` of a computed entry, else the name that its file gives it."""
    if record.text.startswith("{"):
        with suppress(ValueError, RecursionError):
            entry_id = json.loads(record.text).get("entry_id")
            if entry_id:
                return str(entry_id)[:MAX_NAME]
    return record.name[:MAX_NAME]


@lru_cache(maxsize=4)
def elements_alone(path: Path, sha256: str) -> frozenset[str]:
    """Returns the elements of which a file has a phase of their own. Raises ValueError as `read_entries` does."""
    symbols: set[str] = set()
    for entry in read_entries(path, sha256).entries:
        if len(entry.amounts) == 1:
            symbols |= entry.amounts.keys()
    return frozenset(symbols)


def scale_fault(file: ReferenceFile, scale: EnergyScale) -> str | None:
    """Returns why energies of this scale cannot be compared with those of the file, or None. Raises ValueError."""
    content = read_entries(Path(file.path), file.sha256)
    if content.model and content.model != scale.model:
        return f"{file.name} has energies of {content.model}, not of {scale.model}; take entries_as: structures"
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
