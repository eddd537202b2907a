"""The law by which rewards value candidates that the terminal rung has not answered.

The law is a model that predicts the answers of rungs. It is a function of the candidates' keys and of the evidence up
to a watermark, a position in the ledger: rows are sorted by key, so that the order in which answers arrived, and the
ids that a database gave, play no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.record_results_and_place import experimental_values_of
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import (
    CENSORING_SIGNS,
    ObservationSchema,
    observation_schema,
)
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.rewards.candidate_states_lots_and_episode_starts import IDS_PER_READ, answers_as_of
from sciagent.scheduling.aims_and_payoff import Aims, Bounds, Errors, data_for_law, expected_answers
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.candidate_indices import expected_payoffs
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.similarity import GrowingStructures, Order, Similarity, order_of, smallest_hashes
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, Stack
from sciagent.store.database import tables as t
from sciagent.store.results import candidates

LEAST_ANSWERS = 8  # answers to every objective below which there is no law; half suffice where a fold is left out
MAX_TEACHING = 1000  # candidates of a kind that teach the law; of more, those with the smallest hash of their key
FOLDS = 5  # parts of the candidates; each is valued by a law that the other parts have taught


@dataclass(frozen=True)
class RewardLaw:
    """A law that values candidates. `state` and `watermark` define it together with the evidence."""

    schema: ObservationSchema
    watermark: int
    state: Mapping[str, Any]
    """Hyper-parameters and transforms, as JSON."""

    @property
    def aims(self) -> Aims:
        """The objectives; for the goal `best`, candidates are valued by utility, also below the record."""
        return graded(self.schema.aims)


@dataclass(frozen=True)
class _Board:
    """Candidates with the answers of the ladder: n rows, sorted by key, and c observed columns."""

    ids: NDArray[np.int64]
    """(n,) ledger ids."""
    order: Order
    """(n,) hashes of the candidates' keys; the remainder by `FOLDS` is a candidate's fold."""
    texts: tuple[str, ...]
    """(n,) notations of the candidates, such as SMILES."""
    scores: Array
    """(n, c) answers; NaN where unknown."""
    errors: Errors
    """(n, c) uncertainties of the answers."""
    bounds: Bounds
    """(n, c) which answers are censored, and on which side."""


@dataclass(frozen=True)
class _SimilarityOfRows:
    """The similarity of some rows of `structures`, which get new row numbers."""

    structures: Similarity
    places: RowIndices
    """(n,) by new row number: the row of `structures`."""

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        return self.structures.between(self.places[rows], self.places[columns])


def graded(aims: Aims) -> Aims:
    """Returns the aims with the goal `best` replaced by `graded`: every candidate counts with its utility."""
    return replace(aims, kind="graded") if aims.kind == "best" else aims


def fit_law(built: Built, connection: Connection, as_of: int) -> RewardLaw | None:
    """Fits a law to the evidence up to a watermark; returns None if the terminal rung has answered for too few."""
    schema = observation_schema(built)
    if schema is None:
        return None
    board = _board(built, connection, schema, _teaching_ids(built, connection, as_of), as_of)
    aims = graded(schema.aims)
    if _n_decided(board.scores, aims) < LEAST_ANSWERS:
        return None
    stack = Stack(_structures(built, [board]))
    truths = aims.truths(board.scores)
    stack.fit(data_for_law(aims, truths, board.scores, board.errors), answers=len(board.ids), order=board.order)
    return RewardLaw(schema, as_of, {"stack": stack.state(), "truths": [truth.state() for truth in truths]})


def restored_law(built: Built, watermark: int, state: Mapping[str, Any]) -> RewardLaw | None:
    """Returns a law that was fitted before; None if no rung of the campaign can teach a law."""
    schema = observation_schema(built)
    return None if schema is None else RewardLaw(schema, watermark, state)


def expectations(
    built: Built,
    connection: Connection,
    law: RewardLaw,
    candidate_ids: Sequence[int],
    as_of: int,
    record: float = 0.0,
    folds: int = FOLDS,
    with_slope_doubt: bool = True,
) -> dict[int, float]:
    """Returns the expected payoff of a terminal verification, by candidate id, in hits or utility.

    record: utility above which a result is worth something, unless hits are counted. folds: parts of the candidates,
    each valued by a law that the others have taught; 1 leaves none out. with_slope_doubt: as in
    `candidate_indices.expected_payoffs`. With one fold and without doubt the payoff is that of the scheduler.

    The law knows the answers up to its own watermark, and of the candidates the answers of lower rungs up to `as_of`.
    An objective that a lower rung has decided is known. No candidate is valued by a law that learnt from its own
    terminal answer, or from the answers of its fold.
    """
    teaching = _board(built, connection, law.schema, _teaching_ids(built, connection, law.watermark), law.watermark)
    asking = _board(built, connection, law.schema, candidate_ids, as_of)
    terminal = PaidIndex(len(law.schema.paid) - 1)
    terminal_columns = [number for number, column in enumerate(law.schema.columns) if column.at == terminal]
    asking.scores[:, terminal_columns] = np.nan  # a candidate is valued without its own terminal answer
    experimental = _experimental_scores(built, connection, law.schema, asking.ids, as_of)
    decided = np.where(np.isnan(experimental), asking.scores, experimental)
    structures = _structures(built, [teaching, asking])
    expected: dict[int, float] = {}
    for fold in range(folds):
        is_taught = teaching.order % folds != fold
        if folds == 1:
            is_taught = ~np.isin(teaching.ids, asking.ids)  # the rest, since those who ask are rows of their own
        taught = np.flatnonzero(is_taught)
        asked = np.flatnonzero(asking.order % folds == fold)
        if not len(asked):
            continue
        scores = np.vstack([teaching.scores[taught], asking.scores[asked]])
        known = np.vstack([teaching.scores[taught], decided[asked]])
        errors = np.vstack([teaching.errors[taught], asking.errors[asked]])
        bounds = np.vstack([teaching.bounds[taught], asking.bounds[asked]])
        places = np.concatenate([taught, len(teaching.ids) + asked])
        similarity = _SimilarityOfRows(structures, places)
        order = np.concatenate([teaching.order[taught], asking.order[asked]])
        asked_rows = np.arange(len(taught), len(scores))
        values = _payoffs(law, scores, known, errors, bounds, order, similarity, asked_rows, record, with_slope_doubt)
        if values is not None:
            expected.update(zip(asking.ids[asked].tolist(), values.tolist(), strict=True))
    return expected


def _payoffs(
    law: RewardLaw,
    scores: Array,
    decided: Array,
    errors: Errors,
    bounds: Bounds,
    order: Order,
    similarity: Similarity | None,
    rows: RowIndices,
    record: float,
    with_slope_doubt: bool,
) -> Array | None:
    """Returns the expected payoffs of some rows, (len(rows),); None if too few others have answers.

    decided: (n, c) the scores, with experimental values in their place where such values decide.
    """
    aims = law.aims
    truths = tuple(TruthTransform.restored(truth) for truth in law.state["truths"])
    if _n_decided(scores, aims) < LEAST_ANSWERS // 2:
        return None

    def fit(known: Array, uncertain: Errors | None) -> list[Law]:
        stack = Stack(similarity)
        stack.restore(law.state["stack"])
        # 0 answers: too few for a new fit, so that the restored hyper-parameters stay
        return stack.fit(data_for_law(aims, truths, known, uncertain), answers=0, order=order)

    known_bounds = bounds if bounds.any() else None
    known, uncertain = expected_answers(scores, errors, known_bounds, aims, truths, fit)
    laws = fit(known, uncertain)
    payoff_of_terminal = aims.payoff(truths, decided, record=record)
    payoff = expected_payoffs(laws, rows, aims, truths, decided, payoff_of_terminal, with_slope_doubt)
    if aims.kind == "hits":
        return payoff
    return payoff * (1.0 - record)  # from a share of what lies above the record to utility


def _experimental_scores(
    built: Built, connection: Connection, schema: ObservationSchema, ids: NDArray[np.int64], as_of: int
) -> Array:
    """Returns (n, c) experimental values that decide objectives at a watermark, in the deciding columns; else NaN."""
    values = np.full((len(ids), len(schema.columns)), np.nan)
    columns = {schema.columns[aim.columns[-1]].property: aim.columns[-1] for aim in schema.aims.aims}
    row_of_id = {int(id_): row for row, id_ in enumerate(ids)}
    for start in range(0, len(ids), IDS_PER_READ):
        ids_read = [int(id_) for id_ in ids[start : start + IDS_PER_READ]]
        for id_, of_candidate in experimental_values_of(connection, built, ids_read, as_of).items():
            for name, quantity in of_candidate.items():
                if name in columns:
                    values[row_of_id[id_], columns[name]] = quantity.value
    return values


def _teaching_ids(built: Built, connection: Connection, as_of: int) -> list[int]:
    """Returns the ids of the candidates that teach a law: members of the campaign by the watermark, with a paid answer.

    At most `MAX_TEACHING` of them have an answer of the terminal rung, and at most as many have none. A candidate that
    no turn proposed, such as one that a person added, is a member since the first decision about it.
    """
    d = t.decision.c
    cc = t.campaign_candidate.c
    u = t.turn.c
    p = t.proposal.c
    e = t.evidence.c
    terminal = built.rungs[built.terminal].verifier.name
    known_of_candidate = (e.candidate_id == cc.candidate_id, e.watermark <= as_of, e.reusable == sa.true())
    by_terminal = sa.exists().where(*known_of_candidate, e.verifier == terminal)
    paid_verifiers = {rung.verifier.name for rung in built.rungs if not rung.is_fast}
    by_paid = sa.exists().where(*known_of_candidate, e.verifier.in_(paid_verifiers))
    about_candidate = (d.campaign_id == cc.campaign_id, d.candidate_id == cc.candidate_id)
    decided_on = sa.exists().where(*about_candidate, d.watermark < as_of)
    is_member = sa.or_(u.watermark < as_of, sa.and_(u.watermark.is_(None), decided_on))
    query = (
        sa.select(t.candidate.c.id, t.candidate.c.key, by_terminal)
        .select_from(
            t.campaign_candidate.join(t.candidate, t.candidate.c.id == cc.candidate_id)
            .outerjoin(t.proposal, p.id == cc.proposal_id)
            .outerjoin(t.turn, u.id == p.turn_id)
        )
        .where(cc.campaign_id == built.row.id, is_member, by_paid)
    )
    rows = connection.execute(query).all()
    with_terminal = [(id_, key) for id_, key, has_terminal in rows if has_terminal]
    without_terminal = [(id_, key) for id_, key, has_terminal in rows if not has_terminal]
    teaching_ids = []
    for ids_and_keys in (with_terminal, without_terminal):
        order = order_of(key for _, key in ids_and_keys)
        for place in smallest_hashes(order, MAX_TEACHING):
            id_, _ = ids_and_keys[place]
            teaching_ids.append(int(id_))
    return teaching_ids


def _board(
    built: Built, connection: Connection, schema: ObservationSchema, candidate_ids: Sequence[int], as_of: int
) -> _Board:
    """Reads candidates and their answers up to a watermark."""
    loaded: dict[int, Candidate] = {}
    for start in range(0, len(candidate_ids), IDS_PER_READ):
        loaded |= candidates.load(connection, candidate_ids[start : start + IDS_PER_READ])
    ids = sorted(loaded, key=lambda id_: loaded[id_].key)
    shape = len(ids), len(schema.columns)
    scores = np.full(shape, np.nan)
    errors = np.zeros(shape, np.float32)
    bounds = np.zeros(shape, np.int8)
    column_index = {(column.rung, column.property): number for number, column in enumerate(schema.columns)}
    for start in range(0, len(ids), IDS_PER_READ):
        ids_read = ids[start : start + IDS_PER_READ]
        answers = answers_as_of(built, connection, ids_read, as_of)
        for row, id_ in enumerate(ids_read, start):
            for answer in answers[id_]:
                for measured in answer.measured:
                    column = column_index.get((answer.position, measured.property))
                    if column is None:
                        continue
                    quantity = measured.quantity
                    scores[row, column] = quantity.value
                    errors[row, column] = quantity.uncertainty or 0.0
                    bounds[row, column] = CENSORING_SIGNS[quantity.censoring]
    order = order_of(loaded[id_].key for id_ in ids)  # hashes
    texts = tuple(built.subject.notation(loaded[id_]) for id_ in ids)
    return _Board(np.array(ids, dtype=np.int64), order, texts, scores, errors, bounds)


def _n_decided(scores: Array, aims: Aims) -> int:
    """Returns the number of candidates with an answer to every objective. scores: (n, c), NaN where unknown."""
    deciding_columns = [aim.columns[-1] for aim in aims.aims]
    has_answers = ~np.isnan(scores[:, deciding_columns])
    return int(has_answers.all(axis=1).sum())


def _structures(built: Built, boards: Sequence[_Board]) -> GrowingStructures:
    """Returns the structures of all rows of the boards, in their order."""
    structures = GrowingStructures()
    all_texts = set[str]()
    for board in boards:
        all_texts.update(board.texts)
    structure_of_text = {text: built.subject.structure(text) for text in all_texts}
    for board in boards:
        structures.add([structure_of_text[text] for text in board.texts])
    return structures
