"""Explains the mistakes in a campaign file. The keys below `settings` are known only to the verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.rungs import RungSpec, find_verifier
from sciagent.errors import did_you_mean
from sciagent.yaml.mistakes import explain_with, keys_at, member, show
from sciagent.yaml.positions import Document, Fault, Loc


def explain(error: Mapping[str, Any], document: Document) -> Fault:
    """One error of pydantic as a message with its place in the campaign file."""
    return explain_with(error, document, _unknown_key)


def _unknown_key(loc: Loc, data: Any) -> tuple[str, str]:
    name, known = str(loc[-1]), keys_at(loc[:-1], data, CampaignSpec, _below)
    if "settings" in loc[:-1] and len(loc) > 3 and loc[0] == "ladder":
        verifier = data["ladder"][loc[1]].get("verifier")
        takes = f'verifier "{verifier}" takes' if len(loc) == 4 else f"{show(loc[2:-1])} takes"
        message = f"unknown setting{did_you_mean(name, known)}"
        return message, f"{takes}: {', '.join(known) or 'no settings'}" if known or len(loc) == 4 else ""
    return f"unknown key{did_you_mean(name, known)}", f"allowed: {', '.join(known)}" if known else ""


def _below(shape: Any, part: int | str, here: Any) -> Any:
    if shape is RungSpec and part == "settings":
        verifier = find_verifier(here.get("verifier"))
        return verifier.Settings if verifier else None
    return member(shape, part, here)
