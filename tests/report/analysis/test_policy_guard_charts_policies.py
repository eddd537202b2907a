"""The policies in the report of a campaign."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sciagent.domain.answers.reward_guards import ControlCheck, GuardEstimate, PolicyGuards
from sciagent.report.analysis.policy_guard_charts import policies, policy_charts
from sciagent.report.page.html_page import page
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from tests.support.guarded import guards_of
from tests.support.rewarded import rewarded


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_report_shows_the_guards_of_the_last_version(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path)
    made.episode(1, [["CCO"], ["CCO"]], policy="<first>@1")
    made.check("CCO")
    with ledger.read() as connection:
        assert policies(connection, campaigns.get(connection, "small")) is None
    for price in (1e-6, 1e-5):
        version = publish(ledger, "small", RewardSpec(prices={"core_seconds": price}, unsettled="settled")).version
    with ledger.read() as connection:
        row = campaigns.get(connection, "small")
        found = policies(connection, row)
        text = page(connection, row, ledger.artifacts)
    assert found is not None and found.version == version
    [section] = re.findall(r'<section id="policies">(.*?)</section>', text, re.DOTALL)
    assert "&lt;first&gt;@1" in section and "<first>" not in section
    assert "50 %" in section, "one of two proposals is a repeat"
    assert "No alarm" in section and f"version {version}" in section


def checked(name: str, reward: float, control: float) -> PolicyGuards:
    def known(value: float) -> GuardEstimate:
        return GuardEstimate(value=value, error=0.1, n=5)

    check = ControlCheck(reward=known(reward), control=known(control), gap=known(reward - control), growth=None, p=None)
    return guards_of(name, episodes=5, control=check)


def test_charts_without_numbers_are_left_out() -> None:
    [(chart, caption)] = policy_charts([checked("honest@1", 0.5, 0.5), checked("gaming@2", 1.0, 0.0)])
    assert caption.startswith("Payoff of the same candidates")
    assert chart.count("honest@1") == 1 and "by the control" in chart
    assert len(policy_charts([checked(f"step@{n}", 0.5, 0.5) for n in range(60)])) == 1
