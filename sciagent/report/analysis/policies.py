"""The guards of a campaign's last version of rewards, for the report."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.answers.guards import RewardGuards
from sciagent.report.analysis.guards import policy_charts
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.learning import rewards
from sciagent.store.results.evidence import read_watermark


class PolicySection(NamedTuple):
    """The guards with their charts."""

    version: int
    watermark: int
    guards: RewardGuards
    charts: list[tuple[str, str]]
    """(SVG, caption)."""


def policies(connection: Connection, row: CampaignRow) -> PolicySection | None:
    """Returns the guards of the last version of rewards; None without a version, or if it has no guards."""
    version = rewards.last_of_campaign(connection, row.id, read_watermark(connection))
    published = None if version is None else rewards.get(connection, version)
    if published is None or published.guards is None:
        return None
    guards = RewardGuards.model_validate(published.guards)
    return PolicySection(published.id, published.watermark, guards, policy_charts(guards.policies))
