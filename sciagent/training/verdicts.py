"""Reads from the evidence up to a watermark how the candidates of a turn turned out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.judge import Place, place
from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.properties import JUDGED_SCORE
from sciagent.domain.quantities import Quantity
from sciagent.rewards.estimators import CandidateState, Settlement
from sciagent.rewards.states import answers_as_of, states
from sciagent.store.results import candidates


@dataclass(frozen=True)
class CandidateVerdict:
    """A candidate with what is known of it."""

    key: str
    text: str
    """Canonical SMILES of a molecule, name of a crystal."""
    inchikey: str | None
    scaffold: str
    """Murcko scaffold; empty for a molecule without rings, the key for a crystal."""
    state: CandidateState
    place: Place
    """Its place on the ladder, with the reason."""
    measured: Mapping[str, Measured]
    """By property, the value of the highest rung that measured it, in canonical units."""

    @property
    def values(self) -> Mapping[str, Quantity]:
        """The measured values by property, without their levels."""
        return {name: measured.quantity for name, measured in self.measured.items()}

    @property
    def judged(self) -> Measured | None:
        """The score that a judge gave by a rubric; None if no rung judged."""
        return self.measured.get(JUDGED_SCORE.name)

    @property
    def payoff(self) -> float | None:
        """In hits or utility; 0 if it was thrown out, None if nothing is decided."""
        match self.state.settlement:
            case Settlement.ANSWERED:
                return self.state.payoff
            case Settlement.REFUSED:
                return 0.0
        return None


def verdicts(
    built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int
) -> dict[int, CandidateVerdict]:
    """Returns the verdicts by candidate id, as of a watermark."""
    if not candidate_ids:
        return {}
    known = states(built, connection, candidate_ids, as_of)
    answers = answers_as_of(built, connection, candidate_ids, as_of)
    found = {}
    for id_, candidate in candidates.load(connection, candidate_ids).items():
        answered = [answer for answer in answers[id_] if answer.measured]
        found[id_] = CandidateVerdict(
            candidate.key,
            candidate.text,
            candidate.inchikey,
            built.subject.features(built.subject.notation(candidate)).family,
            known[id_],
            place(built.rules, built.objectives, answers[id_]),
            {name: measured for name, (_, measured) in at_highest_rung(answered).items()},
        )
    return found
