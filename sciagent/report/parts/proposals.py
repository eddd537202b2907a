"""Everything that was handed in, unreadable texts and duplicates too: one row a proposal, streamed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

from sqlalchemy.engine import Connection

from sciagent.report.parts.table import harmless
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import report_queries

FIELDS = (
    "id",
    "at",
    "turn",
    "proposer",
    "status",
    "reason",
    "detail",
    "text",
    "candidate",
    "operation",
    "rationale",
    "predicted",
)


def proposals(connection: Connection, row: CampaignRow) -> Iterator[Mapping[str, Any]]:
    """By status, then in the order they came. text: as it was handed in. candidate: the key it has. predicted: JSON."""
    for one in report_queries.proposals(connection, row):
        found = dict(zip(FIELDS, one, strict=True))
        found["at"] = found["at"].isoformat()
        found["predicted"] = json.dumps(found["predicted"], ensure_ascii=False) if found["predicted"] else None
        yield found


def write_csv(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    n, writer = 0, csv.writer(file)
    writer.writerow(FIELDS)
    for n, one in enumerate(proposals(connection, row), start=1):  # noqa: B007
        writer.writerow([harmless(one[name]) for name in FIELDS])
    return n


def write_jsonl(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    n = 0
    for n, one in enumerate(proposals(connection, row), start=1):  # noqa: B007
        file.write(json.dumps(one, ensure_ascii=False) + "\n")
    return n
