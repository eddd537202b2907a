"""Schedulers where people do the terminal rung, as `sciagent bench scheduling --latency` compares them."""

from __future__ import annotations

import json

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent_bench.lab.compare_schedulers_with_people import lab_trials
from sciagent_bench.lab.replay_with_people import Laboratory
from tests.support.typed import invoked

WEEKS = 4
PEOPLE = ("--latency", "7", "--per-week", "5", "--weeks", str(WEEKS))
SMALL = ("--family", "informative", "--size", "300", "--top", "0.1", "--seeds", "2", "--workers", "1")


def test_hits_by_week_grow_and_no_more_is_claimed_than_people_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(threads, "1")  # the command sets them
    answer = invoked(["bench", "scheduling", *SMALL, *PEOPLE, "--schedulers", "exhaustive,random", "--json"], {})
    schedulers = json.loads(answer.stdout)["schedulers"]
    assert set(schedulers) == {"exhaustive", "random"}
    for result in schedulers.values():
        hits = [result[key][0] for key in result if key.startswith("hits_by_week_")]
        assert hits == sorted(hits) and len(hits) > 1
        assert result["claims"][0] <= 5 * (WEEKS + 1)


@pytest.mark.parametrize(
    "option",
    [
        ("--draw", "100"),
        ("--add-rung", "noise:0.05"),
        ("--drop-rung", "first"),
        ("--budgets", "0.01,0.02,0.05,0.1"),  # the default, but stated
        ("--cost-to",),
        ("--no-cost-to",),
        ("--stream", "20"),
        ("--only", "qm9"),
    ],
)
def test_an_option_that_has_no_effect_where_people_do_the_last_rung_is_refused(
    option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(threads, "1")  # the command sets them
    answer = invoked(["bench", "scheduling", *SMALL, *PEOPLE, *option], {})
    assert isinstance(answer.exception, UsageError)
    [name] = [word.replace("--no-", "--") for word in option if word.startswith("--")]
    message = str(answer.exception)
    assert name in message and "do not go with --latency" in message


def test_weeks_without_people_are_refused() -> None:
    answer = invoked(["bench", "scheduling", *SMALL, "--weeks", "3"], {})
    assert isinstance(answer.exception, UsageError) and "--weeks goes with --latency" in str(answer.exception)


def test_a_scheduler_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="scheduler"):
        lab_trials(["nonesuch"], 1, Laboratory(7, 5, WEEKS))
