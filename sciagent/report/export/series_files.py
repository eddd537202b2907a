"""The series of candidates, such as powder patterns and spectra, as csv files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.report.parts.series_charts import StoredSeries, stored_series
from sciagent.report.parts.table import PAGE
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views import candidates as ask
from sciagent.store.views.candidates import Ranked


class SeriesFile(NamedTuple):
    """A series of a candidate, written as csv."""

    path: Path
    candidate: Ranked
    stored: StoredSeries


def write_series(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, folder: Path, hits: bool = False
) -> int:
    """Writes the series of all candidates, or of the hits, into a folder. Returns the number of files."""
    n = 0
    for page in ask.pages(connection, row, PAGE, hits):
        n += sum(1 for _ in series_files(connection, row, artifacts, page, folder))
    return n


def series_files(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, candidates: Sequence[Ranked], folder: Path
) -> Iterator[SeriesFile]:
    """Writes the series of these candidates and yields them; the names are made from keys, rungs and evidence."""
    answers = ask.answers(connection, row, rungs(connection, row.id), [candidate.id for candidate in candidates])
    for candidate in candidates:
        taken: set[str] = set()
        for stored in stored_series(artifacts, answers.get(candidate.id, [])):
            rung = re.sub(r"\W", "_", stored.answer.rung)
            name = f"{candidate.key[:16]}-{rung}"
            name = name if name not in taken else f"{name}-{stored.answer.key[:8]}-{len(taken)}"
            taken.add(name)
            path = folder / f"{name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(stored.series.rows())
            yield SeriesFile(path, candidate, stored)
