"""Publishes the rewards of a campaign as a version: a function of evidence, law and description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.rewarding.expectations import RewardLaw, fit_law, restored_law
from sciagent.campaign.rewarding.valuations import CandidateWorth, valuations
from sciagent.campaign.spec.schedulers import LotterySpec
from sciagent.chemistry.families import family
from sciagent.domain.answers.rewards import ChangedReward, PublishedRewards
from sciagent.domain.cost import Cost
from sciagent.errors import UsageError
from sciagent.rewards.credit import gigpo, marginal, outcome, rtg
from sciagent.rewards.credit.marginal import Find
from sciagent.rewards.credit.returns import Group, returns
from sciagent.rewards.process import ProposedCandidate, TurnFacts, TurnReward, limited, price_of, turn_rewards
from sciagent.rewards.spec import RewardSpec
from sciagent.store.campaign_state import directives
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, evidence_costs, rewards
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.learning.rewards import RewardRow, RewardVersionRow
from sciagent.store.results import candidates, laws
from sciagent.store.results.evidence import next_watermark, read_watermark

CHUNK = 2000


class _Episode(NamedTuple):
    """An episode with its rewards."""

    row: EpisodeRow
    turns: Sequence[EpisodeTurn]
    facts: Sequence[TurnFacts]
    rewards: Sequence[TurnReward]


def publish(ledger: Ledger, name: str, spec: RewardSpec) -> PublishedRewards:
    """Publishes a version of the rewards of a campaign. A version that exists is returned as it is.

    Raises UnknownNameError for an unknown campaign or law; UsageError for a watermark in the future, a law of another
    kind, or a campaign without episodes.
    """
    built = open_for_people(ledger, name)
    if spec.unsettled == "robust" and not isinstance(built.spec.scheduler, LotterySpec):
        raise UsageError(
            f'unsettled: robust needs to know with which chance a candidate was verified; "{name}" has the scheduler '
            f"{built.spec.scheduler.kind}, only lottery draws with a known chance; take posterior or settled"
        )
    with ledger.begin() as connection:
        directives.lock(connection, built.row.id)
        now = read_watermark(connection)
        if (spec.watermark or 0) > now:
            raise UsageError(f"watermark {spec.watermark} lies in the future; the ledger is at {now}")
        previous = rewards.last(connection, built.row.id, spec.hash)
        if previous is not None and previous.watermark == (now if spec.watermark is None else spec.watermark):
            return _published(connection, previous)
        # a number of its own, so that what is decided from now on is told from what was decided before
        as_of = next_watermark(connection, 1) if spec.watermark is None else spec.watermark
        law_id, law = _law(built, connection, spec, as_of, previous)
        rows = _rewards(built, connection, spec, law, as_of)
        version = rewards.write_version(
            connection,
            built.row.id,
            spec_hash=spec.hash,
            spec=spec.model_dump(mode="json"),
            watermark=as_of,
            law=law_id,
            previous_id=None if previous is None else previous.id,
        )
        rewards.write(connection, version, rows)
        return _published(connection, rewards.get(connection, version))


def _law(
    built: Built, connection: Connection, spec: RewardSpec, as_of: int, previous: RewardVersionRow | None
) -> tuple[int | None, RewardLaw | None]:
    """Returns the law's row and the law: the stated one, else that of the previous version, else a new one."""
    if spec.unsettled == "settled":
        return None, None
    stated = spec.law or (previous.law if previous is not None else None)
    if stated is None:
        law = fit_law(built, connection, as_of)
        if law is None:
            return None, None
        return laws.write(connection, built.row.id, law.state, purpose="reward", watermark=as_of).id, law
    row = laws.by_id(connection, stated)
    if row is None or not {"stack", "truths"} <= row.state.keys():
        raise UsageError(f"row {stated} of the table of laws holds no law that was made for rewards; leave law: out")
    return row.id, restored_law(built, row.watermark, row.state)


def _rewards(
    built: Built, connection: Connection, spec: RewardSpec, law: RewardLaw | None, as_of: int
) -> list[RewardRow]:
    rows = episodes.episodes(connection, built.row.id, as_of)
    if not rows:
        raise UsageError(f'campaign "{built.row.name}" has no episodes of a model; rewards are given to its turns')
    turns = episodes.turns_of(connection, [row.id for row in rows], as_of)
    new = {p.candidate_id for of in turns.values() for turn in of for p in turn.proposals if p.status == "new"}
    facts = _CandidateFacts(built, connection, sorted(id_ for id_ in new if id_ is not None), spec, law, as_of)
    found = []
    for row in rows:
        of_turns = [facts.of_turn(turn, row.group_id is not None) for turn in turns[row.id]]
        found.append(_Episode(row, turns[row.id], of_turns, turn_rewards(of_turns, spec)))
    written: list[RewardRow] = []
    for group_id, members in groupby(found, key=lambda episode: episode.row.group_id):
        group = list(members)
        compared = None if group_id is None else _advantages(spec, group)  # without siblings there is no comparison
        for place, episode in enumerate(group):
            written += _rows(episode, [None] * len(episode.turns) if compared is None else compared[place])
    return written


class _CandidateFacts:
    """Worths, costs and scaffolds of all candidates of the episodes, read once."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        ids: Sequence[int],
        spec: RewardSpec,
        law: RewardLaw | None,
        as_of: int,
    ) -> None:
        paid = [rung.verifier.computation for rung in built.paid]
        self._worth: Mapping[int, CandidateWorth] = valuations(built, connection, ids, as_of, law, spec)
        self._costs = episodes.costs_of(connection, built.row.id, paid, ids, as_of)
        inline = [rung.verifier.computation for rung in built.fast if rung.spec.inline]
        self._inline = evidence_costs.of_computations(connection, inline, ids, as_of)
        self._named: dict[int, tuple[str, str]] = {}
        for start in range(0, len(ids), CHUNK):
            for id_, candidate in candidates.load(connection, ids[start : start + CHUNK]).items():
                is_molecule = candidate.kind == "molecule"  # all molecules without rings share one family
                self._named[id_] = candidate.key, family(candidate.text) if is_molecule else candidate.key

    def of_turn(self, turn: EpisodeTurn, is_rollout: bool) -> TurnFacts:
        """Returns the facts of a turn. is_rollout: its cost has that of reused inline evidence already."""
        refused = sum(proposal.status != "new" for proposal in turn.proposals)
        proposed = [
            self._proposed(id_, self._costs[id_] + self._lent(id_, turn, is_rollout))
            for id_ in dict.fromkeys(p.candidate_id for p in turn.proposals if p.status == "new")
            if id_ is not None
        ]
        share = refused / len(turn.proposals) if turn.proposals else 0.0
        return TurnFacts(proposed, turn.cost, {"refused": share})

    def _proposed(self, candidate_id: int, cost: Cost) -> ProposedCandidate:
        worth = self._worth[candidate_id]
        return ProposedCandidate(*self._named[candidate_id], worth.value, worth.settled, cost, worth.screened)

    def _lent(self, candidate_id: int, turn: EpisodeTurn, is_rollout: bool) -> Cost:
        """Returns the cost of inline evidence that the turn reused. What it computed itself is in its own cost."""
        if is_rollout:
            return Cost()
        return sum((c for by, c in self._inline.get(candidate_id, ()) if by != turn.id), Cost())


def _advantages(spec: RewardSpec, group: Sequence[_Episode]) -> list[list[float | None]]:
    values: Group = [[reward.value for reward in episode.rewards] for episode in group]
    match spec.credit:
        case "outcome":
            return outcome.advantages(values)
        case "rtg":
            return rtg.advantages(values)
        case "gigpo":
            return gigpo.advantages(values, [[turn.state for turn in episode.turns] for episode in group])
        case "marginal":
            finds = [
                [[Find(c.key, c.scaffold, c.worth) for c in facts.candidates] for facts in limited(episode.facts, spec)]
                for episode in group
            ]
            costs: Group = [[_spent(facts, spec) for facts in episode.facts] for episode in group]
            return marginal.advantages(finds, costs, spec.weight)


def _spent(facts: TurnFacts, spec: RewardSpec) -> float:
    return price_of(facts.cost, spec) + sum(price_of(c.cost, spec) for c in facts.candidates)


def _rows(episode: _Episode, advantages: Sequence[float | None]) -> list[RewardRow]:
    """Returns the rows of an episode: its outcome first, then its turns."""
    to_go = returns([reward.value for reward in episode.rewards])
    total = to_go[0] if to_go else 0.0
    rows = [RewardRow(episode.row.id, None, total, total, None, {}, ())]
    for turn, facts, reward, later, advantage in zip(
        episode.turns, episode.facts, episode.rewards, to_go, advantages, strict=True
    ):
        shown = [{"key": c.key, "value": c.worth, "cost": dict(c.cost), "settled": c.settled} for c in facts.candidates]
        rows.append(RewardRow(episode.row.id, turn.id, reward.value, later, advantage, reward.terms, shown))
    return rows


def _published(connection: Connection, version: RewardVersionRow) -> PublishedRewards:
    rows = rewards.of_version(connection, version.id)
    outcomes = [row.value for row in rows if row.turn_id is None]
    before = None if version.previous_id is None else rewards.get(connection, version.previous_id)
    return PublishedRewards(
        version=version.id,
        spec_hash=version.spec_hash,
        watermark=version.watermark,
        law=version.law,
        episodes=len(outcomes),
        rewarded=sum(value is not None for value in outcomes),
        undecided=sum(value is None for value in outcomes),
        changed=() if before is None else changes(connection, before, version),
    )


def changes(connection: Connection, old: RewardVersionRow, new: RewardVersionRow) -> tuple[ChangedReward, ...]:
    """Returns the turns whose rewards differ between two versions, and those that only the new one has."""
    places = rewards.places(connection, new.campaign_id)
    was = {row.turn_id: row.value for row in rewards.of_version(connection, old.id) if row.turn_id is not None}
    changed = []
    for row in rewards.of_version(connection, new.id):
        if row.turn_id is not None and (row.turn_id not in was or was[row.turn_id] != row.value):
            episode, turn = places[row.turn_id]
            changed.append(ChangedReward(episode=episode, turn=turn, was=was.get(row.turn_id), now=row.value))
    return tuple(changed)
