"""Charts of the guards of a campaign's last version of rewards, by policy version.

Guards are statistics that show whether a policy exploits weaknesses of the rewards. A control is a rung that checks
candidates and is never rewarded. The charts show reward and control, the exploitation index and the diversity of the
proposals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.answers.reward_guards import GuardEstimate, PolicyGuards, RewardGuards
from sciagent.domain.safe_text_and_durations import cut
from sciagent.report.parts.campaign_charts import COLOURS, LINES, figure, svg, with_chart_settings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.learning import versioned_rewards
from sciagent.store.results.evidence import read_watermark

DRAWN = 40  # number of policies in a chart: the latest ones
NAMED = 6  # largest number of policies whose names stand on the axis
Points = Sequence[GuardEstimate | None]
"""An estimate of each policy, in order; None where it is not known."""


def policy_charts(policies: Sequence[PolicyGuards]) -> list[tuple[str, str]]:
    """Returns (chart, caption); charts without a number are left out."""
    shown = policies[-DRAWN:]
    labels = [policy.label for policy in shown]
    controls = [policy.control for policy in shown]
    payoffs: dict[str, Points] = {
        "by the terminal rung": [None if check is None else check.reward for check in controls],
        "by the control": [None if check is None else check.control for check in controls],
    }
    index: Points = [None if policy.promise is None else policy.promise.index for policy in shown]
    diversity: dict[str, Points] = {
        "distance to the nearest": [policy.diversity.distance for policy in shown],
        "share of repeats": [_exact(policy.diversity.repeats, policy.proposals) for policy in shown],
    }
    charts = [
        (payoffs, "payoff of a candidate", "Payoff of the same candidates by the terminal rung and by the control"),
        ({"reward of an episode": [policy.reward for policy in shown]}, "reward", "Mean outcome of an episode"),
        ({"exploitation index": index}, "index", "Exploitation index: promised less kept"),
        (diversity, "from 0 to 1", "Diversity: Tanimoto distance to the nearest molecule, and repeats"),
    ]
    drawn_charts = []
    for lines, label, caption in charts:
        chart = _by_policy(lines, labels, label, caption)
        if chart:
            drawn_charts.append((chart, caption))
    return drawn_charts


def _exact(share: float | None, n: int) -> GuardEstimate | None:
    """Returns a share of n proposals as an estimate without an error, since all of them were counted."""
    return None if share is None else GuardEstimate(value=share, error=None, n=n)


@with_chart_settings
def _by_policy(lines: Mapping[str, Points], labels: Sequence[str], label: str, title: str) -> str:
    """Returns a chart of estimates with standard errors against the policies, in order; empty without an estimate.

    lines: {name of a line: an estimate of each policy}. labels: names of the policies. label: of the vertical axis.
    """
    if all(point is None for point in chain.from_iterable(lines.values())):
        return ""
    chart, axes = figure(4.6, 2.9)
    for name, (colour, marker, dashes) in zip(lines, LINES, strict=False):
        points = lines[name]
        known = [(place, point) for place, point in enumerate(points) if point is not None]
        look = {"color": COLOURS[colour], "marker": marker, "linestyle": dashes, "markersize": 6, "linewidth": 1.6}
        axes.errorbar(
            [place for place, _ in known],
            [point.value for _, point in known],
            yerr=[point.error or 0.0 for _, point in known],
            label=name,
            capsize=3,
            elinewidth=1.0,
            **look,
        )
    axes.axhline(0, color=COLOURS["muted"], linewidth=1.0, zorder=0.5)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    if len(labels) <= NAMED:
        rotation = 20 if len(labels) > 3 else 0  # degrees; more than 3 level names would overlap
        axes.set_xticks(range(len(labels)), [cut(text, 14) for text in labels], rotation=rotation)
    else:
        axes.set_xlabel("policy, in order")
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(label)
    axes.grid(axis="y")
    if len(lines) > 1:
        chart.legend(loc="outside upper left", ncols=2, fontsize=9.5, handlelength=3.2)
    return svg(chart, f"{title}, by policy", salt=f"policy-{title}")


class PolicySection(NamedTuple):
    """The guards with their charts."""

    version: int
    watermark: int
    guards: RewardGuards
    charts: list[tuple[str, str]]
    """(SVG, caption)."""


def policies(connection: Connection, row: CampaignRow) -> PolicySection | None:
    """Returns the guards of the last version of rewards; None without a version."""
    version = versioned_rewards.last_of_campaign(connection, row.id, read_watermark(connection))
    if version is None:
        return None
    published = versioned_rewards.get(connection, version)
    guards = RewardGuards.model_validate(published.guards)
    return PolicySection(published.id, published.watermark, guards, policy_charts(guards.policies))
