"""Writes the relaxed crystals of a campaign as a list of pymatgen's ComputedStructureEntry (`write_entries`).

Such a file gives the crystals of one campaign to the hull of another: `entries:` of `mlff.relax` takes their energies,
on the scale that the parameters of each entry state, or with `entries_as: structures` their cells, for any model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import FORMATION_ENERGY
from sciagent.errors import InvalidCandidateError, UsageError
from sciagent.report.parts.export_rows import CIF_FORMAT, Entry, MeasuredColumn, columns, entries, geometry
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.report_candidates import EvidenceAnswer

PAGE_ROWS = 200  # candidates whose entries are made together
ENERGY = "energy_per_atom"
"""Diagnostic with the energy of the relaxed cell, eV per atom."""
SCALE = "energy_scale"
"""Diagnostic with the scale of this energy, such as `PBE+U, MP2020`; also the parameter of an entry."""


class _Source(NamedTuple):
    """The answer that has the energy of a candidate, and its formation energy, which states the level."""

    answer: EvidenceAnswer
    formation: Measured


class _EnergyOnScale(NamedTuple):
    """An energy in eV per atom, with the label of its scale."""

    per_atom: float
    scale: str


def write_entries(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, file: IO[str], hits: bool = False
) -> tuple[int, int]:
    """Writes the list as JSON. Returns (entries written, candidates left out).

    All energies are of one level: those of the last rung that measured formation energies. Candidates without an answer
    of this rung, or whose relaxed cell is gone, are left out. An entry has its energy of all atoms in eV, no
    correction, and as parameters the model, the energy's scale and the level; its `entry_id` is the candidate's name or
    the beginning of its key.
    Raises UsageError for a campaign of molecules, and for one without formation energies.
    """
    subject = subject_of(row.spec["subject"])
    if not subject.relaxed_file:
        raise UsageError(f"entries are crystals, and {row.name} has {subject.words.many}; choose another format")
    wanted = columns(connection, row)
    measured = [column for column in wanted if column.property == FORMATION_ENERGY.name]
    if not measured:
        raise UsageError(f"no rung of {row.name} measured a formation energy; a rung of mlff.relax does")
    level = measured[-1]
    stream = entries(connection, row, wanted, hits=hits)
    n_written = 0
    n_left_out = 0
    file.write("[")
    while page := list(islice(stream, PAGE_ROWS)):
        written = list(_computed_entries(connection, artifacts, page, level))
        for computed in written:
            separator = ",\n" if n_written else "\n"
            file.write(separator + computed)
            n_written += 1
        n_left_out += len(page) - len(written)
    file.write("\n]\n")
    return n_written, n_left_out


def _computed_entries(
    connection: Connection, artifacts: ArtifactStore, page: Sequence[Entry], level: MeasuredColumn
) -> Iterator[str]:
    """Yields the computed entries of some candidates as JSON, without those that have none."""
    sources: list[tuple[Entry, _Source]] = []
    for entry in page:
        source = _source(entry, level)
        if source is not None:
            sources.append((entry, source))
    energies = _energies(connection, [source.answer.evidence_id for _, source in sources])
    for entry, source in sources:
        energy = energies.get(source.answer.evidence_id)
        stored = geometry(artifacts, [source.answer])
        if energy is None or stored is None or stored[1] != CIF_FORMAT:
            continue
        try:
            crystal = subject_of(entry.candidate.kind).read(stored[0])
        except InvalidCandidateError:
            continue
        yield _computed_entry(entry, source, energy, crystal)


def _source(entry: Entry, level: MeasuredColumn) -> _Source | None:
    """Returns the answer that measured the formation energy at this level; None without one."""
    for answer in reversed(entry.answers):
        for measured in answer.measured:
            if answer.rung == level.rung and (measured.property, measured.level.label) == (level.property, level.level):
                return _Source(answer, measured)
    return None


def _energies(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, _EnergyOnScale]:
    """Returns {evidence id: energy of the relaxed cell}, without evidence that does not state it."""
    e = t.evidence.c
    energies: dict[int, _EnergyOnScale] = {}
    if not evidence_ids:
        return energies
    for id_, facts in connection.execute(sa.select(e.id, e.diagnostics).where(among(connection, e.id, evidence_ids))):
        if facts and ENERGY in facts and SCALE in facts:
            energies[id_] = _EnergyOnScale(float(facts[ENERGY]), str(facts[SCALE]))
    return energies


def _computed_entry(entry: Entry, source: _Source, energy: _EnergyOnScale, crystal: Any) -> str:
    """Returns the ComputedStructureEntry of a candidate as JSON. crystal: with the relaxed cell."""
    from pymatgen.entries.computed_entries import ComputedStructureEntry

    candidate = entry.candidate
    parameters = {
        "model": source.formation.level.method,
        SCALE: energy.scale,
        "level": source.formation.level.label,
        "software": f"sciagent {__version__}",
    }
    data = {
        "key": candidate.key,
        "text": candidate.text,
        "evidence": source.answer.key,
        FORMATION_ENERGY.name: source.formation.quantity.value,
    }
    computed = ComputedStructureEntry(
        crystal.structure,
        energy=energy.per_atom * crystal.n_atoms,
        parameters=parameters,
        data=data,
        entry_id=candidate.name or candidate.key[:12],
    )
    return json.dumps(computed.as_dict(), ensure_ascii=False)
