"""Structures of a campaign as files of other programs: SD for molecules, CIF for crystals, and an ASE database for
both.

The geometry is what a rung stored, else the structure as it was proposed; in an SD file, 2D coordinates. An ASE
database has a row for each candidate with a geometry, its values as pairs and data. A CIF file has a data block per
candidate.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.domain.quantities import show
from sciagent.errors import SciagentError, UsageError
from sciagent.report.parts.table import FIXED, Entry, MeasuredColumn, columns, entries, geometry, nested
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import ArtifactStore

# allowed bond lengths, as multiples of the sum of covalent radii; a little wider than the engines' limits
LONGEST = 1.45
SHORTEST = 0.55
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

    written = 0
    solid = 0
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
        symbols = [row[0].capitalize() for row in rows]
        positions = np.array([row[1:4] for row in rows], dtype=float)
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
        a = bond.GetBeginAtom()
        b = bond.GetEndAtom()
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
        q = m.quantity
        label = f"{rung}.{name}"
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


BATCH = 500  # rows of a transaction
SHOWN = ("multiplicity", "standing", "hit", "in_seeds", "utility", "verdict", "reason", "inchikey")


def write_ase(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, path: Path, hits: bool = False
) -> tuple[int, int]:
    """Writes the database. Returns (rows written, candidates left out because no rung stored a geometry).

    Keys are `rung_property` in the property's canonical unit; `data` holds the values with unit, uncertainty and level,
    and the origin of the geometry. The database's metadata hold units and levels of the keys.
    """
    from ase.db import connect

    wanted = columns(connection, row)
    keys = _keys(wanted)
    database = connect(str(path), type="db", append=False, use_lock_file=False)
    written = 0
    without = 0
    stream = entries(connection, row, wanted, hits=hits)
    with database:
        pass  # a database without a row is valid, too
    while batch := list(islice(stream, BATCH)):
        with database:
            for entry in batch:
                atoms, source = atoms_of(entry, artifacts)
                if atoms is None:
                    without += 1
                    continue
                database.write(atoms, key_value_pairs=_pairs(entry, keys), data=_data(entry, source))
                written += 1
    database.metadata = {
        "title": row.name,
        "sciagent": __version__,
        "spec_hash": row.spec_hash,
        "key_descriptions": {
            keys[c.rung, c.name]: (f"{c.rung}: {c.property}", f"{c.description}; level {c.level}", c.unit)
            for c in wanted
        },
    }
    return written, without


def _keys(wanted: Sequence[MeasuredColumn]) -> dict[tuple[str, str], str]:
    """Returns unique names that ASE accepts: letters, digits and underscores, not starting with a digit."""
    names: dict[tuple[str, str], str] = {}
    for c in wanted:
        name = re.sub(r"\W", "_", f"{c.rung}_{c.name}", flags=re.ASCII)
        name = f"r{name}" if name[0].isdigit() else name
        while name in names.values():
            name += "_"
        names[c.rung, c.name] = name
    return names


def _pairs(entry: Entry, keys: dict[tuple[str, str], str]) -> Mapping[str, Any]:
    pairs = {name: getattr(entry.candidate, name) for name in SHOWN}
    pairs |= {"candidate": entry.candidate.key, "net_charge": entry.candidate.charge}
    pairs |= {keys[place]: m.quantity.value for place, m in entry.values.items()}
    pairs |= {"name": entry.candidate.name or None}
    return {name: value for name, value in pairs.items() if value is not None}


def _data(entry: Entry, source: str) -> Mapping[str, Any]:
    evidence = {
        a.rung: {"key": a.key, "verifier": a.verifier, "version": a.version, "engines": dict(a.versions or {})}
        for a in entry.answers
    }
    return {
        "text": entry.candidate.text,
        "names": dict(entry.candidate.names),
        "geometry": source,
        "values": nested(entry),
        "evidence": evidence,
    }


_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


def write_cif(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the file. Returns (blocks written, blocks with a relaxed cell).

    Each block is in P1 and is named after the candidate; comments above it state the key, the standing, and each value
    with unit, uncertainty and level. Raises UsageError for a campaign whose candidates have no cells.
    """
    written = 0
    relaxed = 0
    for number, entry in enumerate(entries(connection, row, columns(connection, row), hits=hits), 1):
        atoms, source = atoms_of(entry, artifacts)
        if atoms is None or not atoms.pbc.all():
            many = subject_of(row.spec["subject"]).words.many
            raise UsageError(f"a CIF holds crystals, and {row.name} has {many}; choose another format")
        file.write(_block(entry, atoms, source, number))
        written += 1
        relaxed += source != "as proposed"
    return written, relaxed


def _block(entry: Entry, atoms: Any, source: str, number: int) -> str:
    from pymatgen.io.ase import AseAtomsAdaptor
    from pymatgen.io.cif import CifWriter

    candidate = entry.candidate
    lines = [f"# {candidate.text}, key {candidate.key}", f"# {candidate.standing}; cell: {source}"]
    for (rung, name), measured in entry.values.items():
        quantity = measured.quantity
        amount = show(quantity.value, quantity.uncertainty, quantity.unit)
        lines.append(f"# {rung}.{name} = {quantity.censoring.sign}{amount} [{measured.level.label}]")
    text = str(CifWriter(AseAtomsAdaptor.get_structure(atoms)))
    name = _ODD.sub("_", candidate.name or candidate.formula)[:60]
    body = re.sub(r"^data_.*$", f"data_{number}_{name}", text, count=1, flags=re.MULTILINE)
    return "\n".join(line.replace("\n", " ") for line in lines) + f"\n{body}\n"
