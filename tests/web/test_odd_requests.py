"""Odd requests to every route get an answer that says what is wrong; `.ci/run` sends them for a minute."""

from __future__ import annotations

from pathlib import Path

from benchmarks.doors.fuzz import asked_in_turn, made_ledger


def test_no_odd_request_makes_the_program_fail(tmp_path: Path) -> None:
    made_ledger(tmp_path)
    tallies = asked_in_turn(tmp_path, seed=2, n=4)
    causes = {tally.path: tally.examples for tally in tallies if tally.causes}
    assert causes == {}
    assert min(tally.requests for tally in tallies) >= 1
    statuses = {status for tally in tallies for status in tally.statuses}
    assert {"200", "303", "400", "401", "403", "404", "405"} <= statuses, "the requests reach all kinds of answers"
