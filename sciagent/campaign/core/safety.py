"""What a campaign says of its safety screen, and the events that let a person audit what it blocked."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.safety import SCREEN
from sciagent.store.campaign_state import campaigns

BLOCKED, OFF = "safety_blocked", "safety_off"
MAX_TEXT = 500


def log_blocked(
    connection: Connection, campaign_id: int | None, *, key: str, text: str, reason: str, detail: str, **more: Any
) -> None:
    """One event for each block: candidate key, rule, reason, and the text as it was handed in."""
    rule = detail.partition(":")[0]
    payload = {"key": key, "rule": rule, "reason": str(reason), "detail": detail[:MAX_TEXT], "text": text[:MAX_TEXT]}
    campaigns.log_event(connection, campaign_id, BLOCKED, payload | more)


def note(spec: CampaignSpec) -> str:
    """What is unusual about the screen of a campaign, in a line; empty where nothing is."""
    safety = spec.safety
    if not safety.screen:
        return f"the safety screen is off: {safety.reason}"
    screen = next((rung for rung in spec.ladder if rung.verifier == SCREEN), None)
    allowed = list(screen.settings.get("allow", ())) if screen else []
    return f"exempt from the safety screen: {', '.join(allowed)}: {safety.reason}" if allowed else ""


__all__ = ["BLOCKED", "OFF", "log_blocked", "note"]
