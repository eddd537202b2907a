"""The log of the audit: the entries of all laws together, and the candidates that it drew."""

from __future__ import annotations

from sciagent.domain.jobs.states import Standing
from sciagent.store.campaign_state import standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import audits, laws
from tests.support import rows


def test_the_entries_of_all_laws_are_one_log(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        passed = [[3, 0.25, 1.5, 0.1234567890123456]]
        laws.write(connection, campaign_id, {"audit": {"passed": passed, "raised": [], "chosen": []}})
        laws.write(connection, campaign_id, {"audit": None})
        news = {"passed": [[4, 0.1, 2.0, 0.9]], "raised": [[0, 0.5]], "chosen": [[4, 0.1]]}
        laws.write(connection, campaign_id, {"audit": news})
        log = audits.read(connection, campaign_id)
    assert (log.ids, log.pi, log.chosen) == ([3, 4], [0.5, 0.0], {4: 0.1})
    assert log.lot == [0.1234567890123456, 0.9]


def test_the_results_of_candidates_that_were_passed_over(ledger: Ledger) -> None:
    campaign = rows.campaign_at_every_place(ledger)
    with ledger.read() as connection:
        ids = [stands.candidate_id for stands in standings.arrivals(connection, campaign.id, 0, 10)]
        became = audits.became(connection, campaign.id, ids[:3])
        assert audits.hits(connection, campaign.id) == set(ids[:2])
        assert audits.climbed(connection, campaign.id, 2, 10) == ids[:3]
        assert audits.undecided(connection, campaign.id) == 1
        assert audits.keys(connection, ids).keys() == set(ids)
    assert became[ids[2]] == (Standing.SETTLED, False) and became[ids[0]].is_hit
