"""The best candidates of a campaign."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.values import CandidateName, ImportedValue, RungValue


class BestCandidate(CandidateName):
    """A candidate with its values. `sciagent best` lists hits first, then by depth reached and score."""

    inchikey: str | None
    """InChIKey; null for what has none."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until the terminal rung has answered."""
    p_hit: float | None
    """Chance of a hit: 1 or 0 once that is settled; before that by the law of `priced`, null without a law."""
    verified: bool
    """Whether the terminal rung has answered."""
    hit: bool
    """Whether it is a hit."""
    in_seeds: bool
    """Whether it stood in a file of seeds."""
    score: float | None
    """What orders open candidates, in (0, 1], from gates and objectives; not a probability."""
    reason: str | None
    """Why it was dropped or is no hit."""
    detail: str | None
    """The same with numbers."""
    values: Mapping[str, RungValue]
    """Each property at the highest rung that measured it, by name."""
    imported: tuple[ImportedValue, ...]
    """Values from files."""
