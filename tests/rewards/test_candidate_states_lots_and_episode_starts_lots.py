"""The lots of the audit, as far as they were known at a watermark."""

from __future__ import annotations

from pathlib import Path

from sciagent.rewards.candidate_states_lots_and_episode_starts import Lot, Lots
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import laws_and_audits
from sciagent.store.results.evidence import next_watermark
from tests.support.rewarded import rewarded

OPEN = CandidateState(Settlement.OPEN)


def test_a_lot_of_the_audit_counts_with_the_chance_that_it_had_at_the_watermark(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path, scheduler="priced")
    passed = [[7, 0.1, 5.0, 0.15], [8, 0.1, 5.0, 0.4], [9, 0.1, 5.0, 0.9]]  # id, chance of a hit, cost, lot
    with ledger.begin() as connection:
        first = {"audit": {"passed": passed, "raised": [[0, 0.2], [1, 0.2]], "chosen": []}}
        laws_and_audits.write(connection, made.built.row.id, first, watermark=next_watermark(connection, 1))
        between = next_watermark(connection, 1)
        later = {"audit": {"passed": [], "raised": [[1, 0.5]], "chosen": []}}
        laws_and_audits.write(connection, made.built.row.id, later, watermark=next_watermark(connection, 1))
        end = next_watermark(connection, 1)
    with ledger.read() as connection:
        before, now = (Lots(made.built, connection, as_of) for as_of in (between, end))
        nothing = Lots(made.built, connection, 0)
    assert [before.of(id_, OPEN) for id_ in (7, 8, 9)] == [Lot(0.2, True), Lot(0.2, False), None]
    assert [now.of(id_, OPEN) for id_ in (7, 8, 9)] == [Lot(0.2, True), Lot(0.5, True), None]
    assert not nothing.any and nothing.of(7, OPEN) is None
