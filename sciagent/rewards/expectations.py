"""The law by which rewards value candidates that the terminal rung has not answered.

The law is a function of the evidence up to a watermark and of the candidates' keys: rows are sorted by key, so that the
order in which answers arrived, and the ids that a database gave, play no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.ledger_pool import BOUNDS, ObservationSchema, observation_schema
from sciagent.domain.candidates import Candidate
from sciagent.domain.ladder import PaidIndex
from sciagent.rewards.states import CHUNK, answers_as_of
from sciagent.scheduling.aims import Aims, Bounds, Errors, expected_answers, questions
from sciagent.scheduling.arrays import Array, RowIndices
from sciagent.scheduling.dynamic_programme import FLOOR
from sciagent.scheduling.law.similarity import GrowingStructures, Order, Similarity, earliest, order_of
from sciagent.scheduling.law.stack import Law, Stack, mixture
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.store.database import tables as t
from sciagent.store.results import candidates

FEWEST = 8  # answers to every objective below which there is no law
MOST = 1000  # candidates of a kind that teach the law; of more, those with the smallest hash of their key
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
        """The objectives; a goal of the best ones is valued by utility, not by what is better than the record."""
        return graded(self.schema.aims)


@dataclass(frozen=True)
class _Board:
    """Candidates, and what the ladder said of them: n rows, sorted by key, and c observed columns."""

    ids: NDArray[np.int64]
    """(n,) ledger ids."""
    order: Order
    """(n,) hashes of the candidates' keys; the remainder by `FOLDS` is a candidate's fold."""
    texts: tuple[str, ...]
    scores: Array
    """(n, c) NaN where unknown."""
    errors: Errors
    bounds: Bounds


@dataclass(frozen=True)
class _Chosen:
    """The similarity of chosen rows."""

    structures: Similarity
    places: RowIndices
    """(n,) rows of `structures`."""

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        return self.structures.between(self.places[rows], self.places[columns])


def graded(aims: Aims) -> Aims:
    return replace(aims, kind="graded") if aims.kind == "best" else aims


def fit_law(built: Built, connection: Connection, as_of: int) -> RewardLaw | None:
    """Fits a law to the evidence up to a watermark; returns None if the terminal rung has answered for too few."""
    schema = observation_schema(built)
    if schema is None:
        return None
    board = _board(built, connection, schema, _taught(built, connection, as_of), as_of)
    aims = graded(schema.aims)
    if _decided(board, aims) < FEWEST:
        return None
    stack = Stack(_structures(built, [board]))
    truths = aims.truths(board.scores)
    stack.fit(questions(aims, truths, board.scores, board.errors), len(board.ids), board.order)
    return RewardLaw(schema, as_of, {"stack": stack.state(), "truths": [truth.state() for truth in truths]})


def restored_law(built: Built, watermark: int, state: Mapping[str, Any]) -> RewardLaw | None:
    """Returns a law that was fitted before; None if no rung of the campaign can teach one."""
    schema = observation_schema(built)
    return None if schema is None else RewardLaw(schema, watermark, state)


def expectations(
    built: Built, connection: Connection, law: RewardLaw, candidate_ids: Sequence[int], as_of: int, record: float = 0.0
) -> dict[int, float]:
    """Returns the expected payoff of a terminal verification, by candidate id, in hits or utility.

    record: utility above which a result is worth something, unless hits are counted.

    The law knows the answers up to its own watermark; of the candidates it is told what lower rungs said up to `as_of`.
    An objective that a lower rung has decided is known. No candidate is valued by a law that its own terminal answer,
    or those of its fold, have taught.
    """
    teaching = _board(built, connection, law.schema, _taught(built, connection, law.watermark), law.watermark)
    asking = _board(built, connection, law.schema, candidate_ids, as_of)
    terminal = PaidIndex(len(law.schema.paid) - 1)
    asking.scores[:, [number for number, column in enumerate(law.schema.columns) if column.at == terminal]] = np.nan
    structures = _structures(built, [teaching, asking])
    expected: dict[int, float] = {}
    for fold in range(FOLDS):
        taught = np.flatnonzero(teaching.order % FOLDS != fold)
        asked = np.flatnonzero(asking.order % FOLDS == fold)
        if not len(asked):
            continue
        scores = np.vstack([teaching.scores[taught], asking.scores[asked]])
        errors = np.vstack([teaching.errors[taught], asking.errors[asked]])
        bounds = np.vstack([teaching.bounds[taught], asking.bounds[asked]])
        places = np.concatenate([taught, len(teaching.ids) + asked])
        chosen = None if structures is None else _Chosen(structures, places)
        order = np.concatenate([teaching.order[taught], asking.order[asked]])
        values = _payoffs(law, scores, errors, bounds, order, chosen, np.arange(len(taught), len(scores)), record)
        if values is not None:
            expected |= dict(zip(asking.ids[asked].tolist(), values.tolist(), strict=True))
    return expected


def _payoffs(
    law: RewardLaw,
    scores: Array,
    errors: Errors,
    bounds: Bounds,
    order: Order,
    similarity: Similarity | None,
    rows: RowIndices,
    record: float,
) -> Array | None:
    """Returns the expected payoffs of some rows, (len(rows),); None if too few others have answers."""
    aims = law.aims
    truths = tuple(TruthTransform.restored(truth) for truth in law.state["truths"])
    if int((~np.isnan(scores[:, [aim.columns[-1] for aim in aims.aims]])).all(axis=1).sum()) < FEWEST // 2:
        return None

    def fit(known: Array, uncertain: Errors | None) -> list[Law]:
        stack = Stack(similarity)
        stack.restore(law.state["stack"])
        return stack.fit(questions(aims, truths, known, uncertain), 0, order)

    laws = fit(*expected_answers(scores, errors, bounds if bounds.any() else None, aims, truths, fit))
    means, variances = np.empty((2, len(truths), len(rows)))
    for number in range(len(truths)):
        means[number], spread, _ = mixture(laws, number, rows)
        variances[number] = spread**2
        answers = scores[rows, aims.aims[number].columns[-1]]
        decided = ~np.isnan(answers)
        means[number, decided] = truths[number](answers[decided])
        variances[number, decided] = FLOOR
    share = aims.payoff(truths, scores, record).expected(means, variances)  # of what lies above the record
    return share if aims.kind == "hits" else share * (1.0 - record)


def _taught(built: Built, connection: Connection, as_of: int) -> list[int]:
    """Returns the ids of the candidates that teach a law: members of the campaign by then, with a paid answer; at most
    `MOST` with an answer of the terminal rung, and as many others.

    A candidate that no turn proposed, as one that a person added, is a member since the first decision about it.
    """
    d = t.decision.c
    cc = t.campaign_candidate.c
    u = t.turn.c
    p = t.proposal.c
    e = t.evidence.c
    terminal = built.rungs[built.terminal].verifier.name
    known = e.candidate_id == cc.candidate_id, e.watermark <= as_of, e.reusable == sa.true()
    by_terminal = sa.exists().where(*known, e.verifier == terminal)
    by_paid = sa.exists().where(
        *known, e.verifier.in_({rung.verifier.name for rung in built.rungs if not rung.is_fast})
    )
    about = d.campaign_id == cc.campaign_id, d.candidate_id == cc.candidate_id
    decided_on = sa.exists().where(*about, d.watermark < as_of)
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
    kinds = [row for row in rows if row[2]], [row for row in rows if not row[2]]
    taught = []
    for kind in kinds:
        for place in earliest(order_of(row[1] for row in kind), MOST):
            taught.append(int(kind[place][0]))
    return taught


def _board(
    built: Built, connection: Connection, schema: ObservationSchema, candidate_ids: Sequence[int], as_of: int
) -> _Board:
    loaded: dict[int, Candidate] = {}
    for start in range(0, len(candidate_ids), CHUNK):
        loaded |= candidates.load(connection, candidate_ids[start : start + CHUNK])
    ids = sorted(loaded, key=lambda id_: loaded[id_].key)
    shape = len(ids), len(schema.columns)
    scores = np.full(shape, np.nan)
    errors = np.zeros(shape, np.float32)
    bounds = np.zeros(shape, np.int8)
    place = {(column.rung, column.property): number for number, column in enumerate(schema.columns)}
    for start in range(0, len(ids), CHUNK):
        answers = answers_as_of(built, connection, ids[start : start + CHUNK], as_of)
        for row, id_ in enumerate(ids[start : start + CHUNK], start):
            for answer in answers[id_]:
                for measured in answer.measured:
                    if (column := place.get((answer.position, measured.property))) is not None:
                        quantity = measured.quantity
                        scores[row, column] = quantity.value
                        errors[row, column] = quantity.uncertainty or 0.0
                        bounds[row, column] = BOUNDS[quantity.censoring]
    order = order_of(loaded[id_].key for id_ in ids)
    texts = tuple(built.subject.notation(loaded[id_]) for id_ in ids)
    return _Board(np.array(ids, dtype=np.int64), order, texts, scores, errors, bounds)


def _decided(board: _Board, aims: Aims) -> int:
    """Returns the number of candidates with an answer to every objective."""
    return int((~np.isnan(board.scores[:, [aim.columns[-1] for aim in aims.aims]])).all(axis=1).sum())


def _structures(built: Built, boards: Sequence[_Board]) -> GrowingStructures:
    """Returns the structures of all rows of the boards, in their order."""
    structures = GrowingStructures()
    known = {text: built.subject.structure(text) for text in {text for board in boards for text in board.texts}}
    for board in boards:
        structures.add([known[text] for text in board.texts])
    return structures
