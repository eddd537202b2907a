"""Who found what at what cost: figures, words and the place in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.report.analysis import proposers_and_prediction_scores
from sciagent.report.page.html_page import page
from sciagent.report.status_best_trace import status
from sciagent.store.database.ledger import Ledger
from tests.report.page.test_html_page import hostile_elements
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker
from tests.support.talked import Talker, talked


def test_proposers_stand_side_by_side(several: Talker) -> None:
    with several.ledger.read() as connection:
        found = {
            results.proposer: results for results in proposers_and_prediction_scores.results(connection, several.row)
        }
        stands = status(connection, several.row)
    alpha, beta, evolve, people = (
        found[who] for who in ("alpha", "beta", "evolve", proposers_and_prediction_scores.PEOPLE)
    )
    assert (alpha.proposals, alpha.readable, alpha.new, alpha.verified, alpha.hits) == (12, 12, 12, 12, 5)
    assert (evolve.proposals, evolve.readable, evolve.new, evolve.duplicates, evolve.refused) == (3, 2, 1, 1, 1)
    assert (people.proposals, people.episodes, people.costs, people.hits_per_core_hour) == (1, 0, {}, None)
    assert alpha.costs == {"core_seconds": pytest.approx(12 * 62.0 + 12 * 0.5), "llm_tokens": 1800.0}
    assert alpha.hits_per_core_hour == pytest.approx(3600 * 5 / 750.0)
    assert beta.verified == 10 and list(found) == ["alpha", "beta", "evolve", proposers_and_prediction_scores.PEOPLE]
    assert stands.proposers == tuple(found.values()) and beta.hits == 4
    booked = sum(results.costs.get("core_seconds", 0.0) for results in stands.proposers)
    assert booked == pytest.approx(stands.spent["core_seconds"])


def test_the_report_has_the_table_and_the_lines(parsed_talks: Parsed) -> None:
    text = parsed_talks.text
    for needed in (
        "Who found what",
        "Proposers side by side",
        "alpha 5 24 0.975 12.5 1 800 LLM tokens 12",
        "Hits against core-minutes booked for the proposer, by proposer",
        "people 0 – – – – 0 1 1",
    ):
        assert needed in text, needed


def test_one_proposer_is_told_in_a_sentence(parsed: Parsed) -> None:
    text = parsed.text
    assert "All candidates come from evolve : 14 proposals: 12 new, 1 duplicate, 1 refused;" in text
    assert "10 answered by a paid rung, 2 hits," in text
    assert "Proposers side by side" not in text


def test_a_campaign_without_proposals_has_no_such_part(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path, script=False)
    with made.ledger.read() as connection:
        assert proposers_and_prediction_scores.results(connection, made.row) == ()
    assert "Who found what" not in Parsed(rendered(made)).text


def test_without_limits_the_best_utility_is_compared(own_ledger: Ledger, tmp_path: Path) -> None:
    ramp = {
        "property": "homo_lumo_gap",
        "direction": "maximise",
        "unit": "eV",
        "accept": None,
        "ramp": [2, 6],
        "weight": 1,
    }
    made = talked(own_ledger, tmp_path, episodes=2, objectives=[ramp], goal={"kind": "best", "count": 3})
    text = Parsed(rendered(made)).text
    assert "Best utility so far by each proposer" in text and "hits per core-hour" not in text


HOSTILE = "_</text><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_the_name_of_a_proposer_cannot_act(own_ledger: Ledger, tmp_path: Path) -> None:
    """A model's name is of a file or a server's; in a chart it is text, too."""
    made = talked(own_ledger, tmp_path, episodes=2)
    for number, who in ((3, HOSTILE), (4, "$x_{1}$")):
        made.say(made.begin(who, number), 0, "CC(C)O")
        made.settle(made.foretell(("CC(C)OC", "CC(C)OCC")[number - 3], 4.4, 0.1), 4.4)
    with made.ledger.read() as connection:
        html = page(connection, made.row, made.ledger.artifacts)
    found = Parsed(html)
    assert hostile_elements(found) == [] and "$x_{1}$" in found.text
    assert found.text.count("alert(1)") >= 4
