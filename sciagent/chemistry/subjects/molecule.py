"""Molecules as a subject: SMILES, InChI, scaffolds and fingerprints by RDKit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.standardise import STANDARDISER_VERSION
from sciagent.chemistry.structure_files import StructureRecord, read_structures
from sciagent.chemistry.subjects.base import CandidateColumns, LibraryVersions, Subject, Words
from sciagent.chemistry.subjects.protonation import Standardisation
from sciagent.domain.candidates import Candidate
from sciagent.domain.text import shown
from sciagent.errors import InvalidCandidateError

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprint import Features, StructureFingerprint
    from sciagent.chemistry.subjects.edit_set import EditSet

_NOT_SMILES = re.compile(r"[^A-Za-z0-9@+\-\[\]()=#$/\\%.:*~]")
_HYDROGENS = re.compile(r"H(?![a-z])(\d*)")


class MoleculeSubject(Subject):
    """Molecules, written as SMILES."""

    name = "molecule"
    words = Words(
        one="molecule",
        many="molecules",
        notation="SMILES",
        proposal="one molecule, one fragment",
        example="Cc1ccncc1",
        rationale="a nitrogen lowers the LUMO",
        property="homo_lumo_gap",
        remark="nitro groups were refused as unstable",
        family="ring skeleton",
        no_family="no ring",
        column="smiles",
        files="csv, smi or sdf",
    )
    screen = "molecule.safety"
    checks = "molecule.checks"
    synthesis = "molecule.synthesis"
    samples = {"benzene": "c1ccccc1", "aspirin": "CC(=O)Oc1ccccc1C(=O)O"}
    preload = ("sciagent.chemistry.molecule",)
    formats = (".csv", ".smi", ".sdf")
    distributions = ("rdkit",)
    fingerprint = "ECFP4/2048"

    def warm(self) -> None:
        _ = parse_molecule("C").key

    def versions(self) -> LibraryVersions:
        from rdkit import rdBase

        return LibraryVersions(STANDARDISER_VERSION, f"rdkit {rdBase.rdkitVersion}")

    def reading(self, stated: Any = "refuse") -> Standardisation:
        return Standardisation.stated(stated)

    def restored(self, payload: Mapping[str, Any]) -> Molecule:
        return Molecule.from_payload(payload)

    def from_row(self, columns: CandidateColumns, payload: Mapping[str, Any] | None, is_ours: bool) -> Molecule | None:
        """Returns the molecule of a row. The row lacks the number of heavy atoms; it is the number of atoms minus the
        hydrogens of the formula, which counts deuterium as H."""
        if not is_ours:
            return None if payload is None else self.restored(payload)
        hydrogens = sum(int(digits or 1) for digits in _HYDROGENS.findall(columns.formula))
        text, identity, charge, multiplicity, formula, n_atoms, inchikey = columns
        return Molecule(text, identity, charge, multiplicity, formula, n_atoms, n_atoms - hydrogens, inchikey)

    def record(self, candidate: Candidate) -> Mapping[str, Any]:
        assert isinstance(candidate, Molecule)
        return asdict(candidate)

    def from_record(self, record: Mapping[str, Any]) -> Molecule:
        """Returns the molecule of a record. Its identity (4 ms for InChI) is not computed again; callers that compare
        keys afterwards check identity, charge and spin."""
        return Molecule(**record) if "identity" in record else self.restored(record)

    def fault_of(self, text: str) -> str | None:
        if odd := _NOT_SMILES.search(text):
            return (
                f"{shown(odd[0])} at position {odd.start() + 1} of {shown(text)} is not used in SMILES; "
                "write one molecule such as Cc1ccncc1, without blanks or quotes"
            )
        return None

    def described(self, candidate: Candidate) -> str:
        assert isinstance(candidate, Molecule)
        return f"{candidate.formula}, {candidate.heavy_atoms} heavy atoms, charge {candidate.charge}"

    def records(
        self, path: Path, column: str | None = None, skip: int = 0, keep: Sequence[str] | None = None
    ) -> Iterator[StructureRecord]:
        return read_structures(path, column or self.words.column, skip, keep)

    def features(self, notation: str) -> Features:
        from sciagent.chemistry.fingerprint import features

        return features(notation)

    def similarities(self, candidate: Features, others: Sequence[Features]) -> Sequence[float]:
        from rdkit.DataStructs import BulkTanimotoSimilarity

        return list(BulkTanimotoSimilarity(candidate.bits, [other.bits for other in others]))

    def families(self, notation: str, by: str) -> tuple[str, ...]:
        from sciagent.chemistry.families import family, ring_families

        return (family(notation),) if by == "scaffold" else ring_families(notation)

    def structure(self, notation: str) -> StructureFingerprint | None:
        from sciagent.chemistry.fingerprint import structure_of

        return structure_of(notation)

    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        from sciagent.chemistry.depiction import drawing

        try:
            return drawing(parse_molecule(notation, standardise="parent"), width, height)
        except (InvalidCandidateError, RuntimeError, ValueError):
            return ""

    @cached_property
    def edits(self) -> EditSet:
        from sciagent.chemistry.subjects.molecule_edits import MoleculeEdits

        return MoleculeEdits()
