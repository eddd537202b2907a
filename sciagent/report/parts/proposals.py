"""All proposals, including unreadable texts and duplicates: one row each, streamed."""

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
    """Proposals by status, then by arrival. text: as proposed. candidate: the candidate's key. predicted: JSON."""
    for values in report_queries.proposals(connection, row):
        proposal = dict(zip(FIELDS, values, strict=True))
        proposal["at"] = proposal["at"].isoformat()
        proposal["predicted"] = json.dumps(proposal["predicted"], ensure_ascii=False) if proposal["predicted"] else None
        yield proposal


def write_csv(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    n, writer = 0, csv.writer(file)
    writer.writerow(FIELDS)
    for n, proposal in enumerate(proposals(connection, row), start=1):  # noqa: B007
        writer.writerow([harmless(proposal[name]) for name in FIELDS])
    return n


def write_jsonl(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    n = 0
    for n, proposal in enumerate(proposals(connection, row), start=1):  # noqa: B007
        file.write(json.dumps(proposal, ensure_ascii=False) + "\n")
    return n
