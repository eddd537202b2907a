"""A campaign as an ASE database: a row for each candidate with a geometry, its values as pairs and data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.report.export.geometries import atoms_of
from sciagent.report.parts.table import Entry, MeasuredColumn, columns, entries, nested
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.artifacts import ArtifactStore

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
    written = without = 0
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
