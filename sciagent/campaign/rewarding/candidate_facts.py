"""The worths and costs of the candidates of episodes, read once for all turns of a version of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.rewarding.records import Records
from sciagent.campaign.rewarding.valuations import CandidateWorth, valuations
from sciagent.domain.cost import Cost
from sciagent.rewards.expectations import RewardLaw
from sciagent.rewards.process import ProposedCandidate, TurnFacts
from sciagent.rewards.spec import RewardSpec, Term
from sciagent.rewards.states import CHUNK, rungs_as_of
from sciagent.store.learning import episodes, evidence_costs
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.results import candidates


class CandidateFacts:
    """Worths, costs and families of all candidates of the episodes."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        held: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]],
        spec: RewardSpec,
        law: RewardLaw | None,
        as_of: int,
    ) -> None:
        """held: the episodes with their turns."""
        self._records = Records(built, connection, held, as_of) if built.spec.goal.kind == "best" else None
        by_record: dict[float | None, set[int]] = {}
        for row, turns in held:
            by_record.setdefault(self._record(row), set()).update(*map(_new, turns))
        self._worth: dict[float | None, Mapping[int, CandidateWorth]] = {
            record: valuations(built, connection, sorted(ids), as_of, law, spec, record)
            for record, ids in by_record.items()
        }
        ids = sorted(set[int]().union(*by_record.values()))
        paid = [rung.verifier.computation for rung in built.paid]
        fits = {
            (name, fit.measured_level) for r in rungs_as_of(built, connection, as_of) for name, fit in r.fits.items()
        }
        self._costs = episodes.costs_of(connection, built.row.id, paid, ids, as_of, fits)
        inline = [rung.verifier.computation for rung in built.fast if rung.spec.inline]
        self._inline = evidence_costs.of_computations(connection, inline, ids, as_of)
        self._named: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.notations: dict[int, str] = {}
        for start in range(0, len(ids), CHUNK):
            for id_, candidate in candidates.load(connection, ids[start : start + CHUNK]).items():
                notation = self.notations[id_] = built.subject.notation(candidate)
                self._named[id_] = candidate.key, built.subject.families(notation, spec.decay_by)

    def _record(self, row: EpisodeRow) -> float | None:
        return None if self._records is None else self._records.of(row)

    def of_turn(self, row: EpisodeRow, turn: EpisodeTurn, terms: Mapping[Term, float | None]) -> TurnFacts:
        """Returns the facts of a turn. row: its episode. terms: before their weights."""
        worth = self._worth[self._record(row)]
        proposed = []
        for id_ in _new(turn):
            cost, (value, settled, screened) = self._costs[id_] + self._lent(id_, row, turn), worth[id_]
            proposed.append(ProposedCandidate(*self._named[id_], value, settled, cost, screened))
        return TurnFacts(proposed, turn.cost, terms)

    def _lent(self, candidate_id: int, row: EpisodeRow, turn: EpisodeTurn) -> Cost:
        """Returns the cost of inline evidence that the turn reused. What it computed itself is in its own cost, and so
        is, in a group of rollouts, what it reused."""
        if row.group_id is not None:
            return Cost()
        return sum((cost for by, cost in self._inline.get(candidate_id, ()) if by != turn.id), Cost())


def _new(turn: EpisodeTurn) -> list[int]:
    """Returns the ids of the candidates that were new in a turn, each once."""
    new = (proposal.candidate_id for proposal in turn.proposals if proposal.status == "new")
    return list(dict.fromkeys(id_ for id_ in new if id_ is not None))
