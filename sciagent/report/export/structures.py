"""A campaign as an SD file: an entry per molecule, with the geometry that a rung stored, else with 2D coordinates."""

from __future__ import annotations

from typing import IO, Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.errors import UsageError
from sciagent.report.parts.table import FIXED, Entry, columns, entries, geometry
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.artifacts import ArtifactStore

# allowed bond lengths, as multiples of the sum of covalent radii; a little wider than the engines' limits
LONGEST, SHORTEST = 1.45, 0.55
TAGS = tuple(name for name in FIXED if name not in ("kind", "text"))
"""The fixed columns that are tags; in an SD file all are molecules, and their text is the SMILES."""


def write_sdf(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the file. Returns (entries, entries in three dimensions). Raises UsageError for a campaign of crystals.

    The title is the candidate's name, else its InChIKey. Tags: the names, the fixed columns; for each value
    `rung.property [unit]`, and its uncertainty, censoring and level.
    """
    if (subject := row.spec["subject"]) != MOLECULE_KIND:
        many = subject_of(subject).words.many
        raise UsageError(f"an SD file holds molecules; export {many} with --format ase or cif")
    from rdkit import Chem

    written = solid = 0
    with Chem.SDWriter(file) as writer:
        for entry in entries(connection, row, columns(connection, row), hits=hits):
            mol, source = _with_coordinates(entry, artifacts)
            for name, value in _tags(entry, source).items():
                mol.SetProp(name, value)
            writer.write(mol)
            written += 1
            solid += source != "2D"
    return written, solid


def _with_coordinates(entry: Entry, artifacts: ArtifactStore) -> tuple[Any, str]:
    """Returns the molecule and the origin of its coordinates: a rung with its evidence, or `2D`."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    molecule = Molecule.from_payload(entry.candidate.payload)
    text, form, answer = geometry(artifacts, entry.answers) or ("", "", None)
    if answer is not None and form == "xyz" and (mol := placed(molecule, text)) is not None:
        return mol, f"{answer.rung}, evidence {answer.key}"
    mol = Chem.Mol(molecule.mol)
    rdDepictor.Compute2DCoords(mol)
    return mol, "2D"


def placed(molecule: Molecule, xyz: str) -> Any | None:
    """Returns the RDKit molecule with explicit hydrogens and a conformer from XYZ text (angstrom).

    Returns None if the text is no geometry of this molecule in the order of its atoms: wrong number of atoms, other
    elements, or bond lengths that do not fit the graph.
    """
    import numpy as np
    from rdkit import Chem
    from rdkit.Chem.rdMolTransforms import GetBondLength

    mol = Chem.AddHs(molecule.mol)
    lines = xyz.splitlines()
    try:
        rows = [line.split() for line in lines[2 : 2 + int(lines[0])]]
        symbols, positions = [row[0].capitalize() for row in rows], np.array([row[1:4] for row in rows], dtype=float)
    except (IndexError, ValueError):
        return None
    if symbols != [atom.GetSymbol() for atom in mol.GetAtoms()] or positions.shape != (len(symbols), 3):
        return None
    conformer = Chem.Conformer(len(symbols))
    conformer.Set3D(True)
    conformer.SetPositions(positions)
    mol.AddConformer(conformer, assignId=True)
    radius = Chem.GetPeriodicTable().GetRcovalent
    for bond in mol.GetBonds():
        a, b = bond.GetBeginAtom(), bond.GetEndAtom()
        length = GetBondLength(mol.GetConformer(), a.GetIdx(), b.GetIdx())
        if not SHORTEST <= length / (radius(a.GetAtomicNum()) + radius(b.GetAtomicNum())) <= LONGEST:
            return None
    return mol


def _tags(entry: Entry, source: str) -> dict[str, str]:
    tags = {"_Name": one_line(entry.candidate.name or entry.candidate.inchikey or entry.candidate.key)}
    tags |= {name: one_line(text) for name, text in entry.named.items() if text}
    tags |= {name: one_line(entry.fixed[name]) for name in TAGS if entry.fixed[name] not in (None, "")}
    tags |= {name: str(getattr(entry.candidate, name)) for name in ("charge", "multiplicity")} | {"geometry": source}
    for (rung, name), m in entry.values.items():
        q, label = m.quantity, f"{rung}.{name}"
        tags[f"{label} [{q.unit}]"] = repr(q.value)
        if q.uncertainty is not None:
            tags[f"{label} uncertainty [{q.unit}]"] = repr(q.uncertainty)
        if q.censoring != "none":
            tags[f"{label} censoring"] = str(q.censoring)
        tags[f"{label} level"] = one_line(m.level.label)
    return tags


def one_line(value: Any) -> str:
    """Returns the value on a single line, since an empty line or `$$$$` would end a tag or the entry."""
    return " ".join(str(value).split()).replace("$$$$", "$ $ $ $")
