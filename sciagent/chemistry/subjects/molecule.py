"""Molecules as a subject: SMILES, InChI, scaffolds and fingerprints by RDKit, and their drawings.

Drawings are SVG with colours from CSS, so that a drawing suits light, dark and print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.molecule_files import StructureRecord, read_structures
from sciagent.chemistry.molecule_normal_form import STANDARDISER_VERSION
from sciagent.chemistry.subjects.base import CandidateColumns, EditSet, LibraryVersions, Subject, Words
from sciagent.chemistry.subjects.fragments_and_protonation import Standardisation
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.safe_text_and_durations import shown
from sciagent.errors import InvalidCandidateError

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import Features, StructureFingerprint


_NOT_SMILES = re.compile(r"[^A-Za-z0-9@+\-\[\]()=#$/\\%.:*~]")
_HYDROGENS = re.compile(r"H(?![a-z])(\d*)")  # H and its number in a formula; not He or Hg


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
        repeats="conformer searches",
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
        """Returns the molecule of a row.

        A row lacks the number of heavy atoms. It is computed as the number of atoms minus the hydrogens of the formula,
        in which deuterium is H, too.
        """
        if not is_ours:
            return None if payload is None else self.restored(payload)
        hydrogens = sum(int(digits or 1) for digits in _HYDROGENS.findall(columns.formula))
        return Molecule(
            smiles=columns.text,
            identity=columns.identity,
            charge=columns.charge,
            multiplicity=columns.multiplicity,
            formula=columns.formula,
            n_atoms=columns.n_atoms,
            heavy_atoms=columns.n_atoms - hydrogens,
            inchikey=columns.inchikey,
        )

    def record(self, candidate: Candidate) -> Mapping[str, Any]:
        assert isinstance(candidate, Molecule)
        return asdict(candidate)

    def from_record(self, record: Mapping[str, Any]) -> Molecule:
        """Returns the molecule of a record. Its identity is not computed again, since InChI takes 4 ms. A caller that
        compares the key with the expected one thereby checks identity, charge and multiplicity."""
        return Molecule(**record) if "identity" in record else self.restored(record)

    def fault_of(self, text: str) -> str | None:
        foreign = _NOT_SMILES.search(text)
        if foreign:
            return (
                f"{shown(foreign[0])} at position {foreign.start() + 1} of {shown(text)} is not used in SMILES; "
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
        from sciagent.chemistry.fingerprints_and_families import features

        return features(notation)

    def similarities(self, candidate: Features, others: Sequence[Features]) -> Sequence[float]:
        from rdkit.DataStructs import BulkTanimotoSimilarity

        return list(BulkTanimotoSimilarity(candidate.bits, [other.bits for other in others]))

    def families(self, notation: str, by: str) -> tuple[str, ...]:
        from sciagent.chemistry.fingerprints_and_families import family, ring_families

        return (family(notation),) if by == "scaffold" else ring_families(notation)

    def structure(self, notation: str) -> StructureFingerprint | None:
        from sciagent.chemistry.fingerprints_and_families import structure_of

        return structure_of(notation)

    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        try:
            return drawing(parse_molecule(notation, standardise="parent"), width, height)
        except (InvalidCandidateError, RuntimeError, ValueError):
            return ""

    def fragment_drawing(self, notation: str, feature: int, width: int = 260, height: int = 190) -> str:
        try:
            return drawing(parse_molecule(notation, standardise="parent"), width, height, feature)
        except (InvalidCandidateError, RuntimeError, ValueError):
            return ""

    @cached_property
    def edits(self) -> EditSet:
        from sciagent.chemistry.subjects.molecule_edits import MoleculeEdits

        return MoleculeEdits()


_COLOURS = ("atom", "atom-n", "atom-o", "atom-x", "atom-s", "atom-p", "atom-b", "atom-mark")
_COLOUR_OF_ELEMENT = {-1: 0, 0: 0, 6: 0, 7: 1, 8: 2, 9: 3, 17: 3, 35: 3, 53: 3, 16: 4, 15: 5, 5: 6, 14: 6}
"""Position in _COLOURS by atomic number; -1 is RDKit's number for all other elements."""


def drawing(molecule: Molecule, width: int = 260, height: int = 190, feature: int | None = None) -> str:
    """Returns an SVG without prolog, scaled by its viewBox; colours are CSS variables (`--atom`, `--atom-n`, …).

    width, height: pixels of the viewBox. feature: number of an atom environment that is marked. Only hydrogens on
    heteroatoms are shown.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.Chem.Draw import rdMolDraw2D

    plain = Chem.RemoveHs(molecule.mol)
    marked: tuple[int, ...] = ()
    if feature is not None:
        from sciagent.chemistry.fingerprints_and_families import environment_atoms

        marked = environment_atoms(plain, feature)
    mol = rdMolDraw2D.PrepareMolForDrawing(plain, kekulize=True)
    rdDepictor.StraightenDepiction(mol)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    # RDKit draws the n-th colour as #0n0n0n; the CSS variable then replaces it
    palette = {}
    for number, place in _COLOUR_OF_ELEMENT.items():
        grey = (place + 1) / 255
        palette[number] = (grey, grey, grey)
    options.setAtomPalette(palette)
    options.fixedBondLength = 26
    options.bondLineWidth = 1.6
    options.minFontSize = 11
    options.padding = 0.06
    grey = len(_COLOURS) / 255
    options.setHighlightColour((grey, grey, grey))
    bonds = [bond.GetIdx() for bond in mol.GetBonds() if {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()} <= set(marked)]
    drawer.DrawMolecule(mol, highlightAtoms=list(marked), highlightBonds=bonds)
    drawer.FinishDrawing()
    return _themed(drawer.GetDrawingText(), width, height)


def _themed(svg: str, width: int, height: int) -> str:
    """Returns RDKit's SVG with one path for each style and with CSS variables as colours."""
    end_of_tag = svg.index(">", svg.index("<svg")) + 1
    body = svg[end_of_tag:]
    without_comments = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    merged = _merged(without_comments.removesuffix("</svg>\n").strip())
    names = {f"#{place:02x}{place:02x}{place:02x}": name for place, name in enumerate(_COLOURS, start=1)}

    def variable(colour: re.Match[str]) -> str:
        name = names.get(colour.group().lower(), "atom")
        return f"var(--{name})"

    inner = re.sub(r"#[0-9A-Fa-f]{6}", variable, merged)
    head = f'<svg class="molecule" viewBox="0 0 {width} {height}" role="img" aria-hidden="true" focusable="false">'
    return f"{head}{inner}</svg>"


_PATH = re.compile(
    r"<path\b[^>]*?\bd='(?P<line>[^']*)'[^>]*?(?:style='(?P<style>[^']*)'|fill='(?P<fill>[^']*)')[^>]*/>"
)


def _merged(inner: str) -> str:
    """Returns the body of a drawing with one path for each style, and its other elements. It is a sixth as long."""
    lines: dict[str, list[str]] = {}
    for path in _PATH.finditer(inner):
        written_style = path["style"] or f"fill:{path['fill']}"
        properties = dict(part.split(":", 1) for part in written_style.split(";") if part)
        drawn = [name for name in ("fill", "stroke", "stroke-width") if name in properties]
        style = ";".join(f"{name}:{properties[name]}" for name in drawn)
        line = re.sub(r"\s*([A-Z])\s*", r"\1", path["line"].strip())
        lines.setdefault(style, []).append(line)
    paths = []
    for style, lines_of_style in lines.items():
        line = "".join(lines_of_style)
        paths.append(f'<path style="{style}" d="{line}"/>')
    other_elements = _PATH.sub("", inner).replace("\n", "").strip()
    # marks of atoms are ellipses, which lie below the bonds
    return other_elements + "".join(paths)
