"""Rows are selected by their candidates, wherever they stand."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.law.similarity import order_of, smallest_hashes, with_row_hashes

KEYS = [f"{n:064x}" for n in range(1000)]


def test_the_same_candidates_are_selected_for_every_order_of_arrival() -> None:
    order = order_of(KEYS)
    chosen = {KEYS[row] for row in smallest_hashes(order, 100)}
    for seed in range(5):
        mixed = np.random.default_rng(seed).permutation(len(KEYS))
        assert {KEYS[mixed[row]] for row in smallest_hashes(order[mixed], 100)} == chosen


def test_a_selected_candidate_stays_selected_until_an_earlier_one_comes() -> None:
    order = order_of(KEYS)
    few, many = smallest_hashes(order[:500], 100), smallest_hashes(order, 100)
    assert set(many[many < 500]) <= set(few)


def test_few_rows_are_all_selected() -> None:
    assert smallest_hashes(order_of(KEYS[:7]), 7).tolist() == list(range(7))
    assert len(smallest_hashes(order_of([]), 3)) == 0


def test_rows_without_a_key_are_spread_evenly() -> None:
    order = with_row_hashes(None, 10_000)
    assert len(np.unique(order)) == 10_000
    share = np.histogram(order.astype(float), bins=10, range=(0, 2.0**64))[0] / 1000
    assert np.all(np.abs(share - 1) < 5 * np.sqrt(0.9 / 1000)), "within 5 standard errors"
    assert int(with_row_hashes(None, 1)[0]) == 0xE220A8397B1DCDAF, "the first output of splitmix64 with seed 0"


def test_made_up_rows_follow_those_with_a_key() -> None:
    known = order_of(KEYS[:5])
    whole = with_row_hashes(known, 8)
    assert whole[:5].tolist() == known.tolist() and whole[5:].tolist() == with_row_hashes(None, 8)[5:].tolist()
