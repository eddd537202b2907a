"""The guards of a policy without any number but those that a test states."""

from __future__ import annotations

from typing import Any

from sciagent.domain.answers.reward_guards import PolicyDiversity, PolicyGuards

NO_DIVERSITY = PolicyDiversity(scaffolds=None, distance=None, repeats=None, refused=None)


def guards_of(policy: str, **more: Any) -> PolicyGuards:
    nothing = dict.fromkeys(("hash", "reward", "control", "promise"))
    counts = {"episodes": 0, "undecided": 0, "proposals": 0}
    return PolicyGuards(policy=policy, **(nothing | counts | {"diversity": NO_DIVERSITY, "alarms": ()} | more))
