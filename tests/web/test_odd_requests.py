"""Odd requests to every route get an answer that says what is wrong; `.ci/run` sends them for a minute."""

from __future__ import annotations

from pathlib import Path

from benchmarks.doors.fuzz import asked_for, made_ledger


def test_no_odd_request_makes_the_program_fail(tmp_path: Path) -> None:
    made_ledger(tmp_path)
    tallies = asked_for(tmp_path, seconds=4, seed=2)
    causes = {tally.path: tally.examples for tally in tallies if tally.causes}
    assert causes == {}
    assert sum(tally.requests for tally in tallies) > len(tallies) >= 30
    statuses = {status for tally in tallies for status in tally.statuses}
    assert {"200", "303", "400", "401", "403", "404", "405"} <= statuses, "the requests reach all kinds of answers"
