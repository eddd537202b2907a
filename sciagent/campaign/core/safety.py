"""The safety screen of a campaign: a note on its state, and events by which a person can audit blocked candidates."""

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
    """Logs an event for a blocked candidate: key, rule, reason and proposed text."""
    rule = detail.partition(":")[0]
    payload = {"key": key, "rule": rule, "reason": str(reason), "detail": detail[:MAX_TEXT], "text": text[:MAX_TEXT]}
    campaigns.log_event(connection, campaign_id, BLOCKED, payload | more)


def note(spec: CampaignSpec) -> str:
    """Returns one line on a screen that is off or has exempt rules; otherwise an empty text."""
    safety = spec.safety
    if not safety.screen:
        return f"the safety screen is off: {safety.reason}"
    screen = next((rung for rung in spec.ladder if rung.verifier == SCREEN), None)
    allowed = list(screen.settings.get("allow", ())) if screen else []
    return f"exempt from the safety screen: {', '.join(allowed)}: {safety.reason}" if allowed else ""


__all__ = ["BLOCKED", "OFF", "log_blocked", "note"]
