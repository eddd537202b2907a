"""The best candidates: cards with structure, geometry, values, lineage and provenance; and rows of the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.answers.margins import LimitMargin
from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.jobs.states import Standing
from sciagent.errors import SciagentError
from sciagent.report.parts.contradictions import contradiction
from sciagent.report.parts.margins import margins, method_errors
from sciagent.report.parts.table import geometry
from sciagent.report.parts.wording import MISSED, value, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views import report_candidates as ask
from sciagent.store.views.report_candidates import EvidenceAnswer, Origin, Ranked, pooled_by_rung
from sciagent.store.views.report_objectives import kind_of

CARDS = 12
ROWS = 1000
PICTURES = 300  # rows of the table with a drawing
COLUMNS = 14  # columns of the table besides those that every campaign has
NAME = 9  # place of the name in a row of the table
MAX_GEOMETRY = 100_000  # bytes of one XYZ file


MeasuredAt = tuple[EvidenceAnswer, Measured]
"""A value and the answer that holds it."""


@dataclass(frozen=True)
class Card:
    """A card of a top candidate."""

    rank: int
    candidate: Ranked
    status: str
    kind: str
    """`hit`, `contradicted`, `verified`, `open` or `fallen`."""
    contradicted: str | None
    """The imported values that contradict a hit, as a sentence; None if none does."""
    drawing: str
    geometry: Mapping[str, str] | None
    """`text` of a geometry file, and its `format`."""
    headline: list[MeasuredAt]
    """Value of each objective's property at the highest rung that measured it; replicates are pooled."""
    imported: list[MeasuredAt]
    margins: Mapping[str, LimitMargin]
    """{property: distance of the value from the limits of its objective}."""
    origin: Origin
    answers: list[EvidenceAnswer]
    """All evidence of the candidate, with separate replicates; imported values come last."""


def cards(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], artifacts: ArtifactStore, n: int
) -> list[Card]:
    ranked = [candidate for candidate in ask.best(connection, row, n) if candidate.hit or candidate.score is not None]
    ids = [candidate.id for candidate in ranked]
    answers, imported = ask.answers(connection, row, ids), ask.imported(connection, ids)
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    errors = method_errors(connection, row, ladder)
    shown_cards, fits = [], {rung.name: rung.fits for rung in ladder}
    for rank, candidate in enumerate(ranked, start=1):
        own, from_files = answers.get(candidate.id, []), imported.get(candidate.id, [])
        highest = at_highest_rung(pooled_by_rung(own, fits))
        stored = geometry(artifacts, own, MAX_GEOMETRY)
        shown_cards.append(
            Card(
                rank,
                candidate,
                *_standing(row, candidate, ladder, from_files),
                depicted(candidate),
                geometry={"text": stored[0], "format": stored[1]} if stored else None,
                headline=[highest[name] for name in wanted if name in highest],
                imported=all_values(from_files),
                margins={margin.property: margin for margin in margins(row, highest, errors)},
                origin=ask.origin(connection, candidate),
                answers=[*own, *from_files],
            )
        )
    return shown_cards


def all_values(answers: Sequence[EvidenceAnswer]) -> list[MeasuredAt]:
    return [(answer, measured) for answer in answers for measured in answer.measured]


def _standing(
    row: CampaignRow, candidate: Ranked, ladder: Sequence[RungRow], imported: Sequence[EvidenceAnswer]
) -> tuple[str, str, str | None]:
    """Returns the fields status, kind and contradicted of `Card`. imported: imported values of the candidate."""
    if candidate.hit and (against := contradiction(row, imported)):
        return "hit, contradicted by a measurement", "contradicted", against
    return status(candidate, ladder), kind_of(candidate.standing, candidate.hit), None


def status(candidate: Ranked, ladder: Sequence[RungRow]) -> str:
    """Returns a few words: that it is a hit, which limit it failed, or which rung it has reached."""
    rung, settled = ladder[candidate.position].name, candidate.standing == Standing.SETTLED
    if candidate.hit:
        return "hit"
    if candidate.standing in (Standing.HELD, Standing.VETOED):
        return f"{'held' if candidate.standing == Standing.HELD else 'taken out'} by a person at {rung}"
    if candidate.reason:
        missed, is_value, _ = (candidate.detail or "").partition(" = ")
        subject = f"{words(missed)} " if candidate.reason in MISSED and is_value else ""
        return f"{'verified: ' if settled else f'fell at {rung}: '}{subject}{words(candidate.reason)}"
    if settled:
        return "verified"
    return f"not verified yet: waits for {rung}" if candidate.standing == Standing.OPEN else f"runs at {rung}"


def depicted(candidate: Ranked) -> str:
    """Returns the structure as SVG; an empty text for a crystal and for a molecule that cannot be drawn."""
    if candidate.kind != "molecule":
        return ""
    from sciagent.chemistry.depiction import drawing
    from sciagent.chemistry.molecule import Molecule

    try:
        return drawing(Molecule.from_payload(candidate.payload))
    except (SciagentError, ValueError, RuntimeError):
        return ""


@dataclass(frozen=True)
class Table:
    """The table of the best candidates; replicates are pooled."""

    columns: list[tuple[str, str, str, str]]
    """(rung, property, unit, level); imported values come first, with an empty text for the rung."""
    rows: list[list[Any]]
    """Cells of each row as JSON values; see `table`."""
    pictures: dict[str, str]
    """{first 12 digits of the key: drawing as SVG} of the first PICTURES molecules."""
    near_edge: int
    """Number of hits that lie within one standard uncertainty of a limit."""
    doubtful: int
    """Number of hits that lie nearer to a limit than the mean absolute error of the method."""
    judged: int
    """Number of hits for which the error of the method is known."""
    imported: list[tuple[Ranked, list[MeasuredAt]]]

    @property
    def named(self) -> bool:
        """Whether a candidate of the table has a name."""
        return any(row[NAME] for row in self.rows)


def table(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], n: int = ROWS) -> Table:
    """Returns the table of the n best candidates.

    A row is rank, text, status, kind, utility, score, in_seeds, inchikey, key, name, then [value, text] or None for
    each column. The columns are the properties of objectives and gates: imported values, then every rung that measured
    them, highest rung first.
    """
    ranked = ask.best(connection, row, n)
    ids = [candidate.id for candidate in ranked]
    imported = ask.imported(connection, ids)
    fits = {rung.name: rung.fits for rung in ladder}
    answers = {id_: pooled_by_rung(own, fits) for id_, own in ask.answers(connection, row, ids).items()}
    measured_by_people = {id_: pooled_by_rung(own, {}) for id_, own in imported.items()}
    everything = [answer for own in (*measured_by_people.values(), *answers.values()) for answer in own]
    columns = _columns(row, ladder, everything)
    rows = []
    for rank, c in enumerate(ranked, start=1):
        measured = all_values([*measured_by_people.get(c.id, ()), *answers.get(c.id, ())])
        at = {(a.rung, m.property, m.level.label): [m.quantity.value, value(m, unit=False)] for a, m in measured}
        status_and_kind = _standing(row, c, ladder, imported.get(c.id, ()))[:2]
        fixed = (rank, c.text, *status_and_kind, c.utility, c.score, c.in_seeds)
        labels = (c.inchikey or "", c.key[:12], c.name)
        rows.append([*fixed, *labels, *(at.get((rung, name, level)) for rung, name, _, level in columns)])
    near_limits = _near_limits(connection, row, ladder, [answers.get(c.id, ()) for c in ranked if c.hit])
    known = [(candidate, all_values(imported[candidate.id])) for candidate in ranked if candidate.id in imported]
    return Table(columns, rows, _pictures(ranked[:PICTURES]), *near_limits, known)


def _pictures(ranked: Sequence[Ranked]) -> dict[str, str]:
    drawings = {candidate.key[:12]: depicted(candidate) for candidate in ranked}
    return {key: svg for key, svg in drawings.items() if svg}


def _near_limits(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], hits: Sequence[Sequence[EvidenceAnswer]]
) -> tuple[int, int, int]:
    """Returns the fields near_edge, doubtful and judged of `Table`. hits: pooled answers of each hit."""
    errors = method_errors(connection, row, ladder)
    of_hits = [margins(row, at_highest_rung(answers), errors) for answers in hits]
    near = sum(any(m.margin <= (m.repeatability or -math.inf) for m in of_hit) for of_hit in of_hits)
    doubtful = sum(any(m.is_clear() is False for m in of_hit) for of_hit in of_hits)
    return near, doubtful, sum(any(m.method for m in of_hit) for of_hit in of_hits)


def _columns(
    row: CampaignRow, ladder: Sequence[RungRow], answers: Sequence[EvidenceAnswer]
) -> list[tuple[str, str, str, str]]:
    wanted = list(named_order(row.spec))
    position = {"": len(ladder)} | {rung.name: rung.position for rung in ladder}
    measured = {
        (answer.rung, m.property, m.quantity.unit, m.level.label)
        for answer in answers
        for m in answer.measured
        if m.property in wanted
    }
    return sorted(measured, key=lambda c: (-position[c[0]], wanted.index(c[1]), c[3]))[:COLUMNS]


def named_order(spec: Mapping[str, Any]) -> dict[str, None]:
    """Returns the properties that a spec names as an ordered set: those of the objectives, then those of the gates."""
    names = [o["property"] for o in spec.get("objectives", ())]
    return dict.fromkeys(names + [name for rung in spec.get("ladder", ()) for name in rung.get("gate", {})])
