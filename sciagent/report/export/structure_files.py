"""Writes the structures of a campaign as files of other programs: SD for molecules (`write_sdf`), CIF for crystals
(`write_cif`), and an ASE database for both (`write_ase`).

The geometry is the last that a rung stored. Without one, an SD file has 2D coordinates, and the others the structure as
it was proposed. An ASE database has a row for each candidate with a geometry, and a CIF file a data block.
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
from sciagent.chemistry.crystals.conventional_cell_and_cif import CifTable, cif_of
from sciagent.chemistry.isomers_and_tautomers import split_stereo_groups, with_open_stereo, with_stereo_groups
from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, standardised_notes
from sciagent.domain.quantities import Censoring
from sciagent.errors import SciagentError, UsageError
from sciagent.report.parts.export_rows import (
    AS_PROPOSED,
    CIF_FORMAT,
    FIXED_COLUMNS,
    Entry,
    MeasuredColumn,
    columns,
    entries,
    geometry,
    nested,
    placed_candidate,
)
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.report_queries import proposed_texts

# Bond lengths that are allowed, as multiples of the sum of covalent radii; a little wider than the engines' limits.
LONGEST_BOND = 1.45
SHORTEST_BOND = 0.55
FLAT = "2D"
"""Origin of coordinates that no rung stored."""
TAG_COLUMNS = tuple(name for name in FIXED_COLUMNS if name not in ("kind", "text"))
"""The fixed columns that are tags. In an SD file every kind is a molecule, and every text a SMILES, so both are left
out."""


def write_sdf(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the file. Returns (entries, entries in three dimensions). Raises UsageError for a campaign of crystals.

    The title is the candidate's name, else its InChIKey. Tags: the names, the fixed columns; for each value
    `rung.property [unit]`, and its uncertainty, censoring and level.

    The stereo is that of the candidate, not that of its geometry: what is undefined stays undefined, with the computed
    isomer as a tag, and a mixture keeps its enhanced stereo groups.
    """
    subject = row.spec["subject"]
    if subject != MOLECULE_KIND:
        many = subject_of(subject).words.many
        raise UsageError(f"an SD file holds molecules; export {many} with --format ase or cif")
    from rdkit import Chem

    n_written = 0
    n_with_geometry = 0
    with Chem.SDWriter(file) as writer:
        for entry in entries(connection, row, columns(connection, row), hits=hits):
            mol, source = _with_coordinates(entry, artifacts)
            mol = with_open_stereo(mol, Molecule.from_payload(entry.candidate.payload).mol)
            if standardised_notes(entry.candidate.names):  # a mixture has such a note
                mol = _as_proposed(connection, row, entry, mol)
            for name, value in _tags(entry, source).items():
                mol.SetProp(name, value)
            writer.write(mol)
            n_written += 1
            if source != FLAT:
                n_with_geometry += 1
    return n_written, n_with_geometry


def _with_coordinates(entry: Entry, artifacts: ArtifactStore) -> tuple[Any, str]:
    """Returns the molecule and the origin of its coordinates: a rung with its evidence, or `2D`."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    molecule = Molecule.from_payload(entry.candidate.payload)
    stored = geometry(artifacts, entry.answers)
    if stored is not None:
        text, file_format, answer = stored
        mol_with_geometry = placed(molecule, text) if file_format == "xyz" else None
        if mol_with_geometry is not None:
            return mol_with_geometry, f"{answer.rung}, evidence {answer.key}"
    mol = Chem.Mol(molecule.mol)
    rdDepictor.Compute2DCoords(mol)
    return mol, FLAT


def _as_proposed(connection: Connection, row: CampaignRow, entry: Entry, mol: Any) -> Any:
    """Returns the molecule with the enhanced stereo groups of its proposals; unchanged if any of them has none."""
    texts = proposed_texts(connection, row.id, entry.candidate.id)
    with_groups = [text for text in texts if split_stereo_groups(text)[1]]
    if not with_groups or len(with_groups) < len(texts):
        return mol
    return with_stereo_groups(mol, with_groups[0]) or mol


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
        n_atoms = int(lines[0])
        rows = [line.split() for line in lines[2 : 2 + n_atoms]]  # line 1 is a comment
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
    covalent_radius = Chem.GetPeriodicTable().GetRcovalent
    for bond in mol.GetBonds():
        a = bond.GetBeginAtom()
        b = bond.GetEndAtom()
        length = GetBondLength(mol.GetConformer(), a.GetIdx(), b.GetIdx())
        usual_length = covalent_radius(a.GetAtomicNum()) + covalent_radius(b.GetAtomicNum())
        if not SHORTEST_BOND <= length / usual_length <= LONGEST_BOND:
            return None
    return mol


def _tags(entry: Entry, source: str) -> dict[str, str]:
    """Returns {tag: text}; `_Name` is the title. source: origin of the coordinates."""
    candidate = entry.candidate
    tags = {"_Name": one_line(candidate.name or candidate.inchikey or candidate.key)}
    tags |= {name: one_line(text) for name, text in entry.named.items() if text}
    tags |= {name: one_line(entry.fixed[name]) for name in TAG_COLUMNS if entry.fixed[name] not in (None, "")}
    tags["charge"] = str(candidate.charge)
    tags["multiplicity"] = str(candidate.multiplicity)
    tags["geometry"] = source
    for (rung, name), measured in entry.values.items():
        quantity = measured.quantity
        label = f"{rung}.{name}"
        if quantity.isomer is not None:
            tags[f"{rung} isomer"] = str(quantity.isomer)
        tags[f"{label} [{quantity.unit}]"] = repr(quantity.value)
        if quantity.uncertainty is not None:
            tags[f"{label} uncertainty [{quantity.unit}]"] = repr(quantity.uncertainty)
        if quantity.censoring is not Censoring.NONE:
            tags[f"{label} censoring"] = str(quantity.censoring)
        tags[f"{label} level"] = one_line(measured.level.label)
    return tags


def one_line(value: Any) -> str:
    """Returns the value on a single line, since an empty line or `$$$$` would end a tag or the entry."""
    return " ".join(str(value).split()).replace("$$$$", "$ $ $ $")


def atoms_of(entry: Entry, artifacts: ArtifactStore) -> tuple[Any | None, str]:
    """Returns ASE Atoms (angstrom) and their origin: a stored geometry, else the structure as proposed.

    Returns (None, "") without coordinates.
    """
    from ase.io import read

    stored = geometry(artifacts, entry.answers)
    if stored is not None and stored[1] != CIF_FORMAT:
        text, file_format, answer = stored
        with suppress(ValueError, IndexError, KeyError, OSError):
            return read(io.StringIO(text), format=file_format), f"{answer.rung}, evidence {answer.key}"
    with suppress(SciagentError):
        candidate, source = placed_candidate(entry, artifacts)
        atoms = subject_of(entry.candidate.kind).atoms(candidate.payload())
        if atoms is not None:
            return atoms, source
    return None, ""


TRANSACTION_ROWS = 500
PAIR_FIELDS = ("multiplicity", "standing", "hit", "in_seeds", "utility", "verdict", "reason", "inchikey")


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
    n_written = 0
    n_without_geometry = 0
    stream = entries(connection, row, wanted, hits=hits)
    with database:
        pass  # a database without a row is valid, too
    while batch := list(islice(stream, TRANSACTION_ROWS)):
        with database:
            for entry in batch:
                atoms, source = atoms_of(entry, artifacts)
                if atoms is None:
                    n_without_geometry += 1
                    continue
                database.write(atoms, key_value_pairs=_pairs(entry, keys), data=_data(entry, source))
                n_written += 1
    key_descriptions = {}
    for column in wanted:
        title = f"{column.rung}: {column.property}"
        description = f"{column.description}; level {column.level}"
        key_descriptions[keys[column.rung, column.name]] = (title, description, column.unit)
    database.metadata = {
        "title": row.name,
        "sciagent": __version__,
        "spec_hash": row.spec_hash,
        "key_descriptions": key_descriptions,
    }
    return n_written, n_without_geometry


def _keys(wanted: Sequence[MeasuredColumn]) -> dict[tuple[str, str], str]:
    """Returns {(rung, column name): key}, with unique keys that ASE accepts: letters, digits and underscores, not
    starting with a digit."""
    keys: dict[tuple[str, str], str] = {}
    for column in wanted:
        key = re.sub(r"\W", "_", f"{column.rung}_{column.name}", flags=re.ASCII)
        if key[0].isdigit():
            key = f"r{key}"
        while key in keys.values():
            key += "_"
        keys[column.rung, column.name] = key
    return keys


def _pairs(entry: Entry, keys: dict[tuple[str, str], str]) -> Mapping[str, Any]:
    """Returns the cells of a row by which ASE can search. keys: by rung and column name."""
    pairs = {name: getattr(entry.candidate, name) for name in PAIR_FIELDS}
    pairs |= {"candidate": entry.candidate.key, "net_charge": entry.candidate.charge}
    pairs |= {keys[rung_and_name]: measured.quantity.value for rung_and_name, measured in entry.values.items()}
    pairs["name"] = entry.candidate.name or None
    return {name: value for name, value in pairs.items() if value is not None}


def _data(entry: Entry, source: str) -> Mapping[str, Any]:
    """Returns everything else about a candidate, for the `data` of its row. source: origin of the geometry."""
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


_UNSAFE_IN_BLOCK_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def write_cif(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the file. Returns (blocks written, blocks with a relaxed cell).

    Each block is named after the candidate and has its conventional cell with space group and Wyckoff positions. The
    candidate and its values are data whose names begin with `_sciagent_`: key, standing, origin of the cell, and for
    each value rung, property, number, uncertainty, unit and level. Raises UsageError for a campaign whose candidates
    have no cells.
    """
    subject = subject_of(row.spec["subject"])
    if not subject.relaxed_file:
        raise UsageError(f"a CIF holds crystals, and {row.name} has {subject.words.many}; choose another format")
    n_written = 0
    n_relaxed = 0
    stream = entries(connection, row, columns(connection, row), hits=hits)
    for number, entry in enumerate(stream, start=1):
        candidate, source = placed_candidate(entry, artifacts)
        file.write(_block(entry, candidate, source, number))
        n_written += 1
        if source != AS_PROPOSED:
            n_relaxed += 1
    return n_written, n_relaxed


VALUE_NAMES = ("rung", "property", "censoring", "number", "uncertainty", "unit", "level")
"""Columns of the values in a CIF, after `_sciagent_value_`."""


def _block(entry: Entry, placed_crystal: Any, source: str, number: int) -> str:
    """Returns the data block of a candidate.

    placed_crystal: the Crystal with the cell that is written. source: origin of the cell. number: of the block.
    """
    candidate = entry.candidate
    name = _UNSAFE_IN_BLOCK_NAME.sub("_", candidate.name or candidate.formula)[:60]
    items = {
        "_audit_creation_method": f"sciagent {__version__}",
        "_sciagent_candidate": candidate.text,
        "_sciagent_candidate_key": candidate.key,
        "_sciagent_standing": candidate.standing,
        "_sciagent_cell_source": source,
    }
    rows = []
    for (rung, measured_name), measured in entry.values.items():
        quantity = measured.quantity
        uncertainty = "" if quantity.uncertainty is None else repr(quantity.uncertainty)
        sign = quantity.censoring.sign or "="
        rows.append([rung, measured_name, sign, repr(quantity.value), uncertainty, quantity.unit, measured.level.label])
    names = tuple(f"_sciagent_value_{column}" for column in VALUE_NAMES)
    return cif_of(placed_crystal.structure, f"{number}_{name}", items, [CifTable(names, rows)]) + "\n"
