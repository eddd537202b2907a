"""`evolve`: proposes the seeds first, then the children of a genetic search over the best candidates so far.

Each turn reads the population from the ledger, through the index of the best candidates; the cursor keeps the operator
counts. A turn therefore depends only on its seed, its cursor and the ledger, and there are no generations to wait for.
Known candidates are not proposed again.

The search itself knows no campaign: `tell` adds a candidate with its fitness, `ask` returns children.

Each child is bred from the current population. The population holds the best candidates, with at most
PER_GROUP of a group of alike ones (of molecules: one Murcko scaffold), so that no series takes it over. Parents are
drawn by rank, half of them from the best sqrt(n): p(rank r of n) ~ log((r + 2) / (r + 1)). Operators are drawn by how
many of their children are in the population now. For operator o, with every count halved after HALF_LIFE further
children,

    rate(o) = (kept(o) + PRIOR * mean) / (made(o) + PRIOR)
    weight(o) ~ share(o) * (FLOOR * mean rate + (1 - FLOOR) * rate(o))

`kept` is counted from the population and `made` from the requested children, so that only `made` is stored. An operator
without success keeps the floor, so that it can succeed later in the search.

Memory is bounded: at most `KEPT_PER_PLACE` times the population is remembered. The same seed, fitnesses and order of
calls give the same children.

Source: Thierens, GECCO 2005 (probability matching, there with an exponential average of rewards).
"""

from __future__ import annotations

import bisect
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.chemistry.subjects.base import EditSet, Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import ProposalIn, ScriptBench, Turn, Workbench
from sciagent.errors import InvalidCandidateError

POPULATION = 200
PER_GROUP = 20
KEPT_PER_PLACE = 5  # remembered members per place in the population
HALF_LIFE = 500.0  # children
PRIOR = 10.0  # weight of the mean rate, in children
FLOOR = 0.1  # fraction of the draws that all operators share
TRIES_PER_CHILD = 30
SECOND_EDIT = 0.15  # fraction of the children that are edited twice


@dataclass(frozen=True)
class Member:
    """A candidate with its fitness."""

    text: str
    """Its notation."""
    fitness: tuple[float, ...]
    """Numbers by which members are ordered; the larger, the better."""
    operation: str
    number: int
    """Position in the order of arrival."""


def _best_first(member: Member) -> tuple[tuple[float, ...], int]:
    """Returns the key by which members are sorted, the best first; ties in order of arrival."""
    return tuple(-number for number in member.fitness), member.number


class GeneticSearch:
    """A search for candidates of a high fitness, given and returned as notations.

    limits: bounds on the children; None: the bounds of `edits` without checks. known: returns whether a candidate must
    not be proposed; remembered ones are excluded anyway. made: operator counts of an earlier search to continue from.
    """

    def __init__(
        self,
        edits: EditSet,
        *,
        limits: Any = None,
        known: Callable[[str], bool] = lambda text: False,
        made: Mapping[str, float] | None = None,
    ) -> None:
        self._edits = edits
        self._known = known
        self._limits = edits.limits() if limits is None else limits
        shares = {name: edits.shares.get(name, 1.0) for name in (*edits.operations, *edits.crossovers)}
        self._operators = OperatorChoice(shares, made)
        self._members: list[Member] = []  # sorted, best first
        self._texts: set[str] = set()
        self._latest = -1

    @property
    def made(self) -> dict[str, float]:
        """Decayed number of children by operator; the argument `made` of a later search."""
        return dict(self._operators.made)

    def tell(self, text: str, fitness: tuple[float, ...], operation: str = "", *, number: int | None = None) -> None:
        """Adds a candidate. A repeated one is ignored.

        fitness: as in `Member`, of the same length for all.
        number: position in the order of arrival; by default the order of the calls.
        """
        number = self._latest + 1 if number is None else number
        self._latest = max(self._latest, number)
        if text in self._texts:
            return
        bisect.insort(self._members, Member(text, fitness, operation, number), key=_best_first)
        self._texts.add(text)
        if len(self._members) > KEPT_PER_PLACE * POPULATION:
            worst = self._members.pop()
            self._texts.discard(worst.text)

    def population(self) -> list[Member]:
        """Returns the members, best first: at most PER_GROUP of a group of alike ones, POPULATION in all."""
        of_group: Counter[str] = Counter()
        chosen: list[Member] = []
        for member in self._members:
            group = self._edits.group(member.text)
            of_group[group] += 1
            if of_group[group] <= PER_GROUP:
                chosen.append(member)
                if len(chosen) == POPULATION:
                    break
        return chosen

    def ask(self, n: int, rng: random.Random) -> list[ProposalIn]:
        """Returns at most n children, all different and unknown; fewer if the tries run out."""
        members = self.population()
        if not members:
            return []
        weights = self._operators.weights(_kept(members, self._latest))
        parents = [m.text for m in members]
        children: dict[str, ProposalIn] = {}
        for _ in range(n * TRIES_PER_CHILD):
            if len(children) == n:
                break
            operation = self._operators.draw(rng, weights)
            child = self._breed(operation, parents, weights, rng)
            if child is None:
                continue
            is_known = child.text in children or child.text in self._texts or self._known(child.text)
            if is_known:
                continue
            children[child.text] = child
            self._operators.count(operation)
        return list(children.values())

    def _breed(
        self, operation: str, parents: Sequence[str], weights: Sequence[float], rng: random.Random
    ) -> ProposalIn | None:
        """Returns a child by an operation, of parents drawn by rank; None if nothing fits. Some are edited twice."""
        edits = self._edits
        limits = self._limits
        first = parents[rank(len(parents), rng)]
        chosen: tuple[str, ...] = (first,)
        if operation in edits.crossovers:
            second_parent = parents[rank(len(parents), rng)]
            chosen = (first, second_parent)
            crossed = edits.cross((first, second_parent), rng, limits, operation)
            child = None if crossed is None else crossed[0]
        else:
            child = edits.mutate(first, rng, operation, limits)
        if child is None:
            return None
        if rng.random() < SECOND_EDIT:
            second = self._operators.draw(rng, weights)
            if second not in edits.crossovers:
                child = edits.mutate(child, rng, second, limits) or child
        return ProposalIn(child, chosen, operation)


class OperatorChoice:
    """The drawing weights of named operators. `made`: decayed counts of children by operator; can be stored as JSON."""

    def __init__(self, shares: Mapping[str, float], made: Mapping[str, float] | None = None) -> None:
        self.names = tuple(shares)
        self._shares = dict(shares)
        self.made = {name: float((made or {}).get(name, 0.0)) for name in self.names}

    def weights(self, kept: Mapping[str, float]) -> list[float]:
        """Returns (n,) weights that sum to 1. kept: weight of the surviving members by operator."""
        mean = (sum(kept.values()) + PRIOR) / (sum(self.made.values()) + PRIOR)
        rates = [(kept.get(o, 0.0) + PRIOR * mean) / (self.made[o] + PRIOR) for o in self.names]
        floor = FLOOR * sum(rates) / len(rates)
        weights = [self._shares[o] * (floor + (1 - FLOOR) * r) for o, r in zip(self.names, rates, strict=True)]
        return [weight / sum(weights) for weight in weights]

    def draw(self, rng: random.Random, weights: Sequence[float]) -> str:
        return rng.choices(self.names, weights=weights)[0]

    def count(self, name: str) -> None:
        """Counts one child of this operator; the counts of all earlier children decay."""
        fade = decay(1)
        for operator in self.made:
            self.made[operator] *= fade
        if name in self.made:
            self.made[name] += 1


def decay(age: float) -> float:
    """Returns the weight of a child after `age` later children."""
    return math.exp2(-max(age, 0.0) / HALF_LIFE)


def rank(n: int, rng: random.Random) -> int:
    """Returns a rank in 0 … n - 1 with p(r) = log((r + 2) / (r + 1)) / log(n + 1): each doubling is equally likely."""
    return min(int((n + 1) ** rng.random()) - 1, n - 1)


def _kept(members: Sequence[Member], now: int) -> dict[str, float]:
    """Returns the weight of the surviving members by operator: 2 for the best, down to 0, decayed by age."""
    kept: dict[str, float] = {}
    for place, member in enumerate(members):
        worth = 2 * (1 - place / len(members)) * decay(now - member.number)
        kept[member.operation] = kept.get(member.operation, 0.0) + worth
    return kept


STAND_IN = 200  # largest number of unmeasured seeds that join the population while few candidates are measured
UNMEASURED = (-1.0, 0.0, 0.0)  # fitness of a seed that no paid rung has answered on


IsKnown = Callable[[str], bool]
"""Whether a child, given as its notation, must not be proposed."""


class Bred(NamedTuple):
    """The children of a turn."""

    children: list[ProposalIn]
    cursor: dict[str, Any]
    """Entries that the cursor keeps of the search."""


def with_keys(children: Iterable[ProposalIn], keys: Mapping[str, str]) -> list[ProposalIn]:
    """Returns children with the keys of their parents in place of the notations. keys: by notation."""
    return [replace(child, parents=tuple(keys[parent] for parent in child.parents)) for child in children]


class Evolve:
    """Proposes the seeds of a file, then children within the edit limits that fit the ladder's checks."""

    name = "evolve"
    total: int | None = None  # unlimited: it proposes for as long as it is called

    def __init__(
        self,
        subject: Subject,
        seeds: Path,
        *,
        column: str | None = None,
        limits: Any = None,
        keep: Sequence[str] | None = None,
    ) -> None:
        """limits: bounds on children; None: the bounds of the subject without checks."""
        self._subject = subject
        self._edits = needed_edits(subject)
        self._seeds = list(subject.records(seeds, column, keep=keep))
        self._limits = self._edits.limits() if limits is None else limits

    def turn(self, workbench: ScriptBench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next seeds, or at most `limit` children. Returns None if there is no candidate to start from."""
        offset = int(turn.cursor.get("seeds", 0))
        if offset < len(self._seeds):
            batch = self._seeds[offset : offset + limit]
            workbench.propose([ProposalIn(seed.text, operation="seed", names=seed.names) for seed in batch])
            return {"seeds": offset + len(batch)}
        tried_keys: set[str] = set()

        def is_known(text: str) -> bool:
            """Returns whether a child is invalid, misses a gate, or is already in the campaign or in this turn."""
            child = self._read(text)
            if child is None:
                return True
            known = child.key in tried_keys or bool(workbench.missed_gate(child)) or workbench.known(child)
            tried_keys.add(child.key)
            return known

        bred = self._bred(workbench, turn, limit, is_known)
        if bred is None:
            return None
        workbench.propose(bred.children)
        return {"seeds": offset} | bred.cursor

    def _bred(self, workbench: ScriptBench, turn: Turn, limit: int, is_known: IsKnown) -> Bred | None:
        """Returns at most `limit` children that are not known; None if there is no candidate to start from."""
        search = GeneticSearch(self._edits, limits=self._limits, known=is_known, made=turn.cursor.get("made"))
        keys = self._tell(search, workbench)
        if not search.population():
            return None
        children = search.ask(limit, random.Random(turn.seed))
        made = {name: round(n, 3) for name, n in search.made.items() if n}
        return Bred(with_keys(children, keys), {"made": made})

    def _tell(self, search: GeneticSearch, workbench: Workbench) -> dict[str, str]:
        """Tells the search the best candidates, and seeds while few are measured. Returns keys by notation."""
        ranked = workbench.best(POPULATION * KEPT_PER_PLACE)
        keys = {member.text: member.key for member in ranked}
        for member in ranked:
            search.tell(member.text, member.worth.order, member.operation, number=member.seq)
        if len(ranked) < min(len(self._seeds), STAND_IN):
            for record in self._seeds[:STAND_IN]:
                seed = self._read(record.text)
                if seed is None:
                    continue
                notation = self._subject.notation(seed)
                keys.setdefault(notation, workbench.key_of(seed))
                search.tell(notation, UNMEASURED, operation="seed")
        return keys

    def _read(self, text: str) -> Candidate | None:
        """Returns the candidate of a notation; None for any other text."""
        try:
            return self._subject.read(text)
        except InvalidCandidateError:
            return None
