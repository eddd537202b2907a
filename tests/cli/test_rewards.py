"""The commands of rewards, on a campaign whose evidence is written by the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sciagent.store.database.ledger import Ledger
from tests.support.rewarded import DFT, HIT, XTB, Rewarded, rewarded
from tests.support.typed import invoked

Run = Callable[..., Any]


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    made = rewarded(ledger, tmp_path)
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCN"]], group=group, sibling=0)
    made.episode(2, [["CCS"]], group=group, sibling=1)
    made.check("CCO", "CCN", "CCS")
    for position, gap in ((XTB, 8.0), (DFT, HIT)):
        made.order("CCO", position)
        made.answer("CCO", position, {"homo_lumo_gap": gap}, seconds=100.0)
    return made


@pytest.fixture
def run(made: Rewarded) -> Run:
    def invoke(*arguments: str) -> Any:
        url = made.ledger.url.render_as_string(hide_password=False)
        found = invoked(["rewards", *arguments, "--ledger", url])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout) if "--json" in arguments else found.stdout

    return invoke


def test_publish_show_and_diff_say_the_same_as_json_and_as_text(run: Run, made: Rewarded, tmp_path: Path) -> None:
    spec = tmp_path / "rewards.yaml"
    spec.write_text("prices: {core_seconds: 1.0e-4}\nunsettled: settled\n")
    published = run("publish", str(spec), "--campaign", "small", "--json")
    assert list(published) == [
        *("version", "spec_hash", "watermark", "law", "episodes", "rewarded", "undecided", "changed")
    ]
    assert (published["episodes"], published["rewarded"], published["undecided"]) == (2, 0, 2)
    first = published["version"]
    made.order("CCS", XTB)
    made.fail("CCS", XTB)
    text = run("publish", str(spec), "--campaign", "small")
    assert "1 decided, 1 undecided" in text
    shown = run("show", str(first), "--json")
    assert [episode["outcome"] for episode in shown["episodes"]] == [None, None]
    turn = shown["episodes"][0]["turns"][0]
    assert turn["reward"] == pytest.approx(1 - 0.02)
    assert turn["return"] is None
    [candidate] = turn["candidates"]
    assert (candidate["value"], candidate["cost"], candidate["settled"]) == (1.0, 0.02, True)
    assert candidate["resources"] == {"core_seconds": 200.0}
    assert "0.98" in run("show", str(first))
    [change] = run("show", str(first + 1), "--since", str(first), "--json")
    assert (change["episode"], change["turn"], change["was"]) == (2, 0, None)
    assert change["now"] == pytest.approx(-0.001)
    assert "no reward differs" in run("show", str(first), "--since", str(first))


def test_guards_are_shown_as_json_and_as_text(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "rewards.yaml"
    spec.write_text("prices: {core_seconds: 1.0e-4}\nunsettled: settled\n")
    version = str(run("publish", str(spec), "--campaign", "small", "--json")["version"])
    shown = run("show", version, "--guards", "--json")
    [policy] = shown["policies"]
    assert (shown["campaign"], policy["policy"], policy["episodes"], policy["undecided"]) == ("small", "tiny@0", 2, 2)
    assert (policy["proposals"], policy["control"], policy["promise"], policy["alarms"]) == (3, None, None, [])
    text = run("show", version, "--guards")
    assert "no alarm" in text and "tiny@0" in text
