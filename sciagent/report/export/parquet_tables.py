"""Tables of a campaign for Parquet: candidates (a row each), evidence (a row per value) and proposals.

`ArrowRows` holds the rows of a table and writes them in row groups, so that never all rows are in memory. Units and
levels are in the metadata of the fields; facts about the whole file are in the metadata of the schema.
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
from sciagent.report.parts.export_rows import (
    FIXED_COLUMNS,
    PROPOSAL_COLUMNS,
    Entry,
    columns,
    entries,
    margin_columns,
    name_columns,
    proposals,
)
from sciagent.store.campaign_state.campaigns import CampaignRow

NUMBERS = ("utility", "p_hit", "expected_utility", "p_limits")
"""Fixed columns that hold numbers."""
GROUP_ROWS = 5000  # rows of a row group, which are in memory together


@dataclass(frozen=True)
class ArrowRows:
    """Rows with their schema; the rows are generated while they are written."""

    schema: Any
    """`pyarrow.Schema`; units and levels are in the metadata of its fields."""
    rows: Iterable[Mapping[str, Any]]
    """Cells of each row by column; missing cells are null."""
    group: int | None = None
    """Largest number of rows of a row group; None: GROUP_ROWS."""

    def batches(self) -> Iterator[Any]:
        """Yields `pyarrow.RecordBatch`es of at most `group` rows."""
        import pyarrow as pa

        rows = iter(self.rows)
        while group := list(islice(rows, self.group or GROUP_ROWS)):
            yield pa.RecordBatch.from_pylist(group, schema=self.schema)

    def write(self, path: Path) -> int:
        """Writes a Parquet file with a row group per batch. Returns the number of rows."""
        import pyarrow.parquet as pq

        n_rows = 0
        with pq.ParquetWriter(path, self.schema, compression="zstd") as writer:
            for batch in self.batches():
                writer.write_batch(batch)
                n_rows += batch.num_rows
        return n_rows


def candidate_rows(connection: Connection, row: CampaignRow, hits: bool = False) -> ArrowRows:
    """Returns a row per candidate; each value has three columns: `rung.property`, uncertainty, censoring."""
    import pyarrow as pa

    wanted = columns(connection, row)
    types = {"hit": pa.bool_(), "in_seeds": pa.bool_(), **dict.fromkeys(NUMBERS, pa.float64())}  # all others are texts
    names = [*name_columns(connection, row), *FIXED_COLUMNS]
    fields = [pa.field(name, types.get(name, pa.string())) for name in names]
    of_objectives = margin_columns(row)
    for of_objective in of_objectives:
        about_margin = {"unit": of_objective.unit, "description": of_objective.description}
        fields.append(pa.field(of_objective.name, pa.float64(), metadata=about_margin))
    of_uncertainty = {"description": "standard uncertainty, k = 1; null where nobody knows it"}
    of_censoring = {"description": "below, above or none"}
    for column in wanted:
        # column.name is column.property, with `@level` if the rung measured it at several levels
        label = f"{column.rung}.{column.name}"
        about = {name: getattr(column, name) for name in ("unit", "level", "rung", "property", "description")}
        fields += [
            pa.field(label, pa.float64(), metadata=about),
            pa.field(f"{label}.uncertainty", pa.float64(), metadata=about | of_uncertainty),
            pa.field(f"{label}.censoring", pa.string(), metadata=of_censoring),
        ]

    def line(entry: Entry) -> Mapping[str, Any]:
        cells = {**entry.named, **entry.fixed}
        cells |= {of_objective.name: of_objective.cell(entry) for of_objective in of_objectives}
        for (rung, name), measured in entry.values.items():
            cells[f"{rung}.{name}"] = measured.quantity.value
            cells[f"{rung}.{name}.uncertainty"] = measured.quantity.uncertainty
            cells[f"{rung}.{name}.censoring"] = str(measured.quantity.censoring)
        return cells

    schema = pa.schema(fields, metadata=table_metadata(row, "candidates"))
    return ArrowRows(schema, (line(entry) for entry in entries(connection, row, wanted, hits=hits)))


# (column, type in Arrow, description)
EVIDENCE_COLUMNS = (
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

    as_of: only current evidence up to this watermark, so that evidence that was corrected later is missing; None: all
    current evidence.
    """
    import pyarrow as pa

    fields = []
    for name, type_name, text in EVIDENCE_COLUMNS:
        arrow_type = getattr(pa, type_name)()
        fields.append(pa.field(name, arrow_type, metadata={"description": text}))
    schema = pa.schema(fields, metadata=table_metadata(row, "evidence"))
    return ArrowRows(schema, _evidence(connection, row, as_of))


def _evidence(connection: Connection, row: CampaignRow, as_of: int | None) -> Iterator[Mapping[str, Any]]:
    """Yields the cells of each row of the evidence, by the names of EVIDENCE_COLUMNS; missing cells are null."""
    for entry in entries(connection, row, ()):
        for answer in entry.answers:
            if as_of is not None and answer.watermark > as_of:
                continue
            base = {
                "evidence": answer.key,
                "candidate": entry.candidate.key,
                "text": entry.candidate.text,
                "rung": answer.rung,
                "verifier": answer.verifier,
                "verifier_version": answer.version,
                "outcome": answer.outcome,
                "reason": answer.reason,
                "replicate": answer.replicate,
                "revision": answer.revision,
                "attempt": answer.attempt_id,
                "campaign": answer.campaign,
                "source": answer.source,
                "who": answer.who,
                "at": answer.at.isoformat(),
                "versions": json.dumps(dict(answer.versions or {}), sort_keys=True),
                "cost": json.dumps(answer.cost, sort_keys=True),
                "watermark": answer.watermark,
            }
            if not answer.measured:
                yield base
            for measured in answer.measured:
                quantity = measured.quantity
                level = measured.level
                yield base | {
                    "property": measured.property,
                    "censoring": str(quantity.censoring),
                    **{name: getattr(quantity, name) for name in ("value", "uncertainty", "unit", "n", "as_typed")},
                    **{name: getattr(level, name) for name in ("method", "basis", "phase", "geometry")},
                }


def proposal_rows(connection: Connection, row: CampaignRow) -> ArrowRows:
    """Returns a row per proposal, with PROPOSAL_COLUMNS."""
    import pyarrow as pa

    numbers = {"chance": pa.float64(), "propensity": pa.float64()}
    types = {"id": pa.int64(), "turn": pa.int64(), **numbers}  # all others are texts
    fields = [pa.field(name, types.get(name, pa.string())) for name in PROPOSAL_COLUMNS]
    schema = pa.schema(fields, metadata=table_metadata(row, "proposals"))
    return ArrowRows(schema, proposals(connection, row))


# {table: function that returns its rows}
TABLES = {"candidates": candidate_rows, "evidence": evidence_rows, "proposals": proposal_rows}


def table_metadata(row: CampaignRow, what: str) -> dict[str, str]:
    """Returns the metadata of a table of a campaign. Limits of objectives are in the units that the campaign chose."""
    return {
        "sciagent": __version__,
        "table": what,
        "campaign": row.name,
        "spec_hash": row.spec_hash,
        "objectives": json.dumps(row.shown_spec["objectives"]),
        "terminal": str(row.spec.get("terminal", "")),
    }
