"""Chooses the chat template of a served model."""

from __future__ import annotations

from pathlib import Path

from sciagent.agent import models
from sciagent.errors import UsageError


def template_of(folder: Path) -> Path | None:
    """Returns sciagent's template if a ChatML model's own has no tools; else None. Raises UsageError."""
    own = models.own_template(folder)
    if "tools" in own:
        return None
    if "<|im_start|>" not in own:
        raise UsageError(
            f"the chat template of {folder} takes no tools, and ours is for ChatML; give it another: "
            f"{folder / 'chat_template.jinja'}"
        )
    return models.HERMES_TEMPLATE
