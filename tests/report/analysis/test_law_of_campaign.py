"""The report of a campaign that used a law: predictions beside what was measured after them, and what drives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sciagent.campaign.law import law_commands
from sciagent.report.analysis.law_of_campaign import LawSection, law_sections, uses_law
from sciagent.report.page.html_page import page
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from tests.campaign.law.conftest import PARTS, driven, measured
from tests.support.pages import Parsed


@pytest.fixture(scope="module", name="ledger")
def make_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger with a campaign that uses a law of acids and alcohols, one that fits its own, and one without a law."""
    folder = tmp_path_factory.mktemp("sections")
    ledger = Ledger(str(folder / "l.db"))
    measured(ledger, folder, "acids", (*PARTS[0], *PARTS[1]))
    law_commands.fit(ledger, "qeds", ["acids"], who="me")
    seeds = ["CCCCCO", *("C" * n + "C#N" for n in range(2, 12))]
    (folder / "seeds.csv").write_text("\n".join(("smiles", *seeds, "")), encoding="utf-8")
    driven(ledger, folder, "lawful", "{kind: law, seeds: seeds.csv, law: qeds, pool: 8}", proposals=12)
    driven(ledger, folder, "alone", "{kind: law, seeds: seeds.csv, pool: 8}", proposals=12)
    yield ledger
    ledger.close()


def sections(ledger: Ledger, name: str) -> list[LawSection]:
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        return law_sections(connection, row, campaigns.rungs(connection, row.id))


def test_what_was_measured_after_the_law_stands_beside_its_predictions(ledger: Ledger) -> None:
    [section] = sections(ledger, "lawful")
    [check] = section.checks
    assert section.title.startswith("The law qeds@") and check.n == 11, "not the alcohol that had an answer before"
    assert "values lie in their 90 % intervals, median error" in check.words and check.chart.startswith("<svg")
    assert "1 candidate with an answer before" in section.notes[1]
    [drivers] = section.drivers
    assert len(drivers.answers) == 6 and " → " in drivers.answers[0].effect
    assert drivers.environments and all("atom-mark" in each.picture for each in drivers.environments)


def test_a_law_that_is_not_kept_is_fitted_once_more_and_named_so(ledger: Ledger) -> None:
    [section] = sections(ledger, "alone")
    assert section.title == "The law, fitted to the present answers" and section.checks == ()
    assert "nor are its chances" in section.notes[0] and section.drivers
    assert sections(ledger, "acids") == [], "it used no law"


def test_the_page_shows_the_section(ledger: Ledger) -> None:
    with ledger.read() as connection:
        text = Parsed(page(connection, campaigns.get(connection, "lawful"), ledger.artifacts)).text
        other = page(connection, campaigns.get(connection, "acids"), ledger.artifacts)
    assert "What the law said" in text and "What drives the law of QED" in text
    assert 'id="law"' not in other


def test_proposers_with_a_law_are_told_from_others() -> None:
    assert uses_law({"kind": "law"}) and uses_law({"kind": "screen", "filter": {"keep": 1}})
    assert uses_law({"kind": "mixture", "proposers": {"a": {"kind": "evolve"}, "b": {"kind": "law"}}})
    assert not uses_law({"kind": "evolve", "filter": None}) and not uses_law(None)
