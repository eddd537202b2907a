"""Every number in the report that stands beside a candidate is a number of that candidate in the ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.report.page.html_page import page
from sciagent.report.status_best_trace import best
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.reported import Maker, dyes, gap
from tests.support.rows import new_evidence
from tests.support.talked import talked

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")
SCORE = re.compile(r"\(CRPS [^)]*\)")  # of a prediction; worked out from two numbers that are checked
NO_NUMBER_OF_IT = {"#", "n"}  # headings of columns: a rank, a count
VOID = {"meta", "link", "input", "br", "col"}


class Beside(HTMLParser):
    """The texts of table rows, cards and listed proposals, each with the candidate that stands in it as code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        """Caption or kind of place, the candidate's text, what stands beside it."""
        self.data = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._caption, self._heads, self._cell = "", [""], 0
        self._code, self._beside = "", ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in VOID:
            return
        if tag == "table":
            self._caption, self._heads = "", []
        if self._begins(tag, attributes):
            self._code, self._beside, self._cell = "", "", -1
        self._cell += tag in ("td", "th")
        self._open.append((tag, attributes))

    def _begins(self, tag: str, attributes: dict[str, str | None]) -> bool:
        classes = (attributes.get("class") or "").split()
        listed = tag == "li" and any(a.get("class") == "made" for _, a in self._open)
        return (tag == "tr" and not self._within("article")) or (tag == "article" and "card" in classes) or listed

    def _within(self, *tags: str) -> bool:
        return any(tag in tags for tag, _ in self._open)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            opened, attributes = self._open.pop()
            if opened == tag:
                break
        if self._begins(tag, attributes) and self._code:
            place = {"tr": self._caption, "article": "card", "li": "episode"}[tag]
            self.found.append((place, self._code, self._beside))

    def handle_data(self, data: str) -> None:
        classes = " ".join(a.get("class") or "" for _, a in self._open).split()
        if self._open and dict(self._open[-1:][0][1]).get("id") == "data":
            self.data += data
        elif self._within("caption"):
            self._caption += data
        elif self._within("thead"):
            if self._open[-1][0] in ("th", "button"):
                self._heads.append(data.strip())
        elif self._within("code"):
            self._code = self._code or data
        elif self._within("article", "tr") or "made" in classes:
            skipped = {"level", "muted", "lineage", "formula"} & set(classes) or self._within("q", "svg", "summary")
            counts = self._within("tr") and self._head() in NO_NUMBER_OF_IT
            if not skipped and not counts and (self._within("td", "dd") or "made" in classes):
                self._beside += f" {SCORE.sub('', data)}"

    def _head(self) -> str:
        return self._heads[self._cell] if self._cell < len(self._heads) else ""


def known(connection: sa.Connection, campaign: int) -> dict[str, set[float]]:
    """All that the ledger has of each candidate, by its text: values, errors, scores, what was said of it."""
    c, cc, e, q, p = t.candidate.c, t.campaign_candidate.c, t.current_evidence.c, t.quantity.c, t.proposal.c
    of_evidence = (
        sa.select(c.text, q.value, q.uncertainty)
        .join(t.current_evidence, e.candidate_id == c.id)
        .join(t.quantity, q.evidence_id == e.id)
    )
    of_campaign = sa.select(c.text, cc.expected_utility, cc.p_hit, cc.chance, cc.detail).join(
        t.campaign_candidate, cc.candidate_id == c.id
    )
    of_proposal = sa.select(p.text, p.detail, p.predicted).where(p.campaign_id == campaign)
    found: dict[str, set[float]] = {}
    for query in (of_evidence, of_campaign.where(cc.campaign_id == campaign), of_proposal):
        for text, *stated in connection.execute(query):
            numbers = found.setdefault(text, set())
            for one in stated:
                numbers |= {float(number) for number in NUMBER.findall("" if one is None else str(one))}
                numbers |= {one} if isinstance(one, float) else set()
    return found


def is_one_of(shown: str, numbers: set[float]) -> bool:
    """As the report rounds: half a unit of the last place, or two or four digits."""
    places = len(shown.partition(".")[2])
    value = float(shown)
    return any(
        abs(value - x) <= 0.5 * 10**-places + 1e-9 or value in (float(f"{x:.2g}"), float(f"{x:.4g}")) for x in numbers
    )


IMPORTED = "Imported or measured values of these candidates"
SORTED = "Candidates; a click on a heading sorts"
UNREAD = "Proposals that brought no new candidate"
ENDED = "Candidates, by the rung they ended at"


def written(make: Callable[[Ledger, Path], Maker], migrated: Path, folder: Path) -> Maker:
    """The campaign, with more of it: the least text, the least detail and the first of a group are three proposals."""
    (folder / "ledger.db").write_bytes(migrated.read_bytes())
    made = make(Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts"), folder)
    with made.ledger.begin() as connection:
        for text, detail in (("C9", "ring 9 is open"), ("C(", "1 bracket is open"), ("B77", "valence 77")):
            made.propose(connection, text, "refused", reason=Reason.UNPARSABLE, detail=detail)
        for i in range(6):
            measured = gap(7.125 + i, Level("experiment", phase="film"), 0.25)
            new = new_evidence(made.ids[i], measured, verifier="import", subject=f"n{i}", source="x.csv")
            evidence.record(connection, [new])
    return made


@pytest.mark.parametrize(
    ("make", "places"),
    [(dyes, {"card", SORTED, IMPORTED, UNREAD, ENDED}), (talked, {"card", SORTED, IMPORTED, UNREAD, "episode"})],
)
def test_every_number_beside_a_candidate_is_its_own(
    make: Callable[[Ledger, Path], Maker], places: set[str], migrated_sqlite: Path, tmp_path: Path
) -> None:
    made = written(make, migrated_sqlite, tmp_path)
    with made.ledger.read() as connection:
        beside = Beside(page(connection, made.row, made.ledger.artifacts))
        numbers = known(connection, made.row.id)
        for candidate in best(connection, made.row, 100):
            numbers[candidate.text].add(
                100 * (candidate.p_limits or 0.0)
            )  # worked out from the values of one candidate
    made.ledger.close()
    shown = [(place, text, number) for place, text, words in beside.found for number in NUMBER.findall(words)]
    assert [one for one in shown if not is_one_of(one[2], numbers.get(one[1], set()))] == []
    assert {place for place, _, _ in shown} == places
    for row in json.loads(beside.data)["rows"]:  # what the script sorts and pages through
        own = [x for x in (row[4], *(cell[0] for cell in (row[5], *row[9:]) if cell)) if x is not None]
        assert set(own) <= numbers[row[1]], row
