"""All tools of an episode."""

from __future__ import annotations

from sciagent.agent.tools.looking import LOOKING
from sciagent.agent.tools.molecules import MAKING
from sciagent.agent.tools.registry import Registry


def registry() -> Registry:
    return Registry((*MAKING, *LOOKING))
