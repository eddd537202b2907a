"""Molecules as a subject: SMILES, InChI, scaffolds and fingerprints by RDKit, their edits, and their drawings.

Drawings are SVG with colours from CSS, so that a drawing suits light, dark and print.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdkit import Chem

from sciagent.chemistry.editing import edits, named, parts
from sciagent.chemistry.editing.edits import EditLimits, canonical
from sciagent.chemistry.editing.named import NAMED_EDITS, Site
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.standardise import STANDARDISER_VERSION
from sciagent.chemistry.structure_files import StructureRecord, read_structures
from sciagent.chemistry.subjects.base import CandidateColumns, EditSet, LibraryVersions, Subject, Words
from sciagent.chemistry.subjects.protonation import Standardisation
from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import content_hash
from sciagent.domain.text import shown
from sciagent.errors import InvalidCandidateError

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprint import Features, StructureFingerprint


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
        from sciagent.chemistry.fingerprint import family, ring_families

        return (family(notation),) if by == "scaffold" else ring_families(notation)

    def structure(self, notation: str) -> StructureFingerprint | None:
        from sciagent.chemistry.fingerprint import structure_of

        return structure_of(notation)

    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        try:
            return drawing(parse_molecule(notation, standardise="parent"), width, height)
        except (InvalidCandidateError, RuntimeError, ValueError):
            return ""

    @cached_property
    def edits(self) -> EditSet:
        return MoleculeEdits()


TOO_LARGE = 100  # heavy atoms; the sites of a larger molecule are not listed


class MoleculeEdits(EditSet):
    """Graph edits and crossovers of molecules."""

    named = NAMED_EDITS
    operations = edits.OPERATIONS
    crossovers = edits.CROSSOVERS
    # common steps of synthesis are drawn most; edits of single atoms and bonds must first succeed
    shares = {
        "chain crossover": 4.0,
        "add substituent to a saturated atom": 0.5,
        "append atom": 0.5,
        "insert atom": 0.5,
        "take out atom": 0.5,
        "change element": 0.5,
        "change bond order": 0.5,
        "open ring": 0.25,
        "close ring": 0.5,
    }

    @cached_property
    def tables_hash(self) -> str:
        return content_hash({name: value for name, value in vars(parts).items() if name.isupper()})

    def limits(self, checks: Sequence[Any] = (), size: int | None = None) -> EditLimits:
        """Returns the limits of the last rung of checks, and the smallest of the maximum sizes."""
        most = EditLimits.max_heavy_atoms if size is None else size
        if not checks:
            return EditLimits(max_heavy_atoms=most)
        last = checks[-1]
        return EditLimits(
            elements=tuple(last.elements),
            min_heavy_atoms=last.min_heavy_atoms,
            max_heavy_atoms=min(most, *(each.max_heavy_atoms for each in checks)),
            max_rings=last.max_rings,
            min_ring_size=last.min_ring_size,
            max_ring_size=min(EditLimits.max_ring_size, last.max_ring_size or EditLimits.max_ring_size),
            charges=tuple(last.charges),
            defined_stereo=last.undefined_stereo == "refuse",
            forbidden=tuple(last.forbid_smarts),
            required=tuple(last.require_smarts),
        )

    def too_large(self, candidate: Candidate, limits: EditLimits) -> str | None:
        assert isinstance(candidate, Molecule)
        heavy = candidate.heavy_atoms
        most = limits.max_heavy_atoms
        return None if heavy <= most else f"{heavy} heavy atoms are too many to edit; the limit is {most}"

    def mutate(self, text: str, rng: random.Random, operation: str, limits: EditLimits) -> str | None:
        edited = edits.mutate(text, rng, operations=(operation,), limits=limits)
        return None if edited is None else edited[0]

    def cross(
        self, parents: tuple[str, str], rng: random.Random, limits: EditLimits, operation: str | None = None
    ) -> tuple[str, str] | None:
        operations = edits.CROSSOVERS if operation is None else (operation,)
        return edits.crossover(*parents, rng, operations=operations, limits=limits)

    def group(self, text: str) -> str:
        return scaffold_of(text)

    def sites(self, text: str) -> Sequence[Site]:
        return named.sites(text)

    def described_sites(self, candidate: Candidate) -> list[str]:
        assert isinstance(candidate, Molecule)
        if candidate.heavy_atoms > TOO_LARGE or not (places := named.sites(candidate.smiles)):
            return []
        return [f"atoms: {_numbered(candidate.smiles)}", "sites, number name @atoms:", *_by_edits(places)]

    def choices(
        self, text: str, edit: str, what: str | None = None, where: int | None = None
    ) -> list[tuple[str, Site]]:
        return named.choices(text, edit, what, where)

    def children(self, text: str, edit: str, what: str | None, where: int, limits: EditLimits) -> list[str]:
        return named.children(text, edit, what, where, limits)


@lru_cache(maxsize=20_000)
def scaffold_of(smiles: str) -> str:
    """Returns the Murcko scaffold as SMILES, without stereochemistry. Molecules without rings are grouped by size."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    mol: Any = Chem.MolFromSmiles(smiles)
    if mol is None:
        return ""
    Chem.RemoveStereochemistry(mol)
    murcko: Any = MurckoScaffold
    scaffold = Chem.MolToSmiles(murcko.GetScaffoldForMol(mol))
    return scaffold or f"{mol.GetNumHeavyAtoms()} atoms without a ring"


def _numbered(smiles: str) -> str:
    """Returns the SMILES with atom numbers, from 1."""
    mol = canonical(smiles)
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(mol, canonical=False))


def _by_edits(places: Sequence[Site]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for site in places:
        first = site.places[0]
        atoms = first[:1] if site.kind == "substituent" else first
        alike = f" x{len(site.places)}" if len(site.places) > 1 else ""
        text = f"{site.number} {site.name} @{'-'.join(str(a + 1) for a in atoms)}{alike}"
        fitting = ", ".join(edit.name for edit in NAMED_EDITS.values() if edit.fits(site))
        groups.setdefault(fitting, []).append(text)
    return [f"{fitting}: {'; '.join(texts)}" for fitting, texts in groups.items()]


_COLOURS = ("atom", "atom-n", "atom-o", "atom-x", "atom-s", "atom-p", "atom-b")
_ELEMENTS = {-1: 0, 0: 0, 6: 0, 7: 1, 8: 2, 9: 3, 17: 3, 35: 3, 53: 3, 16: 4, 15: 5, 5: 6, 14: 6}
"""Position in _COLOURS by atomic number; -1 is RDKit's number for all other elements."""


def drawing(molecule: Molecule, width: int = 260, height: int = 190) -> str:
    """Returns an SVG without prolog, scaled by its viewBox; colours are CSS variables (`--atom`, `--atom-n`, …).

    width, height: pixels of the viewBox. Only hydrogens on heteroatoms are shown.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = rdMolDraw2D.PrepareMolForDrawing(Chem.RemoveHs(molecule.mol), kekulize=True)
    rdDepictor.StraightenDepiction(mol)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    # RDKit draws the n-th colour as #0n0n0n; the CSS variable then replaces it
    options.setAtomPalette({number: ((place + 1) / 255,) * 3 for number, place in _ELEMENTS.items()})
    options.fixedBondLength = 26
    options.bondLineWidth = 1.6
    options.minFontSize = 11
    options.padding = 0.06
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    return _themed(drawer.GetDrawingText(), width, height)


def _themed(svg: str, width: int, height: int) -> str:
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    inner = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).removesuffix("</svg>\n").strip()
    colours = {f"#{place:02x}{place:02x}{place:02x}": name for place, name in enumerate(_COLOURS, start=1)}
    inner = re.sub(r"#[0-9A-Fa-f]{6}", lambda m: f"var(--{colours.get(m.group().lower(), 'atom')})", _merged(inner))
    head = f'<svg class="molecule" viewBox="0 0 {width} {height}" role="img" aria-hidden="true" focusable="false">'
    return f"{head}{inner}</svg>"


_PATH = re.compile(
    r"<path\b[^>]*?\bd='(?P<line>[^']*)'[^>]*?(?:style='(?P<style>[^']*)'|fill='(?P<fill>[^']*)')[^>]*/>"
)


def _merged(inner: str) -> str:
    """Returns the body of a drawing with one path for each style, which is a sixth as long; other elements are kept."""
    lines: dict[str, list[str]] = {}
    for path in _PATH.finditer(inner):
        given = dict(part.split(":", 1) for part in (path["style"] or f"fill:{path['fill']}").split(";") if part)
        kept = {name: given[name] for name in ("fill", "stroke", "stroke-width") if name in given}
        style = ";".join(f"{name}:{value}" for name, value in kept.items())
        lines.setdefault(style, []).append(re.sub(r"\s*([A-Z])\s*", r"\1", path["line"].strip()))
    rest = "".join(_PATH.sub("", inner).split("\n")).strip()
    return "".join(f'<path style="{style}" d="{"".join(parts)}"/>' for style, parts in lines.items()) + rest
