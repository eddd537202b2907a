"""The live ladder of a sciagent campaign as an environment for verifiers."""

from sciagent_ladder.ladder import LadderEnv, LadderHarness, LadderTaskset

__all__ = ["LadderEnv", "LadderHarness", "LadderTaskset"]
