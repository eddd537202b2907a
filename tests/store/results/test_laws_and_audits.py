"""A law is written once, and comes back as it was; the audit's entries of all laws are one log."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import laws_and_audits
from tests.support import rows


def test_a_law_comes_back_and_equal_states_have_one_version(ledger: Ledger) -> None:
    state = {
        "weights": {"σ": 0.1, "b": 1e-300},
        "priced": None,
        "audit": {"passed": [[3, 0.25, 1.5, 0.1234567890123456]], "raised": [[0, 0.5]], "chosen": []},
    }
    with ledger.begin() as connection:
        rows.campaign(connection)
        first = laws_and_audits.write(connection, 1, state)
        again = laws_and_audits.write(connection, 1, {name: state[name] for name in reversed(state)})
        other = laws_and_audits.write(connection, 1, state | {"priced": 1})
    assert first.version == again.version != other.version
    assert len({first.id, again.id, other.id}) == 3, "a law is its row"
    with ledger.read() as connection:
        last = laws_and_audits.last(connection, 1)
        assert last is not None and last == other and last.state == state | {"priced": 1}
        kept = connection.execute(sa.select(t.law.c.state).order_by(t.law.c.id)).scalars().all()
        assert kept == [state, state, state | {"priced": 1}]


def test_laws_for_rewards_stand_apart_from_those_of_the_scheduler(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        decides = laws_and_audits.write(connection, campaign_id, {"priced": 1})
        values = laws_and_audits.write(connection, campaign_id, {"priced": 2}, purpose="reward", watermark=0)
    with ledger.read() as connection:
        assert laws_and_audits.last(connection, campaign_id) == decides
        assert (
            laws_and_audits.last(connection, campaign_id, "reward")
            == values
            == laws_and_audits.by_id(connection, campaign_id, values.id, "reward")
        )
        assert laws_and_audits.by_id(connection, campaign_id, 99, "reward") is None
        assert laws_and_audits.by_id(connection, campaign_id, values.id, "scheduler") is None
        assert laws_and_audits.by_id(connection, campaign_id + 1, values.id, "reward") is None


def test_the_entries_of_all_laws_are_one_log(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        passed = [[3, 0.25, 1.5, 0.1234567890123456]]
        laws_and_audits.write(connection, campaign_id, {"audit": {"passed": passed, "raised": [], "chosen": []}})
        laws_and_audits.write(connection, campaign_id, {"audit": None})
        news = {"passed": [[4, 0.1, 2.0, 0.9]], "raised": [[0, 0.5]], "chosen": [[4, 0.1]]}
        laws_and_audits.write(connection, campaign_id, {"audit": news})
        log = laws_and_audits.audit_log(connection, campaign_id)
    assert (log.ids, log.pi, log.chosen) == ([3, 4], [0.5, 0.0], {4: 0.1})
    assert log.lot == [0.1234567890123456, 0.9]


def test_hits_and_candidates_that_reached_a_rung(ledger: Ledger) -> None:
    campaign = rows.campaign_at_every_place(ledger)
    with ledger.read() as connection:
        ids = [stands.candidate_id for stands in candidate_standings.arrivals(connection, campaign.id, 0, 10)]
        assert laws_and_audits.hit_ids(connection, campaign.id) == set(ids[:2])
        assert laws_and_audits.ids_with_answers_at(connection, campaign.id, 2, 10) == ids[:3]
        assert laws_and_audits.candidate_keys(connection, ids).keys() == set(ids)
