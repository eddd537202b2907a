"""The candidate pool of a campaign, kept in step with the ledger: standings, answers of rungs, declared costs.

A standing is the state of a candidate in its campaign, such as open, pending or settled. A candidate's row is its
sequence number in the campaign, after the rows of an earlier campaign that the law learns from. Rows are read again
after a change in the ledger; all data in the pool come from there.

The law is the model that predicts the answers of rungs. It observes the properties of rungs that predict an objective;
each such property of a rung is a column.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.record_results_and_place import experimental_values_of
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, is_spared
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.objectives import Objective, ends_of
from sciagent.domain.quantities import Censoring
from sciagent.domain.rung_positions_and_tiers import PaidIndex, Position
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import Basis
from sciagent.scheduling.array_types import Array, Mask
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.similarity import GrowingStructures, order_of
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.results import candidates, evidence, laws_and_audits, pooled_replicates
from sciagent.verification.cost_models import cost_or_none

if TYPE_CHECKING:
    from sciagent.campaign.core.built_campaign_and_derived_values import BuiltLadder, BuiltRung
    from sciagent.scheduling.aims_and_payoff import Aim, Aims


KNOWN = PaidIndex(-1)  # index of all fast and inline rungs, whose answers are known for every candidate
MAX_UNRELATED_PROPERTIES = 3  # most properties observed of a rung that does not measure the objective's property
UNINFORMATIVE_PROPERTIES = frozenset(
    {"total_energy", "lattice_a", "lattice_b", "lattice_c", "lattice_alpha", "lattice_beta", "lattice_gamma"}
)
"""Properties that depend on little but the size of a molecule, or on the setting of a crystal's space group."""


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
    from sciagent.scheduling.aims_and_payoff import Aims

    rungs = [rung for rung in built.rungs if rung.rules.position <= built.terminal]
    paid = tuple(rung.rules.position for rung in rungs if rung in built.paid)
    objectives: list[Objective] = []
    columns_by_objective: list[list[ObservedColumn]] = []
    for objective in built.objectives:
        own_columns = _columns_of(objective.property, rungs, paid)
        if own_columns:
            objectives.append(objective)
            columns_by_objective.append(own_columns)
    if not paid or not objectives:
        return None
    observed = set(chain.from_iterable(columns_by_objective))
    columns = tuple(sorted(observed, key=lambda column: (column.rung, column.property)))
    column_index = {column: index for index, column in enumerate(columns)}
    aims = tuple(
        _aim(objective, own_columns, built.rungs, column_index)
        for objective, own_columns in zip(objectives, columns_by_objective, strict=True)
    )
    goal = built.spec.goal
    terminal = PaidIndex(len(paid) - 1)
    trusted = _rungs_measuring(columns, objectives) - {KNOWN, terminal}
    goal_kind = _kind_of_goal(goal.kind, objectives)
    return ObservationSchema(columns, paid, Aims(aims, goal_kind, goal.count or 1), trusted)


def _kind_of_goal(goal: str, objectives: Sequence[Objective]) -> str:
    """Returns the kind of goal: `hits` becomes `best` if no objective has limits, since nothing is a hit then."""
    has_limits = any(objective.accept for objective in objectives)
    return "best" if goal == "hits" and not has_limits else goal


def _rungs_measuring(columns: Sequence[ObservedColumn], objectives: Sequence[Objective]) -> frozenset[PaidIndex]:
    """Returns the indices of rungs that measure the property of an objective."""
    names = {objective.property for objective in objectives}
    return frozenset(column.at for column in columns if column.property in names)


def _columns_of(name: str, rungs: Sequence[BuiltRung], paid: Sequence[Position]) -> list[ObservedColumn]:
    """Returns the columns that predict a property; the column of the highest rung that measures it is the last.

    The list is empty if no rung measures the property.
    """
    measuring = [place for place, rung in enumerate(rungs) if name in _measured_properties(rung)]
    if not measuring:
        return []
    deciding = measuring[-1]  # place of the highest rung that measures the property
    columns = []
    for rung in rungs[: deciding + 1]:
        position = rung.rules.position
        at = PaidIndex(paid.index(position)) if position in paid else KNOWN
        if name in _measured_properties(rung):
            columns.append(ObservedColumn(position, at, name))
        elif not rung.is_fast or at != KNOWN:  # of a fast rung, only the property itself is observed
            columns += [ObservedColumn(position, at, observed) for observed in _predicting_properties(rung)]
    return columns


def _predicting_properties(rung: BuiltRung) -> list[str]:
    """Returns the properties of a rung that predict the property of an objective which the rung does not measure.

    They are the properties of its gates, without gates that its verifier sets itself; if there are none, the first that
    it measures.
    """
    measured = _measured_properties(rung)
    gated = [name for name in rung.rules.gate if name in measured and name not in rung.verifier.gates]
    others = [name for name in measured if name not in UNINFORMATIVE_PROPERTIES]
    return sorted(gated or others[:MAX_UNRELATED_PROPERTIES])


def _aim(
    objective: Objective,
    columns: Sequence[ObservedColumn],
    rungs: Sequence[BuiltRung],
    column_index: Mapping[ObservedColumn, int],
) -> Aim:
    """Returns the objective in terms of columns, with its hint.

    A hint is a line that predicts the deciding rung from a lower one. It comes from the highest lower rung that
    measures the property: from the prior that the verifier declares, or else from the rung's gate.
    """
    from sciagent.scheduling.aims_and_payoff import Aim
    from sciagent.scheduling.law.rung_hints import Hint

    predicting_columns = columns[:-1]
    deciding_column = columns[-1]
    lower_columns = []
    for column in predicting_columns:
        is_calculated = column.at != KNOWN or not rungs[column.rung].is_fast
        if column.property == objective.property and is_calculated:
            lower_columns.append(column)
    line = None
    hint = None
    if lower_columns:
        line = rungs[lower_columns[-1].rung].rules.lines.get(objective.property)
    if line is not None:
        hint = Hint(
            column=column_index[lower_columns[-1]],
            decides=column_index[deciding_column],
            slope=line.slope,
            intercept=line.intercept,
            residual=line.residual,
        )
    predicting_indices = sorted(column_index[column] for column in predicting_columns)
    all_indices = (*predicting_indices, column_index[deciding_column])
    # without a hint, the lower levels of the property are only assumed to rise with the deciding one
    levels = [] if hint else [*lower_columns, deciding_column]
    # columns of one property rise and fall together
    groups = _columns_by_property(objective, levels, predicting_columns)
    alike = tuple(tuple(sorted(column_index[column] for column in group)) for group in groups)
    passing_ends = _passing_ends(objective, predicting_columns, rungs)
    passes = tuple((column_index[column], end) for column, end in passing_ends)
    low, high = ends_of(objective.accept)
    return Aim(
        columns=all_indices,
        low=low,
        high=high,
        desirability=_desirability(objective),
        weight=objective.weight,
        hint=hint,
        alike=alike,
        passes=passes,
    )


def _columns_by_property(
    objective: Objective, levels: list[ObservedColumn], predicting_columns: Sequence[ObservedColumn]
) -> list[list[ObservedColumn]]:
    """Returns the groups of several columns that measure one property.

    levels: the columns of the objective's own property, which form the first group.
    """
    names = sorted({column.property for column in predicting_columns} - {objective.property})
    groups = [levels]
    for name in names:
        groups.append([column for column in predicting_columns if column.property == name])
    return [group for group in groups if len(group) > 1]


def _passing_ends(
    objective: Objective, predicting_columns: Sequence[ObservedColumn], rungs: Sequence[BuiltRung]
) -> Iterator[tuple[ObservedColumn, int]]:
    """Yields the columns of other properties whose gate has one limit, with 1 if values above it pass, else -1."""
    for column in predicting_columns:
        gate = rungs[column.rung].rules.gate.get(column.property)
        if column.property == objective.property or gate is None:
            continue
        if gate.low is not None and gate.high is None:
            yield column, 1
        if gate.low is None and gate.high is not None:
            yield column, -1


def _measured_properties(rung: BuiltRung) -> list[str]:
    """Returns the names of the properties that the rung measures, each once, in order."""
    return list(dict.fromkeys(measured.property.name for measured in rung.spec.measures))


def _desirability(objective: Objective) -> Callable[[Array], Array]:
    """Returns `Objective.desirability` as a function of an array."""
    if objective.ramp is not None:
        worst, best = objective.ramp

        def share_of_ramp(values: Array) -> Array:
            share: Array = np.clip((values - worst) / (best - worst), 0.0, 1.0)
            return share

        return share_of_ramp
    low, high = ends_of(objective.accept)

    def decay_outside(values: Array) -> Array:
        distance = np.maximum(np.maximum(low - values, values - high), 0.0)  # from the accepted range
        desirability: Array = np.exp(-distance / objective.scale)
        return desirability

    return decay_outside


ROWS_PER_READ = 2000
CENSORING_SIGNS = {Censoring.NONE: 0, Censoring.BELOW: -1, Censoring.ABOVE: 1}  # as in `CandidatePool.write`
SECONDS_BETWEEN_LOOKS = 1.0  # least time between two looks for answers that others have brought
MAX_EARLIER_CANDIDATES = 2000  # most candidates of an earlier campaign that the law learns from
ENDED_STANDINGS = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)
GOING_STANDINGS = (Standing.OPEN, Standing.PENDING)
# standings in which the rung at the candidate's position was started
STARTED_STANDINGS = (*ENDED_STANDINGS, Standing.PENDING)


class LedgerPool(CandidatePool):
    """The candidates of one campaign as a scheduler sees them."""

    GROWING = (*CandidatePool.GROWING, "ids", "by_law", "_counted")  # arrays that get a row for each new candidate

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
        self._reads_answers = schema is not None
        self._columns = () if schema is None else schema.columns
        """The answers to read."""
        self._deciding: set[PaidIndex] = set()  # rungs that decide an objective
        if schema is not None:
            self._deciding = {self._columns[aim.columns[-1]].at for aim in schema.aims.aims}
        self._deciding_columns: dict[str, int] = {}  # by property of an objective
        for aim in () if schema is None else schema.aims.aims:
            self._deciding_columns[self._columns[aim.columns[-1]].property] = aim.columns[-1]
        k = len(paid)
        rung_indices = tuple(column.at for column in self._columns)
        no_scores = np.empty((0, len(self._columns)))
        super().__init__(no_scores, np.empty((0, k), dtype=bool), np.empty((0, k)), rung_indices)

        if schema is not None and built.measured_decides:
            self.experimental = np.empty((0, len(self._columns)))
            self.spared = np.empty((0, k), dtype=bool)
        self.order = np.empty(0, dtype=np.uint64)
        """(n,) order of the candidates for the law, from their keys; it does not depend on when they came."""
        self.ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """(n,) ledger ids of the rows."""
        self.by_law: Mask = np.empty(0, dtype=bool)
        """(n,) whether the worth in the ledger is the law's."""
        self.known: dict[int, PaidIndex] = {}
        """A rung with reusable evidence, by row. All deciding rungs below it have answered."""
        self.declared: dict[str, Array] = {"core_seconds": np.empty((0, k))}
        """(n, k) declared amounts of the jobs, by resource."""
        self.structures = GrowingStructures()
        """Structures of the candidates, for their similarity."""
        self.lots = np.empty(0) if self._reads_answers or built.spec.scheduler.knows_chance else None
        """(n,) lots of the candidates, in [0, 1); NaN if not drawn. None if no rule needs them."""
        self.changed: list[int] = []
        """Rows that were written since the list was last emptied."""
        self._counted: Mask = np.empty((0, k), dtype=bool)  # (n, k) whether `_count_outcome` has counted the rung
        self._changed_ids: set[int] = set()  # ledger ids of candidates to read again
        self._seen_watermark = evidence.read_watermark(connection) if self._reads_answers else 0
        self._looked_at = time.monotonic()  # time of the last look for answers that others have brought
        self._n_earlier = 0
        if learn_from is not None:
            self._add_earlier_candidates(connection, learn_from)
        self._n_earlier = len(self.ids)
        self.refresh(connection)

    @property
    def n_earlier(self) -> int:
        """Number of first rows that are candidates of an earlier campaign."""
        return self._n_earlier

    @property
    def n_arrived(self) -> int:
        """Number of candidates of this campaign."""
        return len(self.ids) - self._n_earlier

    def mark_changed(self, candidate_ids: Iterable[int]) -> None:
        """Marks candidates whose rows in the ledger have changed; the next `refresh` reads them again."""
        self._changed_ids.update(candidate_ids)

    def refresh(self, connection: Connection) -> int:
        """Reads new and changed candidates from the ledger; returns the number of rows read."""
        if self._reads_answers and time.monotonic() - self._looked_at > SECONDS_BETWEEN_LOOKS:
            self._mark_answered_by_others(connection)
        n_read = 0
        while rows := candidate_standings.arrivals(connection, self._built.row.id, self.n_arrived, ROWS_PER_READ):
            self._add_candidates(connection, rows)
            n_read += len(rows)
        changed_ids = sorted(self._changed_ids)
        self._changed_ids = set()
        for start in range(0, len(changed_ids), ROWS_PER_READ):
            rows = candidate_standings.standings_of(
                connection, self._built.row.id, changed_ids[start : start + ROWS_PER_READ]
            )
            self._write_standings(connection, rows)
            n_read += len(rows)
        return n_read

    def _mark_answered_by_others(self, connection: Connection) -> None:
        """Marks candidates for which another campaign, or a person, has brought a paid rung's answer since the last
        look."""
        self._looked_at = time.monotonic()
        watermark = evidence.read_watermark(connection)
        if watermark > self._seen_watermark:
            paid = [self._built.rungs[position].verifier.computation for position in self._paid]
            self.mark_changed(evidence.answered_by_others(connection, self._built.row.id, paid, self._seen_watermark))
            self._seen_watermark = watermark

    def _add_candidates(self, connection: Connection, rows: Sequence[candidate_standings.CandidateStanding]) -> None:
        """Adds new candidates, in order of their sequence numbers."""
        ids = [candidate.candidate_id for candidate in rows]
        self._add_rows(ids)
        if self._reads_answers:
            # a candidate that ended before a paid rung measured it is of no use to the law, so it is not loaded
            needed_ids = []
            for candidate in rows:
                has_ended = candidate.standing in ENDED_STANDINGS
                if not has_ended or candidate.depth >= self._paid[0]:  # depth: position of the last rung that answered
                    needed_ids.append(candidate.candidate_id)
            loaded = candidates.load(connection, needed_ids)
            self._write_structures([loaded.get(id_) for id_ in ids])
            self._write_order(connection, ids, loaded)
        elif self.lots is not None:
            keys = laws_and_audits.candidate_keys(connection, ids)
            first_row = len(self.ids) - len(ids)
            self.lots[first_row:] = lots(self._built.spec.seed, (keys[id_] for id_ in ids))
        self._write_standings(connection, rows)

    def _add_rows(self, ids: Sequence[int]) -> None:
        """Adds empty rows. ids: ledger ids of their candidates."""
        self.add(np.zeros((len(ids), len(self._paid))))
        first_row = len(self.ids) - len(ids)
        self.ids[first_row:] = ids

    def _write_order(self, connection: Connection, ids: Sequence[int], loaded: Mapping[int, Candidate]) -> None:
        """Writes the order of the last added rows. ids: ledger ids of the candidates in the last added rows."""
        keys = {id_: candidate.key for id_, candidate in loaded.items()}
        not_loaded = [id_ for id_ in ids if id_ not in keys]
        if not_loaded:
            keys |= laws_and_audits.candidate_keys(connection, not_loaded)
        assert self.order is not None
        first_row = len(self.ids) - len(ids)
        self.order[first_row:] = order_of(keys[id_] for id_ in ids)

    def _write_structures(self, loaded: Sequence[Candidate | None]) -> None:
        """Writes structures, lots and declared costs of the last added rows. loaded: None for candidates not loaded."""
        k = len(self._paid)
        last = len(self.ids)
        first = last - len(loaded)
        key_of_row = {row: candidate.key for row, candidate in enumerate(loaded, first) if candidate is not None}
        assert self.lots is not None
        self.lots[list(key_of_row)] = lots(self._built.spec.seed, key_of_row.values())
        for resource, amounts in self.declared.items():
            self.declared[resource] = np.vstack([amounts, np.zeros((len(loaded), k))])
        for rung_index, position in enumerate(self._paid):
            verifier = self._built.rungs[position].verifier
            for row, candidate in zip(range(first, last), loaded, strict=True):
                cost = None if candidate is None else cost_or_none(verifier, candidate)
                for resource, amount in (cost or Cost()).items():
                    if resource not in self.declared:
                        self.declared[resource] = np.zeros((last, k))
                    self.declared[resource][row, rung_index] = amount
        subject = self._built.subject
        structures = []
        for candidate in loaded:
            structures.append(subject.structure(subject.notation(candidate)) if candidate else None)
        self.structures.add(structures)

    def _write_standings(self, connection: Connection, rows: Sequence[candidate_standings.CandidateStanding]) -> None:
        """Writes standings and answers of candidates."""
        if not rows:
            return
        row_of_id = {candidate.candidate_id: self._n_earlier + candidate.seq for candidate in rows}
        pool_rows = list(row_of_id.values())
        self.changed += pool_rows
        self.out[pool_rows] = [candidate.standing not in GOING_STANDINGS for candidate in rows]
        self.pending[pool_rows] = [candidate.standing == Standing.PENDING for candidate in rows]
        worths = [(place.chance, place.expected_utility, place.margin, place.p_hit) for place in rows]
        self.worth[pool_rows] = np.array(worths, dtype=float)  # None becomes NaN
        self.by_law[pool_rows] = [candidate.basis is Basis.LAW for candidate in rows]
        first_not_started = []
        for candidate in rows:
            was_started = candidate.standing in STARTED_STANDINGS
            first_not_started.append(candidate.position + 1 if was_started else candidate.position)
        self.closed[pool_rows] = np.array(self._paid) < np.array(first_not_started)[:, None]
        experimental = self._write_experimental_values(connection, row_of_id)
        if self._reads_answers:
            # a candidate that was dropped below the first paid rung gets no purchase, so its answers are not read
            with_answers = []
            for candidate in rows:
                if candidate.standing != Standing.DROPPED or candidate.position >= self._paid[0]:
                    with_answers.append(candidate)
            self._write_paid_answers(connection, with_answers, row_of_id, experimental)
            self._write_fast_answers(connection, [candidate.candidate_id for candidate in with_answers], row_of_id)

    def _write_experimental_values(self, connection: Connection, row_of_id: Mapping[int, int]) -> set[int]:
        """Writes the experimental values that decide objectives, and which rungs they spare. Returns the ledger ids of
        the candidates that have some. row_of_id: rows in the pool, by ledger id."""
        if self.experimental is None or self.spared is None:
            return set()
        values_by_id = experimental_values_of(connection, self._built, list(row_of_id))
        for id_, row in row_of_id.items():
            values = values_by_id.get(id_, NO_VALUES)
            self.experimental[row] = np.nan
            for name, quantity in values.items():
                if name in self._deciding_columns:
                    self.experimental[row, self._deciding_columns[name]] = quantity.value
            self.spared[row] = [is_spared(self._built.rungs[position].rules, values) for position in self._paid]
            self.closed[row, :-1] |= self.spared[row, :-1]
        return set(values_by_id)

    def _write_paid_answers(
        self,
        connection: Connection,
        rows: Sequence[candidate_standings.CandidateStanding],
        row_of_id: dict[int, int],
        experimental: Set[int],
    ) -> None:
        """Writes the answers of paid rungs. row_of_id: rows in the pool, by ledger id. experimental: ledger ids of
        candidates with experimental values that decide, which may have ended without an answer."""
        for row in row_of_id.values():
            self.known.pop(row, None)
        ids = [candidate.candidate_id for candidate in rows]
        undecided_rows: set[int] = set()  # rows without the answer of a deciding rung
        for rung_index, position in zip(self.paid, self._paid, strict=True):
            answers = self._answers(connection, ids, position)
            for candidate in rows:
                row = row_of_id[candidate.candidate_id]
                has_answer = candidate.candidate_id in answers
                answer = answers.get(candidate.candidate_id)  # also None if the rung has answered without a value
                is_at_rung = position == candidate.position
                is_behind = position < candidate.position or (is_at_rung and candidate.standing in ENDED_STANDINGS)
                if is_behind:
                    may_lack_answer = candidate.candidate_id in experimental
                    if has_answer or (is_at_rung and not may_lack_answer):  # a skipped rung does not count
                        self._count_outcome(row, rung_index, has_failed=answer is None)
                    self._write_answer(row, position, answer)
                elif not has_answer:
                    if rung_index in self._deciding:
                        undecided_rows.add(row)
                elif candidate.standing == Standing.OPEN and row not in undecided_rows:
                    # another campaign has the answer; it costs nothing
                    self.known.setdefault(row, rung_index)

    def _write_fast_answers(self, connection: Connection, ids: Sequence[int], row_of_id: dict[int, int]) -> None:
        """Writes the answers of fast rungs. row_of_id: rows in the pool, by ledger id."""
        for position in {column.rung for column in self._columns if column.at == KNOWN}:
            answers = self._answers(connection, ids, position)
            for id_ in ids:
                self._write_answer(row_of_id[id_], position, answers.get(id_))

    def _count_outcome(self, row: int, rung_index: PaidIndex, has_failed: bool) -> None:
        """Counts, once per candidate and rung, that the rung has answered or failed."""
        if not self._counted[row, rung_index]:
            self._counted[row, rung_index] = True
            self.tried[rung_index] += 1
            self.failed[rung_index] += has_failed

    def _add_earlier_candidates(self, connection: Connection, campaign_id: int) -> None:
        """Adds the candidates of an earlier campaign on which one of this campaign's paid rungs has answered."""
        ids = candidate_standings.ids_with_answers(connection, campaign_id, MAX_EARLIER_CANDIDATES)
        positions = {column.rung for column in self._columns}
        paid_positions = {column.rung for column in self._columns if column.at != KNOWN}
        answers_by_rung = {position: self._answers(connection, ids, position) for position in positions}
        answered_ids = []
        for id_ in ids:
            if any(id_ in answers_by_rung[position] for position in paid_positions):
                answered_ids.append(id_)
        loaded = candidates.load(connection, answered_ids)
        self._add_rows(answered_ids)
        self._write_structures([loaded.get(id_) for id_ in answered_ids])
        self._write_order(connection, answered_ids, loaded)
        self.out[:] = True
        for row, id_ in enumerate(answered_ids):
            for position, answers in answers_by_rung.items():
                self._write_answer(row, position, answers.get(id_))

    def _answers(
        self, connection: Connection, ids: Sequence[int], position: Position
    ) -> dict[int, pooled_replicates.PooledValues | None]:
        """Returns the answers of a rung, by candidate id; None for an answer without values."""
        rung = self._built.rungs[position]
        derived = [prop.settings_hash for prop in rung.spec.derived]
        return pooled_replicates.values_of(connection, ids, rung.verifier.computation, derived, rung.fits)

    def _write_answer(self, row: int, position: Position, values: pooled_replicates.PooledValues | None) -> None:
        """Writes a rung's answer for one candidate. values: pooled over all replicates; None: no answer."""
        for column, observed in enumerate(self._columns):
            if observed.rung == position:
                quantity = None if values is None else values.get(observed.property)
                if quantity is None:
                    self.write(row, column, np.nan)
                else:
                    self.write(
                        row, column, quantity.value, quantity.uncertainty or 0.0, CENSORING_SIGNS[quantity.censoring]
                    )
