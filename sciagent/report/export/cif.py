"""A campaign of crystals as one CIF file: a data block per candidate, with the cell that a rung relaxed, else as
proposed."""

from __future__ import annotations

import re
from typing import IO, Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.quantities import show
from sciagent.errors import UsageError
from sciagent.report.export.geometries import atoms_of
from sciagent.report.parts.table import Entry, columns, entries
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.artifacts import ArtifactStore

_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


def write_cif(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the file. Returns (blocks written, blocks with a relaxed cell).

    Each block is in P1 and is named after the candidate; comments above it state the key, the standing, and each value
    with unit, uncertainty and level. Raises UsageError for a campaign whose candidates have no cells.
    """
    written = relaxed = 0
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
