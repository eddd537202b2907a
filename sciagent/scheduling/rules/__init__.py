"""The rules by name. A rule is stateless: what it needs to know, it is given."""

from __future__ import annotations

from sciagent.domain.ports import Scheduler
from sciagent.errors import UnknownNameError
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.thresholds import Thresholds

RULES: dict[str, type[Scheduler]] = {"exhaustive": Exhaustive, "thresholds": Thresholds}


def make_rule(kind: str) -> Scheduler:
    if kind not in RULES:
        raise UnknownNameError("scheduler", kind, RULES)
    return RULES[kind]()
