"""Campaigns as Parquet: candidates (a row each), evidence (a row per value) and proposals, streamed in row groups.

Units and levels are in the metadata of the fields; facts about the whole file are in the metadata of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.report.parts.table import FIXED, PROPOSAL, Entry, columns, entries, name_columns, proposals
from sciagent.store.campaign_state.campaigns import CampaignRow

GROUP = 5000  # rows of a row group, which are in memory together


@dataclass(frozen=True)
class ArrowRows:
    """Rows with their schema; the rows are generated while they are written."""

    schema: Any
    """`pyarrow.Schema`; units and levels are in the metadata of its fields."""
    rows: Iterable[Mapping[str, Any]]
    """Cells of each row by column; missing cells are null."""
    group: int | None = None
    """Largest number of rows of a row group; None: GROUP."""

    def batches(self) -> Iterator[Any]:
        """Yields `pyarrow.RecordBatch`es of at most that many rows."""
        import pyarrow as pa

        rows = iter(self.rows)
        while group := list(islice(rows, self.group or GROUP)):
            yield pa.RecordBatch.from_pylist(group, schema=self.schema)

    def write(self, path: Path) -> int:
        """Writes a Parquet file with a row group per batch. Returns the number of rows."""
        import pyarrow.parquet as pq

        n = 0
        with pq.ParquetWriter(path, self.schema, compression="zstd") as writer:
            for batch in self.batches():
                writer.write_batch(batch)
                n += batch.num_rows
        return n


def candidate_rows(connection: Connection, row: CampaignRow, hits: bool = False) -> ArrowRows:
    """Returns a row per candidate; each value has three columns: `rung.property`, uncertainty, censoring."""
    import pyarrow as pa

    wanted = columns(connection, row)
    kinds = {"hit": pa.bool_(), "in_seeds": pa.bool_(), "utility": pa.float64()}
    fields = [pa.field(name, kinds.get(name, pa.string())) for name in (*name_columns(connection, row), *FIXED)]
    uncertainty = {"description": "standard uncertainty, k = 1; null where nobody knows it"}
    for c in wanted:
        about = {name: getattr(c, name) for name in ("unit", "level", "rung", "property", "description")}
        fields += [
            pa.field(f"{c.rung}.{c.name}", pa.float64(), metadata=about),
            pa.field(f"{c.rung}.{c.name}.uncertainty", pa.float64(), metadata=about | uncertainty),
            pa.field(f"{c.rung}.{c.name}.censoring", pa.string(), metadata={"description": "below, above or none"}),
        ]

    def line(entry: Entry) -> Mapping[str, Any]:
        cells = {**entry.named, **entry.fixed}
        for (rung, name), m in entry.values.items():
            cells[f"{rung}.{name}"] = m.quantity.value
            cells[f"{rung}.{name}.uncertainty"] = m.quantity.uncertainty
            cells[f"{rung}.{name}.censoring"] = str(m.quantity.censoring)
        return cells

    schema = pa.schema(fields, metadata=table_metadata(row, "candidates"))
    return ArrowRows(schema, (line(entry) for entry in entries(connection, row, wanted, hits=hits)))


EVIDENCE = (
    ("evidence", "string", "key of the evidence"), ("candidate", "string", "key of the candidate"),
    ("text", "string", "SMILES of a molecule, name of a crystal"), ("rung", "string", "rung of this campaign"),
    ("verifier", "string", "what measured or computed it"), ("verifier_version", "string", "its version"),
    ("outcome", "string", "ok, refused, not_converged, ..."), ("reason", "string", "why it is not ok"),
    ("property", "string", "null where there is no value"), ("value", "float64", "in `unit`"),
    ("uncertainty", "float64", "standard uncertainty, k = 1, in `unit`; null where nobody knows it"),
    ("unit", "string", "that the campaign chose, else the canonical one"),
    ("censoring", "string", "below, above or none"),
    ("n", "int64", "replicates behind the value"), ("as_typed", "string", "as a person or a file gave it"),
    ("method", "string", "of the level"), ("basis", "string", "of the level"), ("phase", "string", "of the level"),
    ("geometry", "string", "of the level: protocol of the geometry"), ("replicate", "int64", ""),
    ("revision", "int64", ""), ("attempt", "int64", "id of the attempt"), ("campaign", "string", "that paid for it"),
    ("cost", "string", "JSON: the candidate's share of the attempt's cost, by resource"),
    ("watermark", "int64", "number in the order of commits"),
    ("source", "string", "computed, or a file's name"), ("who", "string", ""), ("at", "string", "UTC, ISO 8601"),
    ("versions", "string", "JSON: engines and their versions"),
)  # fmt: skip


def evidence_rows(connection: Connection, row: CampaignRow, as_of: int | None = None) -> ArrowRows:
    """Returns a row per value measured by the campaign's rungs; an answer without values has one row.

    as_of: only current evidence up to this watermark; None: all. What was corrected later is missing.
    """
    import pyarrow as pa

    fields = [pa.field(name, getattr(pa, kind)(), metadata={"description": text}) for name, kind, text in EVIDENCE]
    return ArrowRows(pa.schema(fields, metadata=table_metadata(row, "evidence")), _evidence(connection, row, as_of))


def _evidence(connection: Connection, row: CampaignRow, as_of: int | None) -> Iterator[Mapping[str, Any]]:
    for entry in entries(connection, row, ()):
        for a in entry.answers:
            if as_of is not None and a.watermark > as_of:
                continue
            base = {
                "evidence": a.key, "candidate": entry.candidate.key, "text": entry.candidate.text, "rung": a.rung,
                "verifier": a.verifier, "verifier_version": a.version, "outcome": a.outcome, "reason": a.reason,
                "replicate": a.replicate, "revision": a.revision, "attempt": a.attempt_id, "campaign": a.campaign,
                "source": a.source, "who": a.who, "at": a.at.isoformat(),
                "versions": json.dumps(dict(a.versions or {}), sort_keys=True),
                "cost": json.dumps(a.cost, sort_keys=True), "watermark": a.watermark,
            }  # fmt: skip
            if not a.measured:
                yield base
            for m in a.measured:
                q = m.quantity
                lv = m.level
                yield base | {
                    "property": m.property,
                    "censoring": str(q.censoring),
                    **{name: getattr(q, name) for name in ("value", "uncertainty", "unit", "n", "as_typed")},
                    **{name: getattr(lv, name) for name in ("method", "basis", "phase", "geometry")},
                }


def proposal_rows(connection: Connection, row: CampaignRow) -> ArrowRows:
    import pyarrow as pa

    fields = [pa.field(name, pa.int64() if name in ("id", "turn") else pa.string()) for name in PROPOSAL]
    return ArrowRows(pa.schema(fields, metadata=table_metadata(row, "proposals")), proposals(connection, row))


TABLES = {"candidates": candidate_rows, "evidence": evidence_rows, "proposals": proposal_rows}


def table_metadata(row: CampaignRow, what: str) -> dict[str, str]:
    """Returns the metadata of a table of a campaign."""
    return {
        "sciagent": __version__,
        "table": what,
        "campaign": row.name,
        "spec_hash": row.spec_hash,
        "objectives": json.dumps(row.shown_spec["objectives"]),
        "terminal": str(row.spec.get("terminal", "")),
    }
