"""Figures are counted when the ledger has changed, never by two at once, and say how old they are."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from sciagent.cockpit.pages_steering_and_cached_figures import MIN_WAIT_SECONDS, SHARE, CampaignFigures, Figures
from sciagent.lab import record_answers
from sciagent.web.site_context_and_ticker import Ticker
from tests.lab import conftest as lab
from tests.lab.conftest import Make
from tests.lab.test_record_answers import entry, task_ids

make = lab.make


def test_a_tick_says_that_something_has_changed(make: Make) -> None:
    built = make()
    ticker = Ticker(built.ledger)
    ticker.look()
    ticker.look()
    assert ticker.tick == 1
    record_answers.enter(built, task_ids(built)[0], entry("4.31 eV"))
    ticker.look()
    ticker.look()
    assert ticker.tick == 2


def test_figures_are_shared_until_the_ledger_changes(make: Make) -> None:
    built = make()
    figures = Figures(built.ledger)
    first = figures.of("gaps", 1)
    again = figures.of("gaps", 1)
    assert again.status is first.status and again.at > first.at, "nothing has changed: they are of now"
    assert first.best == [], "nobody has measured yet"
    record_answers.enter(built, task_ids(built)[0], entry("4.31 eV"))
    time.sleep(first.took / SHARE + 0.05)
    then = figures.of("gaps", 2)
    assert then.status.hits == first.status.hits + 1 and [each.text for each in then.best] == ["Oc1ccccc1"]


def test_the_time_of_the_figures_never_goes_back(make: Make) -> None:
    built = make()
    figures = Figures(built.ledger)
    first = figures.of("gaps", 1)
    confirmed = figures.of("gaps", 1)
    young = figures.of("gaps", 2)  # too young to be counted again
    assert young.tick == 1 and first.at < confirmed.at <= young.at
    assert young.counted_at == first.counted_at
    late = replace(first, at=first.at - timedelta(seconds=1))  # counted while the others were confirmed
    assert figures._not_before(confirmed, late).at == confirmed.at
    assert figures._not_before(late, first) is figures._not_before(None, first) is first


def test_slow_figures_are_counted_by_one_and_not_at_each_tick(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = Figures(make().ledger)
    counted, count = [], figures._count

    def slow(campaign: str, tick: int) -> CampaignFigures:
        counted.append(tick)
        time.sleep(0.3)
        return count(campaign, tick)

    monkeypatch.setattr(figures, "_count", slow)
    threads = [threading.Thread(target=figures.of, args=("gaps", 1)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tick in range(2, 6):
        assert figures.of("gaps", tick).tick in (1, tick)
    assert counted[0] == 1 and len(counted) <= 2


def test_a_page_with_older_figures_asks_again_when_they_may_be_counted(make: Make) -> None:
    figures = Figures(make().ledger)
    first = figures.of("gaps", 1)
    assert figures.wait(first, 1) is None
    waits = figures.wait(first, 2)
    assert waits is not None and 0 < waits <= max(MIN_WAIT_SECONDS, first.seconds_to_next_count)


def test_whoever_waited_for_a_count_that_failed_counts_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, calls = Figures(make().ledger), []
    count = figures._count

    def fails_once(campaign: str, tick: int) -> CampaignFigures:
        calls.append(tick)
        if len(calls) == 1:
            raise OSError("the ledger is away")
        return count(campaign, tick)

    monkeypatch.setattr(figures, "_count", fails_once)
    with pytest.raises(OSError):
        figures.of("gaps", 1)
    assert figures.of("gaps", 1).tick == 1 and calls == [1, 1]
