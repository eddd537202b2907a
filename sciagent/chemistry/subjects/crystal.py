"""Crystals as a subject: cells, prototypes and structure matching by pymatgen and spglib, and their edits."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent.chemistry.crystal import FINGERPRINT_VERSION, Crystal, needs_pymatgen
from sciagent.chemistry.crystals import edits
from sciagent.chemistry.crystals.edits import CrystalLimits, CrystalPlace
from sciagent.chemistry.crystals.prototypes_and_same_structures import family
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.base import CandidateColumns, EditSet, LibraryVersions, Standardised, Subject, Words
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import Features, StructureFingerprint


REMEMBERED = 1 << 12
ISOTOPES = {"D": "deuterium", "T": "tritium"}


class CrystalSubject(Subject):
    """Crystals, written as CIF, POSCAR, JSON or the shorthand of a prototype."""

    name = "crystal"
    words = Words(
        one="crystal",
        many="crystals",
        notation="structure",
        proposal='a prototype with its elements, such as "perovskite: Cs Sn I", or the text of a CIF',
        example="perovskite: Cs Sn I",
        rationale="a heavier halide closes the gap",
        property="band_gap",
        remark="fluorides had too wide gaps",
        family="prototype",
        no_family="unknown prototype",
        column="structure",
        files="cif, poscar, extended xyz, json, csv or a folder of these",
        repeats="starting structures",
    )
    screen = "crystal.safety"
    checks = "crystal.checks"
    samples = {"rock salt": "rocksalt: Na Cl", "strontium titanate": "perovskite: Sr Ti O"}
    preload = ("sciagent.chemistry.crystal", "pymatgen.core", "pymatgen.symmetry.analyzer")
    formats = (".cif", ".vasp", ".poscar", ".xyz", ".extxyz", ".json", ".csv")
    distributions = ("pymatgen-core", "spglib")
    fingerprint = "bonds/24"
    longest = 8000
    matches = True
    relaxed_file = "chemical/x-cif"
    texts_are_notations = False

    def versions(self) -> LibraryVersions:
        needs_pymatgen()
        return LibraryVersions(FINGERPRINT_VERSION, f"spglib {version('spglib')}")

    def reading(self, stated: Any = "refuse") -> CrystalReading:
        if stated != "refuse":
            raise ValueError("crystals are taken as they are; leave standardise out")
        return CrystalReading()

    def restored(self, payload: Mapping[str, Any]) -> Crystal:
        return Crystal.from_payload(payload)

    def from_row(self, columns: CandidateColumns, payload: Mapping[str, Any] | None, is_ours: bool) -> Crystal | None:
        """Returns the crystal of a row, with its identity in the ledger; another version of spglib may find another."""
        if payload is None:
            return None
        _, _, space_group = columns.text.partition(" ")  # the text is `FORMULA SPACE_GROUP`
        return Crystal.of_fields({**payload, **columns._asdict(), "space_group": space_group})

    def record(self, candidate: Candidate) -> Mapping[str, Any]:
        assert isinstance(candidate, Crystal)
        return asdict(candidate)

    def from_record(self, record: Mapping[str, Any]) -> Crystal:
        """Returns the crystal of a record. Its identity travels with it, since another spglib could find another."""
        return Crystal.of_fields(record) if "identity" in record else self.restored(record)

    def notation(self, candidate: Candidate) -> str:
        assert isinstance(candidate, Crystal)
        return self.notation_of(candidate.text, candidate.payload())

    def shown(self, notation: str) -> str:
        crystal = _read(notation)
        return notation if crystal is None else crystal.text

    def described(self, candidate: Candidate) -> str:
        assert isinstance(candidate, Crystal)
        return f"{candidate.n_atoms} atoms in the primitive cell"

    def caveat(self, notation: str) -> str:
        from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import MEAN_LENGTH_ERROR

        crystal = _read(notation)
        if crystal is None or not crystal.has_estimated_volume:
            return ""
        return (
            "the volume of the proposed cell is an estimate from atomic radii (edges within "
            f"{MEAN_LENGTH_ERROR} of measured ones on average); values of a relaxed cell do not depend on it"
        )

    def notation_of(self, text: str, payload: Mapping[str, Any]) -> str:
        """Returns the payload as JSON: the cell and its atoms, without loss."""
        return json.dumps(payload, separators=(",", ":"), sort_keys=True)

    def records(
        self, path: Path, column: str | None = None, skip: int = 0, keep: Sequence[str] | None = None
    ) -> Iterator[StructureRecord]:
        from sciagent.chemistry.crystals.split_files_into_records import read_crystals

        return read_crystals(path, column or self.words.column, skip, keep)

    def is_file_of(self, name: str) -> bool:
        """Returns whether it is a file of a known ending, a POSCAR or CONTCAR, or a folder of files."""
        last = Path(name).name
        may_be_folder = not Path(last).suffix
        return super().is_file_of(name) or last.startswith(("POSCAR", "CONTCAR")) or may_be_folder

    def features(self, notation: str) -> Features:
        from sciagent.chemistry.fingerprints_and_families import Features

        crystal = _read(notation)
        label = "" if crystal is None else family(crystal)
        return Features(label, sha256(label.encode()).hexdigest(), crystal)

    def similarities(self, candidate: Features, others: Sequence[Features]) -> Sequence[float]:
        from sciagent.chemistry.crystals.crystal_similarity import likeness

        crystal = candidate.bits  # None for a text that cannot be processed, as for the others
        similarities = []
        for other in others:
            is_comparable = crystal is not None and other.bits is not None
            similarities.append(likeness(crystal, other.bits) if is_comparable else 0.0)
        return similarities

    def same(self, candidate: Candidate, other: Candidate) -> bool:
        from sciagent.chemistry.crystals.prototypes_and_same_structures import same

        return isinstance(candidate, Crystal) and isinstance(other, Crystal) and same(candidate, other)

    def relaxed_distance(self, relaxed: str, other: str) -> float | None:
        from sciagent.chemistry.crystals.prototypes_and_same_structures import relaxed_distance

        first = _read(relaxed)
        second = _read(other)
        return None if first is None or second is None else relaxed_distance(first, second)

    def structure(self, notation: str) -> StructureFingerprint | None:
        from sciagent.chemistry.crystals.crystal_similarity import structure_of

        crystal = _read(notation)
        return None if crystal is None else structure_of(crystal)

    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        from sciagent.chemistry.crystals.drawing import drawing

        crystal = _read(notation)
        return "" if crystal is None else drawing(crystal, width, height)

    def atoms(self, payload: Mapping[str, Any]) -> Any:
        from pymatgen.io.ase import AseAtomsAdaptor

        return AseAtomsAdaptor.get_atoms(Crystal.from_payload(payload).structure)

    def cell(self, candidate: Candidate) -> Mapping[str, Any]:
        """Returns the primitive cell with its sites, and the lattice constants of the conventional cell.

        Lengths are in angstrom, angles in degrees, coordinates fractional.
        """
        from sciagent.chemistry.crystals.conventional_cell_and_cif import conventional_cell

        assert isinstance(candidate, Crystal)
        conventional = conventional_cell(candidate.structure)
        return {
            "space_group": candidate.space_group,
            "conventional": asdict(conventional.constants),
            "lattice": [list(row) for row in candidate.lattice],
            "species": list(candidate.species),
            "coordinates": [list(row) for row in candidate.coordinates],
        }

    def geometry(self, payload: Mapping[str, Any]) -> tuple[str, str]:
        """Returns a CIF of the conventional cell with all its sites, since the view does not apply symmetry."""
        from sciagent.chemistry.crystals.conventional_cell_and_cif import conventional_cell

        structure = Crystal.from_payload(payload).structure
        return str(conventional_cell(structure).structure.to(fmt="cif")), "cif"

    @cached_property
    def edits(self) -> EditSet:
        return CrystalEdits(self)


@dataclass(frozen=True)
class CrystalReading:
    """A crystal is taken as it was given, in its standard primitive cell."""

    def apply(self, text: object, multiplicity: int | None = None) -> Standardised:
        """Returns the crystal of a text. Raises InvalidCandidateError for any text that is none."""
        if not isinstance(text, str):
            raise InvalidCandidateError(Reason.NOT_TEXT, f"a structure is a text, not {type(text).__name__}")
        if multiplicity is not None:
            raise InvalidCandidateError(Reason.MULTIPLICITY, "a crystal has no multiplicity of its own")
        from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal

        crystal = _KNOWN.get(text)
        if crystal is None:
            crystal = read_crystal(text)
            _remember(text, crystal)
        names = [ISOTOPES[symbol] for symbol in crystal.isotopes]
        remark = f"{' and '.join(names)} taken as hydrogen" if names else ""
        return Standardised(crystal, row_note=remark)

    def forms(self, text: object, multiplicity: int | None = None) -> Sequence[Standardised]:
        """Returns the crystal alone, since a crystal has no other forms."""
        return (self.apply(text, multiplicity),)

    @property
    def most_forms(self) -> int:
        return 1

    def of(self, candidate: Candidate) -> Candidate:
        return candidate


def _read(notation: str) -> Crystal | None:
    """Returns the crystal of a notation; None for any other text."""
    try:
        crystal = CrystalReading().apply(notation).candidate
    except InvalidCandidateError:
        return None
    assert isinstance(crystal, Crystal)
    return crystal


_KNOWN: dict[str, Crystal] = {}
"""The latest crystals by text, since reading one takes milliseconds."""


def _remember(text: str, crystal: Crystal) -> None:
    """Keeps a crystal by its text, as the latest one, and drops the oldest of more than REMEMBERED."""
    _KNOWN.pop(text, None)
    _KNOWN[text] = crystal
    while len(_KNOWN) > REMEMBERED:
        oldest = next(iter(_KNOWN))
        _KNOWN.pop(oldest, None)


MAX_CHILD_SITES = 40
"""Largest number of sites in the primitive cell of a child, unless a campaign file states another."""
MAX_LISTED = 40
"""Largest number of places of a crystal that are listed for a model."""


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
        """Returns the elements that the last rung of checks allows, and the smallest of all maximum sizes."""
        most = MAX_CHILD_SITES if size is None else size
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
        child_and_operation = edits.mutate(self._read(text), rng, operations=(operation,), limits=limits)
        if child_and_operation is None:
            return None
        child, _ = child_and_operation
        return self._subject.notation(child)

    def group(self, text: str) -> str:
        return family(self._read(text))

    def sites(self, text: str) -> Sequence[CrystalPlace]:
        return edits.sites(self._read(text))

    def described_sites(self, candidate: Candidate) -> list[str]:
        assert isinstance(candidate, Crystal)
        places = edits.sites(candidate)[:MAX_LISTED]
        places_by_edits: dict[str, list[str]] = {}
        for place in places:
            fitting_edits = ", ".join(edit.name for edit in edits.NAMED.values() if edit.fits(place))
            places_by_edits.setdefault(fitting_edits, []).append(f"{place.number} {place.name}")
        lines = ["sites, number name:"]
        for fitting_edits, texts in places_by_edits.items():
            lines.append(f"{fitting_edits}: {'; '.join(texts)}")
        return lines

    def choices(
        self, text: str, edit: str, what: str | None = None, where: int | None = None
    ) -> list[tuple[str, CrystalPlace]]:
        return edits.choices(self._read(text), edit, what, where)

    def children(self, text: str, edit: str, what: str | None, where: int, limits: CrystalLimits) -> list[str]:
        children = edits.children(self._read(text), edit, what, where, limits)
        return [self._subject.notation(child) for child in children]

    def _read(self, text: str) -> Crystal:
        crystal = self._subject.read(text)
        assert isinstance(crystal, Crystal)
        return crystal
