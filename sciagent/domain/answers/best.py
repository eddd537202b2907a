"""The best candidates of a campaign."""

from __future__ import annotations

from collections.abc import Mapping

from sciagent.domain.answers.values import CandidateName, ImportedValue, RungValue


class BestCandidate(CandidateName):
    """A candidate with its values. `sciagent best` lists hits first, then by depth reached and score."""

    inchikey: str | None
    """InChIKey; null for a candidate without one."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until the terminal rung has answered."""
    p_hit: float | None
    """Chance of a hit: 1 or 0 once settled; before that the estimate of the `priced` law, null without a law."""
    verified: bool
    """Whether the terminal rung has answered."""
    hit: bool
    """Whether the candidate is a hit."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    score: float | None
    """Score that orders open candidates, in (0, 1], from gates and objectives; not a probability."""
    reason: str | None
    """Reason why the candidate was dropped or is not a hit."""
    detail: str | None
    """The reason with numbers."""
    values: Mapping[str, RungValue]
    """Value of each property at the highest rung that measured it, by property name."""
    imported: tuple[ImportedValue, ...]
    """Values imported from files."""
