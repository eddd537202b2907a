"""Predictors that a process keeps under the hashes of their entries."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sciagent.campaign.law import kept_predictors, law_commands
from sciagent.campaign.law.kept_predictors import KeptPredictors
from sciagent.campaign.law.predictions import LawPredictor
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import law_entries


@pytest.fixture(name="ledger", scope="module")
def make_ledger(two: tuple[Ledger, Ledger]) -> Iterator[Ledger]:
    """The ledger of the package, which has two laws meanwhile."""
    ledger, _ = two
    law_commands.fit(ledger, "one", ["alcohols"], who="me")
    law_commands.fit(ledger, "other", ["acids"], who="me")
    yield ledger
    for name in ("one", "other"):
        law_commands.delete(ledger, name)


def test_a_predictor_is_made_once_for_each_hash_and_the_oldest_is_forgotten(ledger: Ledger) -> None:
    kept = KeptPredictors(most_pairs=300)
    with ledger.read() as connection:
        one, other = (law_entries.find(connection, name) for name in ("one", "other"))
        first = kept.of(connection, one)
        assert first is kept.of(connection, one) and first is not None and first.entry.hash == one.hash
        assert kept.of(connection, other) is not None and len(kept) == 1, "two laws of 16 candidates are 512 pairs"
        assert kept.of(connection, one) is not first


def test_who_has_no_patience_gets_the_predictor_when_it_is_made(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    class Slow(LawPredictor):
        def __init__(self, *arguments: object) -> None:
            goes_on.wait(20)
            super().__init__(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kept_predictors, "LawPredictor", Slow)
    kept = KeptPredictors()
    with ledger.read() as connection:
        row = law_entries.find(connection, "one")
        assert kept.of(connection, row, patience=0) is None and kept.of(connection, row, patience=0) is None
        goes_on.set()
        assert kept.of(connection, row, patience=20) is not None and len(kept) == 1


def test_a_predictor_that_cannot_be_made_is_tried_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> LawPredictor:
        raise MemoryError("too large")

    kept = KeptPredictors()
    with ledger.read() as connection:
        row = law_entries.find(connection, "one")
        with monkeypatch.context() as patched:
            patched.setattr(kept_predictors, "LawPredictor", fail)
            with pytest.raises(MemoryError, match="too large"):
                kept.of(connection, row)
        assert len(kept) == 0 and kept.of(connection, row) is not None
