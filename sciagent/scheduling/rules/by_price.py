"""What a driver is told of `priced`: its choices come from `campaign.pricing`, which sees all candidates at once."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class ByPrice:
    name = "priced"
    by_score = True
    stops_when_terminal_is_spent = True
    leaves_behind = True
    skips = True

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        """Nothing: where no paid rung leads to the terminal one there is nothing to price."""
        return []
