"""The candidate pool of a campaign, kept in step with the ledger: standings, answers of rungs, declared costs.

A candidate's row is its sequence number in the campaign, after the rows of an earlier campaign that the law learns
from. Rows are read again after a change in the ledger; all data in the pool come from there.

The law observes the properties of rungs that predict an objective; each is a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.ladder import PaidIndex, Position
from sciagent.domain.objectives import Objective, Window
from sciagent.domain.quantities import Censoring
from sciagent.domain.states import Standing
from sciagent.scheduling.arrays import Array, Mask
from sciagent.scheduling.audit import lots
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.similarity import GrowingStructures, order_of
from sciagent.store.campaign_state import standings
from sciagent.store.results import candidates, laws, pooled
from sciagent.verification.cost import cost_or_none

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltLadder, BuiltRung
    from sciagent.scheduling.aims import Aim, Aims


KNOWN = PaidIndex(-1)  # index of all fast and inline rungs, whose answers are known for every candidate
MOST = 3  # most properties observed of a rung that does not measure the objective's property
WIDE = 5  # ratio of gate width to the objective's window above which a gate gives no hint
GATE_SHARE = 0.25  # residual of a hint from a gate with one edge, as a share of that edge
TELLS_LITTLE = frozenset({"total_energy"})  # properties that depend on little but the size of a molecule


@dataclass(frozen=True)
class ObservedColumn:
    """A property of one rung that predicts an objective."""

    rung: Position
    """Position of the rung on the campaign's ladder."""
    at: PaidIndex
    """Index of the rung among the paid rungs, or KNOWN for a rung that answers on every candidate at once."""
    property: str
    """Name of the property."""


@dataclass(frozen=True)
class ObservationSchema:
    """The answers that the law of a campaign observes, and the aims in terms of them."""

    columns: tuple[ObservedColumn, ...]
    """Observed columns, in ladder order."""
    paid: tuple[Position, ...]
    """Positions of the rungs that are bought, the terminal one last."""
    aims: Aims
    """The objectives and the goal, in terms of columns."""
    trusted: frozenset[PaidIndex]
    """Indices of rungs below the terminal one that measure an objective's own property."""


def observation_schema(built: BuiltLadder) -> ObservationSchema | None:
    """Returns the schema; None if no rung up to the terminal one is paid, or none measures an objective."""
    from sciagent.scheduling.aims import Aims

    below = [r for r in built.rungs if r.rules.position <= built.terminal]
    paid = tuple(r.rules.position for r in below if r in built.paid)
    wanted = [(o, own_columns) for o in built.objectives if (own_columns := _columns_of(o.property, below, paid))]
    if not paid or not wanted:
        return None
    observed = set(chain.from_iterable(own_columns for _, own_columns in wanted))
    columns = tuple(sorted(observed, key=lambda column: (column.rung, column.property)))
    place = {c: i for i, c in enumerate(columns)}
    aims = tuple(_aim(objective, own_columns, built.rungs, place) for objective, own_columns in wanted)
    objectives = [objective for objective, _ in wanted]
    goal = built.spec.goal
    trusted = _measuring(columns, objectives) - {KNOWN, PaidIndex(len(paid) - 1)}
    return ObservationSchema(columns, paid, Aims(aims, _kind(goal.kind, objectives), goal.count or 1), trusted)


def _kind(goal: str, objectives: Sequence[Objective]) -> str:
    """Returns the kind of goal: `hits` becomes `best` if no objective has limits, since nothing is a hit then."""
    has_limits = any(objective.accept for objective in objectives)
    return "best" if goal == "hits" and not has_limits else goal


def _measuring(columns: Sequence[ObservedColumn], objectives: Sequence[Objective]) -> frozenset[PaidIndex]:
    """Returns the indices of rungs that measure the property of an objective."""
    names = {objective.property for objective in objectives}
    return frozenset(column.at for column in columns if column.property in names)


def _columns_of(name: str, rungs: Sequence[BuiltRung], paid: Sequence[Position]) -> list[ObservedColumn]:
    """Returns the columns that predict a property, the highest rung that measures it last; empty if no rung does."""
    deciding = max((i for i, r in enumerate(rungs) if name in _measured(r)), default=None)
    if deciding is None:
        return []
    columns = []
    for rung in rungs[: deciding + 1]:
        position = rung.rules.position
        at = PaidIndex(paid.index(position)) if position in paid else KNOWN
        if name in _measured(rung):
            columns.append(ObservedColumn(position, at, name))
        elif not rung.is_fast or at != KNOWN:
            columns += [ObservedColumn(position, at, observed) for observed in _observed(rung)]
    return columns


def _observed(rung: BuiltRung) -> list[str]:
    """Returns the properties that predict others at a rung: those of its gates, else the first that it measures."""
    measured = _measured(rung)
    gated = [name for name in rung.rules.gate if name in measured and name not in rung.verifier.gates]
    others = [name for name in measured if name not in TELLS_LITTLE]
    return sorted(gated or others[:MOST])


def _aim(
    objective: Objective,
    columns: Sequence[ObservedColumn],
    rungs: Sequence[BuiltRung],
    place: Mapping[ObservedColumn, int],
) -> Aim:
    """Returns the objective in terms of columns. Its hint comes from the highest lower rung that measures the property:
    from the prior that the verifier declares, or from the rung's gate."""
    from sciagent.scheduling.aims import Aim
    from sciagent.scheduling.law.hints import Hint

    *told_by, decides = columns
    lower = [c for c in told_by if c.property == objective.property and (c.at != KNOWN or not rungs[c.rung].is_fast)]
    line = None
    hint = None
    if lower:
        rung = rungs[lower[-1].rung]
        line = _prior_line(objective.property, rung, rungs[decides.rung]) or _gate_line(objective, rung)
    if line is not None:
        hint = Hint(place[lower[-1]], place[decides], *line)
    seen = (*sorted(place[c] for c in told_by), place[decides])
    levels = [] if hint else [*lower, decides]  # a hint states more than that the slope is positive
    alike = tuple(tuple(sorted(place[c] for c in group)) for group in _of_one_property(objective, levels, told_by))
    passes = tuple((place[c], end) for c, end in _passing_ends(objective, told_by, rungs))
    limits = _limits(objective.accept)
    return Aim(seen, *limits, _desirability(objective), objective.weight, hint, alike, passes)


def _of_one_property(
    objective: Objective, levels: list[ObservedColumn], told_by: Sequence[ObservedColumn]
) -> list[list[ObservedColumn]]:
    """Returns groups of columns that measure one property. levels: those of the objective's own."""
    names = sorted({column.property for column in told_by} - {objective.property})
    groups = [levels, *([column for column in told_by if column.property == name] for name in names)]
    return [group for group in groups if len(group) > 1]


def _passing_ends(
    objective: Objective, told_by: Sequence[ObservedColumn], rungs: Sequence[BuiltRung]
) -> Iterator[tuple[ObservedColumn, int]]:
    """Yields the columns of other properties whose gate has one limit: 1 if what lies above it passes, else -1."""
    for column in told_by:
        gate = rungs[column.rung].rules.gate.get(column.property)
        if column.property != objective.property and gate is not None and (gate.low is None) != (gate.high is None):
            yield column, 1 if gate.high is None else -1


def _prior_line(name: str, rung: BuiltRung, decides: BuiltRung) -> tuple[float, float, float] | None:
    """Returns the declared slope, intercept and residual of a property at the deciding rung against `rung`."""
    level = next(m.level.label for m in decides.spec.measures if m.property.name == name).split("//")[0]
    own = next(m.level.method for m in rung.spec.measures if m.property.name == name)
    for prior in rung.verifier.priors:
        slope = prior.slope
        intercept = prior.intercept
        residual = prior.residual
        is_of_these = (prior.property, prior.level) == (name, level) and prior.method in (None, own)
        if is_of_these and slope is not None and intercept is not None and residual is not None:
            return slope, intercept, residual
    return None


def _gate_line(objective: Objective, rung: BuiltRung) -> tuple[float, float, float] | None:
    """Returns slope, intercept and residual by the gate: its edges are the objective's limits on the rung's scale."""
    gate = rung.rules.gate.get(objective.property)
    accept = objective.accept
    if gate is None or accept is None or np.ptp(_limits(gate)) > WIDE * np.ptp(_limits(accept)):
        return None  # a wide gate excludes only absurd values
    edges = [(g, a) for g, a in ((gate.low, accept.low), (gate.high, accept.high)) if g is not None and a is not None]
    if not edges:
        return None
    offset = float(np.mean([a - g for g, a in edges]))
    width = abs(edges[-1][0] - edges[0][0]) / 3 if len(edges) == 2 else GATE_SHARE * abs(edges[0][0])
    return 1.0, offset, max(width, objective.scale, 1e-6)


def _measured(rung: BuiltRung) -> list[str]:
    return list(dict.fromkeys(measured.property.name for measured in rung.spec.measures))


def _limits(window: Window | None) -> tuple[float, float]:
    low, high = (None, None) if window is None else (window.low, window.high)
    return -math.inf if low is None else low, math.inf if high is None else high


def _desirability(objective: Objective) -> Callable[[Array], Array]:
    """Returns `Objective.desirability` as a function of an array."""
    if objective.ramp is not None:
        worst, best = objective.ramp
        return lambda v: np.clip((v - worst) / (best - worst), 0.0, 1.0)
    low, high = _limits(objective.accept)
    return lambda v: np.exp(-np.maximum(np.maximum(low - v, v - high), 0.0) / objective.scale)


CHUNK = 2000
BOUNDS = {Censoring.NONE: 0, Censoring.BELOW: -1, Censoring.ABOVE: 1}
SHARED = 2000  # most candidates of an earlier campaign that the law learns from
WORKED = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)
GOING = (Standing.OPEN, Standing.PENDING)
STARTED = (*WORKED, Standing.PENDING)  # standings in which the rung at the candidate's position was started


class LedgerPool(CandidatePool):
    """The candidates of one campaign as a scheduler sees them."""

    GROWING = (*CandidatePool.GROWING, "ids", "_counted")

    def __init__(
        self,
        built: Built,
        paid: Sequence[Position],
        schema: ObservationSchema | None,
        connection: Connection,
        learn_from: int | None = None,
    ) -> None:
        """paid: positions of the rungs that are bought, the terminal one last. schema: the answers to read; None: no
        answers, structures or costs are read. learn_from: ledger id of an earlier campaign that the law learns from,
        too."""
        self._built = built
        self._paid = tuple(paid)
        self._is_read = schema is not None
        self._columns = () if schema is None else schema.columns
        """The answers to read."""
        self._deciding = set() if schema is None else {self._columns[aim.columns[-1]].at for aim in schema.aims.aims}
        k = len(paid)
        c = len(self._columns)
        rungs = tuple(column.at for column in self._columns)
        super().__init__(np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), rungs)

        self.order = np.empty(0, dtype=np.uint64)
        self.ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """(n,) ledger ids of the rows."""
        self.known: dict[int, PaidIndex] = {}
        """A rung with reusable evidence, by row. All deciding rungs below it have answered."""
        self.declared: dict[str, Array] = {"core_seconds": np.empty((0, k))}
        """(n, k) declared amounts of the jobs, by resource."""
        self.structures = GrowingStructures()
        """Structures of the candidates, for their similarity."""
        self.lots = np.empty(0) if self._is_read or built.spec.scheduler.knows_chance else None
        self.changed: list[int] = []
        """Rows that were written since the list was last emptied."""
        self._counted: Mask = np.empty((0, k), dtype=bool)
        self._touched: set[int] = set()
        self._first = 0
        if learn_from is not None:
            self._learn(connection, learn_from)
        self._first = len(self.ids)
        self.refresh(connection)

    @property
    def earlier(self) -> int:
        """Number of first rows that are candidates of an earlier campaign."""
        return self._first

    @property
    def arrived(self) -> int:
        """Number of candidates of this campaign."""
        return len(self.ids) - self._first

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Marks candidates whose rows in the ledger have changed."""
        self._touched.update(candidate_ids)

    def refresh(self, connection: Connection) -> int:
        """Reads new and touched candidates from the ledger; returns the number of rows read."""
        seen = 0
        while rows := standings.arrivals(connection, self._built.row.id, self.arrived, CHUNK):
            self._enter(connection, rows)
            seen += len(rows)
        touched = sorted(self._touched)
        self._touched = set()
        for start in range(0, len(touched), CHUNK):
            rows = standings.standings_of(connection, self._built.row.id, touched[start : start + CHUNK])
            self._place(connection, rows)
            seen += len(rows)
        return seen

    def _enter(self, connection: Connection, rows: Sequence[standings.CandidateStanding]) -> None:
        """Adds new candidates, in order of their sequence numbers."""
        ids = [r.candidate_id for r in rows]
        self._enter_rows(ids)
        if self._is_read:
            going = [r.candidate_id for r in rows if r.standing not in WORKED or r.depth >= self._paid[0]]
            loaded = candidates.load(connection, going)
            self._describe([loaded.get(id_) for id_ in ids])
            self._order(connection, ids, loaded)
        elif self.lots is not None:
            keys = laws.candidate_keys(connection, ids)
            self.lots[len(self.ids) - len(ids) :] = lots(self._built.spec.seed, (keys[id_] for id_ in ids))
        self._place(connection, rows)

    def _enter_rows(self, ids: Sequence[int]) -> None:
        self.add(np.zeros((len(ids), len(self._paid))))
        self.ids[len(self.ids) - len(ids) :] = ids

    def _order(self, connection: Connection, ids: Sequence[int], loaded: Mapping[int, Candidate]) -> None:
        """Writes the order of the last added rows. ids: of these rows."""
        keys = {id_: candidate.key for id_, candidate in loaded.items()}
        if others := [id_ for id_ in ids if id_ not in keys]:
            keys |= laws.candidate_keys(connection, others)
        assert self.order is not None
        self.order[len(self.ids) - len(ids) :] = order_of(keys[id_] for id_ in ids)

    def _describe(self, loaded: Sequence[Candidate | None]) -> None:
        """Writes structures, lots and declared costs of the last added rows. loaded: None for candidates not loaded."""
        k = len(self._paid)
        last = len(self.ids)
        first = last - len(loaded)
        known_keys = {row: candidate.key for row, candidate in enumerate(loaded, first) if candidate is not None}
        assert self.lots is not None
        self.lots[list(known_keys)] = lots(self._built.spec.seed, known_keys.values())
        for resource, known in self.declared.items():
            self.declared[resource] = np.vstack([known, np.zeros((len(loaded), k))])
        for place, position in enumerate(self._paid):
            verifier = self._built.rungs[position].verifier
            for row, candidate in zip(range(first, last), loaded, strict=True):
                cost = None if candidate is None else cost_or_none(verifier, candidate)
                for resource, amount in (cost or Cost()).items():
                    if resource not in self.declared:
                        self.declared[resource] = np.zeros((last, k))
                    self.declared[resource][row, place] = amount
        subject = self._built.subject
        self.structures.add([subject.structure(subject.notation(each)) if each else None for each in loaded])

    def _place(self, connection: Connection, rows: Sequence[standings.CandidateStanding]) -> None:
        """Writes standings and answers of candidates."""
        if not rows:
            return
        at = {r.candidate_id: self._first + r.seq for r in rows}
        of = list(at.values())
        self.changed += of
        self.out[of] = [r.standing not in GOING for r in rows]
        self.pending[of] = [r.standing == Standing.PENDING for r in rows]
        self.score[of] = [math.nan if r.score is None else r.score for r in rows]
        passed = np.array([r.position + (r.standing in STARTED) for r in rows])
        self.closed[of] = np.array(self._paid) < passed[:, None]
        if self._is_read:
            asked = [r for r in rows if r.standing != Standing.DROPPED or r.position >= self._paid[0]]
            self._observe(connection, asked, at)
            self._observe_fast(connection, [r.candidate_id for r in asked], at)

    def _observe(self, connection: Connection, rows: Sequence[standings.CandidateStanding], at: dict[int, int]) -> None:
        """Writes the answers of paid rungs. at: rows in the pool, by ledger id."""
        for row in at.values():
            self.known.pop(row, None)
        ids = [r.candidate_id for r in rows]
        lacking: set[int] = set()  # rows without the answer of a deciding rung
        for place, position in zip(self.paid, self._paid, strict=True):
            answers = self._answers(connection, ids, position)
            for r in rows:
                row = at[r.candidate_id]
                if position < r.position or (position == r.position and r.standing in WORKED):
                    if r.candidate_id in answers or position == r.position:  # a skipped rung does not count
                        self._count(row, place, answers.get(r.candidate_id) is None)
                    self._write(row, position, answers.get(r.candidate_id))
                elif r.candidate_id not in answers:
                    lacking |= {row} if place in self._deciding else set()
                elif r.standing == Standing.OPEN and row not in lacking:
                    self.known.setdefault(row, place)

    def _observe_fast(self, connection: Connection, ids: Sequence[int], at: dict[int, int]) -> None:
        """Writes the answers of fast rungs. at: rows in the pool, by ledger id."""
        for position in {c.rung for c in self._columns if c.at == KNOWN}:
            answers = self._answers(connection, ids, position)
            for id_ in ids:
                self._write(at[id_], position, answers.get(id_))

    def _count(self, row: int, place: PaidIndex, has_failed: bool) -> None:
        """Counts, once per candidate and rung, that the rung has answered or failed."""
        if not self._counted[row, place]:
            self._counted[row, place] = True
            self.tried[place] += 1
            self.failed[place] += has_failed

    def _learn(self, connection: Connection, campaign_id: int) -> None:
        """Adds the candidates of an earlier campaign that a paid rung of this campaign has answered."""
        ids = standings.ids_with_answers(connection, campaign_id, SHARED)
        by_rung = {p: self._answers(connection, ids, p) for p in {c.rung for c in self._columns}}
        paid = {c.rung for c in self._columns if c.at != KNOWN}
        answered = [i for i in ids if any(i in by_rung[p] for p in paid)]
        loaded = candidates.load(connection, answered)
        self._enter_rows(answered)
        self._describe([loaded.get(i) for i in answered])
        self._order(connection, answered, loaded)
        self.out[:] = True
        for row, i in enumerate(answered):
            for position, answers in by_rung.items():
                self._write(row, position, answers.get(i))

    def _answers(
        self, connection: Connection, ids: Sequence[int], position: Position
    ) -> dict[int, pooled.PooledValues | None]:
        rung = self._built.rungs[position]
        derived = [prop.settings_hash for prop in rung.spec.derived]
        return pooled.values_of(connection, ids, rung.verifier.computation, derived, rung.fits)

    def _write(self, row: int, position: Position, values: pooled.PooledValues | None) -> None:
        """Writes a rung's answer for one candidate. values: pooled over all replicates; None: no answer."""
        for column, observed in enumerate(self._columns):
            if observed.rung == position:
                quantity = None if values is None else values.get(observed.property)
                if quantity is None:
                    self.write(row, column, np.nan)
                else:
                    self.write(row, column, quantity.value, quantity.uncertainty or 0.0, BOUNDS[quantity.censoring])
