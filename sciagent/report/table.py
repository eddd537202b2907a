"""The table of a campaign: one row a candidate, paged through, never whole in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store import queries
from sciagent.store import tables as t
from sciagent.store.campaigns import CampaignRow, rungs
from sciagent.store.evidence import measured_of

PAGE = 500
FIXED = ("key", "smiles", "inchikey", "standing", "rung", "verdict", "reason", "detail", "hit", "utility", "in_seeds")


def rows(connection: Connection, row: CampaignRow) -> Iterator[dict[str, Any]]:
    """Every candidate in order of arrival: the fixed columns, and `values`: rung -> property -> value."""
    cc, labels, last = t.campaign_candidate.c, {r.position: r.name for r in rungs(connection, row.id)}, -1
    while True:
        query = (
            sa.select(t.campaign_candidate, t.candidate.c.key, t.candidate.c.text, t.candidate.c.inchikey)
            .join(t.candidate, t.candidate.c.id == cc.candidate_id)
            .where(cc.campaign_id == row.id, cc.seq > last)
            .order_by(cc.seq)
            .limit(PAGE)
        )
        page = connection.execute(query).mappings().all()
        if not page:
            return
        found = queries.evidence_of(connection, row, [r["candidate_id"] for r in page])
        measured = measured_of(connection, [e["id"] for pairs in found.values() for _, e in pairs])
        for r in page:
            values = {
                rung.name: {m.property: _value(m) for m in measured.get(one["id"], ())}
                for rung, one in found[r["candidate_id"]]
            }
            yield {
                "key": r["key"],
                "smiles": r["text"],
                "inchikey": r["inchikey"],
                "standing": r["standing"],
                "rung": labels.get(r["position"]),
                "verdict": r["verdict"],
                "reason": r["reason"],
                "detail": r["detail"],
                "hit": bool(r["is_hit"]),
                "utility": r["utility"],
                "in_seeds": bool(r["in_seeds"]),
                "values": values,
            }
        last = page[-1]["seq"]


def _value(m: Any) -> dict[str, Any]:
    q = m.quantity
    return {"value": q.value, "uncertainty": q.uncertainty, "unit": q.unit, "level": m.level.label}


def write_table(connection: Connection, row: CampaignRow, file: IO[str], format: str) -> int:
    """CSV (columns `rung.property [unit]` and their uncertainty) or JSON lines; returns the number of rows."""
    n = 0
    if format == "jsonl":
        for n, one in enumerate(rows(connection, row), start=1):  # noqa: B007
            file.write(json.dumps(one, ensure_ascii=False) + "\n")
        return n
    columns = measured_columns(connection, row)
    writer = csv.writer(file)
    head = [f"{rung}.{prop} [{unit}]" for rung, prop, unit in columns]
    writer.writerow([*FIXED, *(h for name in head for h in (name, f"{name} uncertainty"))])
    for n, one in enumerate(rows(connection, row), start=1):  # noqa: B007
        cells = [one[name] for name in FIXED]
        for rung, prop, _ in columns:
            value = one["values"].get(rung, {}).get(prop)
            cells += [value["value"], value["uncertainty"]] if value else ["", ""]
        writer.writerow([_harmless(c) for c in cells])
    return n


def measured_columns(connection: Connection, row: CampaignRow) -> list[tuple[str, str, str]]:
    """(rung, property, unit) of everything that was measured under the campaign's rungs."""
    columns = []
    e, q, p = t.current_evidence.c, t.quantity.c, t.property_.c
    for rung in rungs(connection, row.id):
        query = (
            sa.select(p.name, p.unit)
            .distinct()
            .select_from(t.quantity)
            .join(t.property_, p.id == q.property_id)
            .join(t.current_evidence, e.id == q.evidence_id)
            .join(t.campaign_candidate, t.campaign_candidate.c.candidate_id == e.candidate_id)
            .where(
                t.campaign_candidate.c.campaign_id == row.id, e.verifier == rung.verifier,
                e.verifier_version == rung.verifier_version, e.settings_hash == rung.settings_hash,
            )
            .order_by(p.name)
        )  # fmt: skip
        columns += [(rung.name, name, unit) for name, unit in connection.execute(query)]
    return columns


def _harmless(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula is quoted."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "@", "\t", "\r") else cell
