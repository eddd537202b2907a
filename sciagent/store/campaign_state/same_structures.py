"""Likenesses: candidates of a campaign that relaxed to the structure of another one, or that lie too far above another
one with the same formula. A likeness is never changed.

Every query is served by an index: of the campaign's candidates, or of the formulas of candidates that are no molecules.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.candidate_and_its_names_in_files import identifier_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import candidate_standings, note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.results import evidence
from sciagent.store.results.candidates import names_of

SHOWN_DIGITS = 12  # hexadecimal digits of a key in messages
MAX_NAME = 100  # characters of a name in messages
MAX_FILE_BYTES = 1 << 20
"""Larger files, in bytes, are not compared."""
_A = t.artifact.c
_C = t.candidate.c
_CC = t.campaign_candidate.c
_E = t.current_evidence.c
_L = t.likeness.c


@dataclass(frozen=True)
class Likeness:
    """The finding that a rung relaxed a candidate to the structure of another one, or too far above it."""

    position: Position
    """Position of the rung."""
    of: str
    """The other candidate in words: its text, its name in the campaign's files, the beginning of its key."""
    excess: float | None = None
    """Formation energy above that of the other candidate, eV/atom; None if the two are one structure."""

    @property
    def reason(self) -> Reason:
        """The reason for which the candidate is dropped."""
        return Reason.SAME_STRUCTURE if self.excess is None else Reason.LOWER_POLYMORPH

    @property
    def detail(self) -> str:
        """The reason in words."""
        if self.excess is None:
            return f"relaxed to the same structure as {self.of}"
        return f"lies {self.excess:.3f} eV/atom above {self.of}, which has the same formula"


class RelaxedStructure(NamedTuple):
    """A relaxed structure of a candidate, written by a rung."""

    candidate_id: int
    formula: str
    """Reduced formula of the candidate."""
    evidence_id: int
    sha256: str
    """Hash of the file with the structure."""


class ValueWindow(NamedTuple):
    """Limits between which a value of other evidence has to lie."""

    property_id: int
    level_id: int
    low: float
    """Lower limit, in the property's canonical unit."""
    high: float
    """Upper limit, in the same unit."""


def relaxed_structures(
    connection: Connection,
    campaign_id: int,
    candidate_ids: Sequence[int],
    position: Position,
    computation: Computation,
    media_type: str,
) -> list[RelaxedStructure]:
    """Returns the relaxed structures of the candidates that a rung let go on, in the order of the candidates' arrival.

    Candidates with a likeness are left out: one finding on a candidate suffices, and a person may have waived it.
    """
    has_likeness = sa.exists().where(_L.campaign_id == campaign_id, _L.candidate_id == _C.id)
    query = _structures(campaign_id, position, computation, media_type)
    query = query.where(among(connection, _C.id, candidate_ids), ~has_likeness).order_by(_E.replicate, _E.id, _A.id)
    structure_of: dict[int, RelaxedStructure] = {}
    for row in connection.execute(query):
        structure_of.setdefault(row.candidate_id, RelaxedStructure(*row))  # the first replicate counts
    seq_of = {}
    for standing in candidate_standings.standings_of(connection, campaign_id, list(structure_of)):
        seq_of[standing.candidate_id] = standing.seq
    return sorted(structure_of.values(), key=lambda structure: seq_of[structure.candidate_id])


def similar_structures(
    connection: Connection,
    campaign_id: int,
    structure: RelaxedStructure,
    position: Position,
    computation: Computation,
    media_type: str,
    *,
    windows: Sequence[ValueWindow],
    without: Collection[int],
    most: int,
) -> list[RelaxedStructure]:
    """Returns at most `most` structures of other candidates of the campaign, in the order of their evidence.

    These candidates have the same formula, and the rung at `position` let them go on. Candidates that a person has
    promoted although they are like this candidate are left out.

    windows: limits that the values of their evidence meet. without: ids of further candidates that are left out.
    """
    q = t.quantity.c
    query = _structures(campaign_id, position, computation, media_type)
    query = query.where(t.is_no_molecule, _C.formula == structure.formula, _C.id != structure.candidate_id)
    # the likeness had dropped such a candidate, so it went on only because a person promoted it
    is_like_this = sa.exists().where(
        _L.campaign_id == campaign_id, _L.candidate_id == _C.id, _L.of_id == structure.candidate_id
    )
    query = query.where(~is_like_this)
    if without:
        query = query.where(~among(connection, _C.id, sorted(without)))
    for window in windows:
        is_value = sa.and_(q.property_id == window.property_id, q.level_id == window.level_id)
        is_within = q.value.between(window.low, window.high)
        query = query.where(sa.exists().where(q.evidence_id == _E.id, is_value, is_within))
    return [RelaxedStructure(*row) for row in connection.execute(query.order_by(_E.id, _A.id).limit(most))]


def of_formula_by_energy(
    connection: Connection,
    campaign_id: int,
    structure: RelaxedStructure,
    position: Position,
    computation: Computation,
    media_type: str,
    *,
    window: ValueWindow,
    most: int,
) -> list[tuple[RelaxedStructure, float]]:
    """Returns at most `most` structures of other candidates of the campaign with their energies, lowest first.

    These candidates have the same formula and no likeness, and the rung at `position` let them go on. window: of the
    energy.
    """
    q = t.quantity.c
    has_likeness = sa.exists().where(_L.campaign_id == campaign_id, _L.candidate_id == _C.id)
    is_value = sa.and_(q.property_id == window.property_id, q.level_id == window.level_id)
    query = (
        _structures(campaign_id, position, computation, media_type)
        .add_columns(q.value)
        .join(t.quantity, sa.and_(q.evidence_id == _E.id, is_value))
        .where(t.is_no_molecule, _C.formula == structure.formula, _C.id != structure.candidate_id, ~has_likeness)
        .where(q.value.between(window.low, window.high))
        .order_by(q.value, _E.id, _A.id)
    )
    energy_of: dict[RelaxedStructure, float] = {}
    for row in connection.execute(query.limit(most)):
        energy_of[RelaxedStructure(*row[:-1])] = float(row.value)
    return list(energy_of.items())


def _structures(campaign_id: int, position: Position, computation: Computation, media_type: str) -> sa.Select[Any]:
    """Returns a query for the relaxed structures, written by a rung, of the campaign's candidates that went on.

    A candidate went on if it is beyond the rung, or if it passed the rung and is settled there. A candidate that a
    person has vetoed, or that was dropped after a crash, does not count. The membership is no join, since SQLite would
    then read all candidates of the campaign.
    """
    passed = sa.and_(_CC.position == position, _CC.standing == Standing.SETTLED, _CC.verdict == Verdict.PASS)
    crashed = sa.and_(_CC.standing == Standing.DROPPED, _CC.verdict == Verdict.ERROR)
    went_on = (
        sa.exists()
        .where(_CC.campaign_id == campaign_id, _CC.candidate_id == _C.id)
        .where(sa.or_(_CC.position > position, passed))
        .where(_CC.standing != Standing.VETOED, sa.not_(sa.func.coalesce(crashed, sa.false())))
    )
    return (
        sa.select(_C.id.label("candidate_id"), _C.formula, _E.id, _A.sha256)
        .select_from(t.candidate)
        .join(t.current_evidence, _E.candidate_id == _C.id)
        .join(t.artifact, _A.evidence_id == _E.id)
        .where(went_on, evidence.is_of_computation(computation), _E.reusable == sa.true(), _E.outcome == Outcome.OK)
        .where(_A.media_type == media_type, _A.size <= MAX_FILE_BYTES)
    )


def write(
    connection: Connection,
    campaign_id: int,
    rung_id: int,
    structure: RelaxedStructure,
    of: RelaxedStructure,
    *,
    distance: float | None = None,
    excess: float | None = None,
) -> None:
    """Writes that a candidate relaxed to the structure of another one, or above it.

    distance: of the two structures, in angstrom. excess: of the formation energy, in eV/atom."""
    new = {
        "campaign_id": campaign_id,
        "candidate_id": structure.candidate_id,
        "of_id": of.candidate_id,
        "rung_id": rung_id,
        "evidence_id": structure.evidence_id,
        "of_evidence_id": of.evidence_id,
        "distance": distance,
        "excess": excess,
        "watermark": note_and_take_watermarks.note(connection, campaign_id),
        "at": db_now(connection),
    }
    connection.execute(sa.insert(t.likeness), new)


def likenesses_of(
    connection: Connection, campaign_id: int, candidate_ids: Sequence[int], as_of: int | None = None
) -> dict[int, Likeness]:
    """Returns {candidate id: likeness} for the candidates that have one.

    as_of: a watermark; likenesses that were written since do not count.
    """
    query = (
        sa.select(_L.candidate_id, t.rung.c.position, _L.of_id, _C.text, _C.key, _L.excess)
        .select_from(t.likeness)
        .join(t.rung, t.rung.c.id == _L.rung_id)
        .join(t.candidate, _C.id == _L.of_id)
        .where(_L.campaign_id == campaign_id, among(connection, _L.candidate_id, candidate_ids))
    )
    if as_of is not None:
        query = query.where(_L.watermark < as_of)
    rows = connection.execute(query).all()
    other_ids = [row.of_id for row in rows]
    names = names_of(connection, other_ids, [campaign_id]) if other_ids else {}
    likenesses = {}
    for candidate_id, position, of_id, text, key, excess in rows:
        name = identifier_text(names.get(of_id, {}))[:MAX_NAME]
        in_brackets = f"{name}; {key[:SHOWN_DIGITS]}" if name else key[:SHOWN_DIGITS]
        likenesses[int(candidate_id)] = Likeness(Position(position), f"{text} ({in_brackets})", excess)
    return likenesses
