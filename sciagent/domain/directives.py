"""What a person tells a campaign: each word is a row that is never changed; to undo one is another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Verb(StrEnum):
    ADD = "add"
    HOLD = "hold"
    RELEASE = "release"
    VETO = "veto"
    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    AMEND = "amend"


NOWHERE = -1


@dataclass(frozen=True)
class Word:
    """What people want of one candidate now. promoted_to: position of the rung whose lower gates are waived."""

    held: bool = False
    vetoed: bool = False
    promoted_to: int = NOWHERE
    who: str = ""
    why: str = ""

    @property
    def rests(self) -> bool:
        """Whether nothing may be started for it."""
        return self.held or self.vetoed


def word_of(spoken: Iterable[tuple[str, int | None, str, str]]) -> Word:
    """Fold what was said of a candidate, oldest first: (verb, rung position, who, why). A veto ends a promotion."""
    word = Word()
    for verb, position, who, why in spoken:
        if verb == Verb.HOLD:
            word = replace(word, held=True, who=who, why=why)
        elif verb == Verb.VETO:
            word = Word(vetoed=True, who=who, why=why)
        elif verb == Verb.RELEASE:
            word = replace(word, held=False, vetoed=False, who=who, why=why)
        elif verb == Verb.PROMOTE and position is not None:
            word = replace(word, promoted_to=max(word.promoted_to, position), who=who, why=why)
    return word
