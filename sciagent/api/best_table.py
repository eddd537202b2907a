"""The table of the best candidates in terminals, notebooks and pipes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from rich.table import Table
from sqlalchemy.engine import Connection

from sciagent.api import html
from sciagent.api.tables import Cells, ResultTable, plain_records
from sciagent.api.terminal import records_table
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.values import BestCandidate, ImportedValue, LimitMargin, ShownValue
from sciagent.domain.candidates import name_cells
from sciagent.domain.objectives import UTILITY_FLOOR
from sciagent.domain.outcomes import Reason
from sciagent.errors import SciagentError
from sciagent.report.answers import best
from sciagent.report.parts.wording import missed_property
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, laws
from sciagent.store.views import campaign_counts

if TYPE_CHECKING:
    from sciagent.campaign.pricing.priced_campaign import PricedCampaign

MOST_FOR_CHANCES = 3000  # number of candidates above which rebuilding the law takes too long for a list
NAMED = 3
"""Largest number of candidates that a line names."""
KIND_WORDS = {
    "molecule": "of each {words.one}, from its own conformers or repeated runs",
    "class": "usual for such {words.many}, not computed for each",
    "fit": "together with the leave-one-out error of the fit",
    None: "of the protocol",
}
"""The words for a repeatability in `certainty_lines`, by the kind of the uncertainty; None: the kind is not stated.
{words} are those of the subject."""


class BestTable(ResultTable[BestCandidate]):
    """The best candidates with a display in terminals and notebooks.

    What is the same in all rows has no column: the level stands in the title, and a chance of a hit is shown if a
    candidate is not decided yet. An imported value of an objective's property has a column if no candidate has two.
    """

    properties: Sequence[str]
    """Properties of the objectives, one column each."""

    plain: Cells[BestCandidate]
    """Returns the cells of a row for a file or a pipe, with level and chance of a hit."""

    @classmethod
    def of(cls, candidates: Sequence[BestCandidate], properties: Sequence[str], title: str) -> Self:
        levels = {levels for candidate in candidates if (levels := _levels(candidate, properties))}
        cells = partial(_cells, properties=properties, measured=_measured_columns(candidates, properties))
        undecided = any(candidate.p_hit not in (None, 0.0, 1.0) for candidate in candidates)
        brief = partial(cells, with_level=len(levels) > 1, with_chance=undecided, before_geometry=" ")
        titled = f"{title} at {levels.pop()}" if len(levels) == 1 else title
        table = cls(candidates, titled, brief, best_record)
        table.properties = properties
        table.plain = partial(cells, with_level=True, with_chance=True)
        return table

    def plain_table(self) -> Table:
        """Returns the rows as a table for a file or a pipe: each uncertainty in a column of its own."""
        return records_table(plain_records([self.plain(row) for row in self]), "")

    def notes(self) -> Iterator[str]:
        """Yields lines on candidates that miss all ranges, on those that relaxed to the structure of another one, on
        uncertainties, on estimated geometries, on imported values, and on verdicts that a measurement contradicts."""
        yield from self.unranked()
        yield from (f"{c.label} {c.detail}" for c in self if c.reason == Reason.SAME_STRUCTURE)
        yield from certainty_lines(self, self.properties)
        yield from caveat_lines(self)
        measured = _measured_columns(self, self.properties)
        shown = list[ImportedValue]()
        for candidate in self:
            shown.extend(value for value in candidate.imported if value.property in measured)
        yield from dict.fromkeys(f"measured {value.property}: {value.level}, from {value.file}" for value in shown)
        others = []
        for candidate in self:
            for value in candidate.imported:
                if value.property not in measured:
                    others.append((candidate.label, value))
        yield from (f"{label}: {value.line()} from {value.file}" for label, value in others)
        for candidate in self:
            if candidate.contradicted is not None:
                verdict = "" if candidate.hit else f" ({candidate.detail})"
                yield f"contradicted by a measurement: {candidate.label}{verdict}: {candidate.contradicted}"

    def unranked(self) -> Iterator[str]:
        """Yields a line if several candidates have the lowest utility, so that the order among them is by distance."""
        lowest = sum(c.utility is not None and c.utility <= UTILITY_FLOOR * (1 + 1e-9) for c in self)
        if lowest > 1:
            yield (
                f"{lowest} candidates have the lowest utility, {UTILITY_FLOOR:g}: their values lie too far outside "
                "what the objectives ask for; those that lie least far outside come first; state limits that the "
                "values can reach, in a campaign of another name"
            )


def best_of(ledger: Ledger, connection: Connection, row: CampaignRow, n: int) -> BestTable:
    """Returns the n best candidates: hits first, by utility, then by the highest rung reached and the score."""
    rows = with_chances(ledger, connection, row, best(connection, row, n))
    return BestTable.of(rows, objectives_of(row.spec), f"The best of {row.name}")


def _cells(
    candidate: BestCandidate,
    properties: Sequence[str],
    measured: Sequence[str],
    with_level: bool,
    with_chance: bool,
    before_geometry: str = "",
) -> Mapping[str, Any]:
    """Returns the cells of a row. before_geometry: put before each `//` of a level; a narrow terminal breaks a level at
    a space."""
    imported = {value.property: value for value in candidate.imported}
    cells: dict[str, Any] = {"name": candidate.name, candidate.column: html.cell(candidate)}
    for name in properties:
        cells[name] = candidate.values.get(name)
        if name in measured:
            cells[f"measured {name}" if len(properties) > 1 else "measured"] = imported.get(name)
    return {
        **cells,
        "level": _levels(candidate, properties).replace("//", f"{before_geometry}//") if with_level else None,
        "utility": candidate.utility,
        "P(hit)": candidate.p_hit if with_chance else None,
        **nearest_limit(candidate),
        "stands": _stands(candidate, len(properties) > 1),
        "seed": "a seed" if candidate.in_seeds else "",
    }


def objectives_of(spec: Mapping[str, Any]) -> list[str]:
    """Returns the properties of the objectives of a campaign."""
    return [objective["property"] for objective in spec["objectives"]]


def _measured_columns(candidates: Sequence[BestCandidate], properties: Sequence[str]) -> list[str]:
    """Returns the properties whose imported values have a column: one value at most for each candidate."""
    imported = [Counter(value.property for value in candidate.imported) for candidate in candidates]
    return [name for name in properties if max((counted[name] for counted in imported), default=0) == 1]


def _levels(candidate: BestCandidate, properties: Sequence[str]) -> str:
    return levels_text({name: candidate.values.get(name) for name in properties})


def levels_text(values: Mapping[str, ShownValue | None]) -> str:
    """Returns the level of the values by property, each level with its properties if there are several; an empty text
    without a value."""
    properties: dict[str, list[str]] = {}
    for name, value in values.items():
        if value is not None:
            properties.setdefault(value.level, []).append(name)
    if len(properties) == 1:
        return next(iter(properties))
    return ", ".join(f"{level} ({', '.join(names)})" for level, names in properties.items())


def _stands(candidate: BestCandidate, several: bool) -> str:
    """Returns a few words. several: whether to name the property that misses its limits."""
    against = ", contradicted" if candidate.contradicted else ""
    if candidate.hit:
        return f"hit{against}"
    reason = (candidate.reason or "").replace("_", " ")
    if several and (missed := missed_property(candidate.reason, candidate.detail)):
        return f"{missed} {reason}{against}"
    return f"{reason}{against}" or ("" if candidate.verified else "not verified")


def nearest_limit(candidate: BestCandidate) -> Mapping[str, str]:
    """Returns the cell `clear by`: the distance from the limit that is nearest, relative to the method's error, in the
    unit of the value. There is no such cell where the error of the method is not known for any objective."""

    def relative(margin: LimitMargin) -> float:
        size = margin.method.mean_absolute_error if margin.method else 0.0
        return margin.margin / size if size else math.copysign(math.inf, margin.margin)

    known = [margin for margin in candidate.margins if margin.method]
    if not known:
        return {}
    nearest = min(known, key=relative)
    name = f"{nearest.property}: " if len(candidate.margins) > 1 else ""
    return {"clear by": f"{name}{nearest.cell()}"}


def certainty_lines(candidates: Sequence[BestCandidate], properties: Sequence[str]) -> Iterator[str]:
    """Yields a line on what the ± of objectives' values means and on the error of the method against experiment; one
    for all properties of which the same is said."""
    same: dict[str, list[str]] = {}
    for name in properties:
        for rung in dict.fromkeys(c.values[name].rung for c in candidates if name in c.values):
            if said := [*_repeatability(candidates, name, rung), *_method(candidates, name, rung)]:
                same.setdefault(f"at {rung}: {'; '.join(said)}", []).append(name)
    yield from (f"{', '.join(names)} {line}" for line, names in same.items())


def caveat_lines(candidates: Sequence[BestCandidate]) -> Iterator[str]:
    """Yields a line on all candidates whose proposed geometry is an estimate of the same kind."""
    labels: dict[str, list[str]] = {}
    for candidate in candidates:
        if caveat := subject_of(candidate.kind).caveat(candidate.drawn_from or candidate.text):
            labels.setdefault(caveat, []).append(candidate.label)
    for caveat, those in labels.items():
        more = f" and {len(those) - NAMED} more" if len(those) > NAMED else ""
        yield f"{', '.join(those[:NAMED])}{more}: {caveat}"


def _repeatability(candidates: Sequence[BestCandidate], name: str, rung: str) -> Iterator[str]:
    values = [candidate.values[name] for candidate in candidates if name in candidate.values]
    if kinds := {value.uncertainty_kind for value in values if value.rung == rung and value.uncertainty}:
        said = KIND_WORDS.get(one_of(kinds), KIND_WORDS[None])
        yield f"± is the repeatability {said.format(words=subject_of(candidates[0].kind).words)}"


def _method(candidates: Sequence[BestCandidate], name: str, rung: str) -> Iterator[str]:
    margins = []
    for candidate in candidates:
        for margin in candidate.margins:
            if (margin.property, margin.rung) == (name, rung):
                margins.append(margin)
    if margins and any(margin.repeatability != 0 for margin in margins):  # a descriptor of the structure is exact
        yield next((str(m.method) for m in margins if m.method), "error against experiment not known")


def one_of(kinds: set[str | None]) -> str | None:
    """Returns the only kind; None for several or none."""
    return next(iter(kinds)) if len(kinds) == 1 else None


def best_record(candidate: BestCandidate) -> Mapping[str, Any]:
    """Returns the cells of a best candidate for a data frame."""
    fixed = ("hit", "contradicted", "utility", "p_hit", "verified", "in_seeds", "reason", "key")
    cells = {candidate.column: candidate.text} | {name: getattr(candidate, name) for name in fixed}
    cells = name_cells(candidate.names, tuple(candidate.names)) | cells
    for name, value in candidate.values.items():
        cells |= {name: value.value} | {
            f"{name} {part}": getattr(value, part) for part in ("uncertainty", "unit", "level")
        }
    return cells


def with_chances(
    ledger: Ledger, connection: Connection, row: CampaignRow, best: Sequence[BestCandidate]
) -> list[BestCandidate]:
    """Returns `best` with `p_hit` added to candidates that wait for the terminal rung, if the campaign has a law and
    counts hits."""
    waiting = [candidate.key for candidate in best if candidate.p_hit is None and not candidate.verified]
    if (
        not waiting
        or laws.last(connection, row.id) is None
        or campaign_counts.n_candidates(connection, row.id) > MOST_FOR_CHANCES
    ):
        return list(best)
    from sciagent.campaign.core.opening import open_for_people  # these take a second to import
    from sciagent.campaign.pricing.priced_campaign import remake

    try:
        campaign = remake(open_for_people(ledger, row.name), connection)
    except (SciagentError, OSError):
        return list(best)  # files or verifiers are missing; `sciagent explain` names them
    if campaign is None or campaign.schema.aims.kind != "hits":
        return list(best)
    p_hit = _chances(campaign, candidates.ids_of(connection, waiting))
    return [c.model_copy(update={"p_hit": p_hit[c.key]}) if c.key in p_hit else c for c in best]


def _chances(campaign: PricedCampaign, ids: Mapping[str, int]) -> dict[str, float]:
    """Returns the chance of a hit, by candidate key, if the terminal rung is still open. ids: ledger ids by key."""
    import numpy as np

    pool = campaign.pool
    row_of = {int(id_): place for place, id_ in enumerate(pool.ids.tolist())}
    asked = {key: row_of[id_] for key, id_ in ids.items() if id_ in row_of and not pool.closed[row_of[id_], -1]}
    if asked:
        campaign.scheduler.evaluate(pool, np.array(sorted(asked.values()), dtype=np.intp))
    return {key: float(campaign.scheduler.expected[place]) for key, place in asked.items()}
