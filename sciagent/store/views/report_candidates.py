"""Single candidates of a report: the best, their answers with provenance, lineage, imported values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import SameCompound
from sciagent.domain.candidate_and_its_names_in_files import Names, identifier_text
from sciagent.domain.display_units import Units, as_imported, beside_limits, in_chosen_unit
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, pooled_measured, pooled_quantity
from sciagent.domain.objectives import Window, decisive
from sciagent.domain.properties_and_levels import comparable_phase, phase_named, properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.rung_calibration_on_measurements import Fits, calibrated
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import Worth
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.results import pooled_replicates as pooled
from sciagent.store.results.candidates import names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER, is_of_computation, measured_of, register_ledger_properties

_CC = t.campaign_candidate.c
_CE = t.current_evidence.c
MAX_GENERATIONS = 4  # generations of a lineage that are shown
MAX_PARENTS = 8  # ancestors of one generation that are shown
MAX_SAME_COMPOUND = 3  # hits of the compound of a candidate that are named
MAX_FILES = 20  # artifacts of one piece of evidence that are listed


class RankedCandidate(NamedTuple):
    """A candidate of the campaign, with columns of the tables candidate and campaign_candidate."""

    id: int
    key: str
    kind: str
    text: str
    inchikey: str | None
    formula: str
    charge: int
    multiplicity: int
    payload: Mapping[str, Any]
    seq: int
    standing: str
    position: int
    depth: int
    """Position of the highest rung that has answered in the campaign; -1 without one."""
    verdict: str | None
    reason: str | None
    detail: str | None
    utility: float | None
    p_hit: float | None
    chance: int | None
    expected_utility: float | None
    margin: float | None
    basis: str | None
    hit: bool
    in_seeds: bool
    proposal_id: int | None
    """The proposal that first brought the candidate to the campaign."""
    names: Names = {}
    """Texts of the input files, by field."""

    @property
    def worth(self) -> Worth | None:
        """Its worth; None before a paid rung has answered."""
        return Worth.from_columns(self._asdict())

    @property
    def worth_words(self) -> str | None:
        """Its worth in words."""
        return None if self.worth is None else str(self.worth)

    @property
    def name(self) -> str:
        """Its identifier in the input files; empty without one."""
        return identifier_text(self.names)

    @property
    def label(self) -> str:
        """The structure with its name, if it has one."""
        return f"{self.text} ({self.name})" if self.names else self.text

    @property
    def drawn_from(self) -> str:
        """Its notation, from which it is drawn."""
        return subject_of(self.kind).notation_of(self.text, self.payload)


_N_CANDIDATE_FIELDS = RankedCandidate._fields.index("seq")
# the fields before `seq` are columns of the table candidate; those from `seq` on are columns of campaign_candidate,
# where `hit` is called `is_hit`; `names`, the last field, is read by another query
_OWN_FIELDS = RankedCandidate._fields[:_N_CANDIDATE_FIELDS]
_CAMPAIGN_FIELDS = RankedCandidate._fields[_N_CANDIDATE_FIELDS:-1]
_CANDIDATES = sa.select(
    *(t.candidate.c[name] for name in _OWN_FIELDS),
    *(_CC["is_hit" if name == "hit" else name] for name in _CAMPAIGN_FIELDS),
).join(t.candidate, t.candidate.c.id == _CC.candidate_id)


class EvidenceAnswer(NamedTuple):
    """The answer of one rung on a candidate, with its origin."""

    rung: str
    """Label of the rung; empty for imported values."""
    evidence_id: int
    key: str
    candidate_id: int
    verifier: str
    version: str
    outcome: str
    reason: str | None
    detail: str | None
    replicate: int
    revision: int
    source: str
    who: str
    why: str | None
    """Reason of the revision; None for a first one."""
    at: datetime
    versions: Mapping[str, str]
    attempt_id: int | None
    wall_seconds: float | None
    watermark: int
    cost: Mapping[str, float]
    """Its share of the cost of the attempt, by resource."""
    campaign: str | None
    """The campaign that paid; None for `verify` and files."""
    measured: tuple[Measured, ...]
    files: tuple[tuple[str, str, int, str], ...]
    """(name, sha256, size in bytes, media type) of its artifacts."""


MeasuredAt = tuple[EvidenceAnswer, Measured]
"""A value with the answer that has it."""


class Origin(NamedTuple):
    """The origin of a candidate: its proposal and its ancestors."""

    proposer: str | None
    trajectory: int | None
    turn: int | None
    operation: str | None
    rationale: str | None
    predicted: Mapping[str, Any] | None
    at: datetime | None
    detail: str | None
    """The way from the proposed text to the candidate, such as its protonation."""
    parents: tuple[tuple[tuple[str, str, str], ...], ...]
    """(operation, key, text) of the ancestors, a tuple for each generation, nearest first."""


def best_candidates(connection: Connection, row: CampaignRow, n: int, vetoed: bool = True) -> list[RankedCandidate]:
    """The n best candidates. vetoed: whether to include vetoed ones."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id).order_by(*t.BEST_FIRST).limit(n)
    query = query if vetoed else query.where(_CC.standing != Standing.VETOED)
    return _ranked(connection, row, query)


def ids_best_first(
    connection: Connection, row: CampaignRow, hits: bool = False, skip: int = 0, n: int | None = None
) -> list[int]:
    """Ids of candidates, the best first.

    hits: whether to return only hits. skip: number of the best candidates that are left out. n: largest number of ids;
    None: no limit.
    """
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == row.id).order_by(*t.BEST_FIRST)
    query = query.where(_CC.is_hit) if hits else query
    return list(connection.execute(query.offset(skip).limit(n)).scalars())


def candidates_in_order(connection: Connection, row: CampaignRow, after: int, n: int) -> list[RankedCandidate]:
    """The next n candidates in order of arrival, with a sequence number above `after`."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id, _CC.seq > after).order_by(_CC.seq).limit(n)
    return _ranked(connection, row, query)


def hits_best_first(connection: Connection, row: CampaignRow, skip: int, n: int) -> list[RankedCandidate]:
    """The next n hits after the best `skip` of them, the best first."""
    ids = ids_best_first(connection, row, hits=True, skip=skip, n=n)
    members = campaign_members(connection, row, ids)
    return [members[id_] for id_ in ids]


def candidate_pages(
    connection: Connection, row: CampaignRow, n: int, hits: bool = False, last: int = -1
) -> Iterator[list[RankedCandidate]]:
    """Yields n candidates at a time: all of them in order of arrival, or the hits, the best first.

    last: sequence number after which to start, unless hits are wanted.
    """
    if hits:
        ids = ids_best_first(connection, row, hits=True)
        for start in range(0, len(ids), n):
            page_ids = ids[start : start + n]
            members = campaign_members(connection, row, page_ids)
            yield [members[id_] for id_ in page_ids]
        return
    while page := candidates_in_order(connection, row, last, n):
        yield page
        last = page[-1].seq


def campaign_members(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, RankedCandidate]:
    """{id: candidate} of the candidates that belong to the campaign."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id, among(connection, _CC.candidate_id, ids))
    return {candidate.id: candidate for candidate in _ranked(connection, row, query)}


_OWN = t.candidate.alias("own")
_OTHER = t.candidate.alias("other")
_SAME_COMPOUND = _OWN.join(_OTHER, sa.and_(_OTHER.c.inchikey == _OWN.c.inchikey, _OTHER.c.id != _OWN.c.id))
"""Pairs of candidates of the ledger with one standard InChIKey."""

MAY_BE_HITS = (Standing.OPEN, Standing.PENDING, Standing.HELD)
"""The standings of candidates that may still become hits."""


def hits_of_same_compound(
    connection: Connection, row: CampaignRow, candidates: Sequence[RankedCandidate]
) -> dict[int, tuple[SameCompound, ...]]:
    """{candidate id: the first other hits of the campaign with its standard InChIKey}, for hits and open candidates.

    Candidates without such hits are left out.
    """
    asked = [each.id for each in candidates if each.inchikey and (each.hit or each.standing in MAY_BE_HITS)]
    if not asked:
        return {}
    is_of_campaign = sa.and_(_CC.candidate_id == _OTHER.c.id, _CC.campaign_id == row.id)
    other_columns = (_OTHER.c[name] for name in ("id", "key", "kind", "text", "multiplicity"))
    query = (
        sa.select(_OWN.c.id, _OWN.c.multiplicity, *other_columns)
        .select_from(_SAME_COMPOUND)
        .join(t.campaign_candidate, is_of_campaign)
        .where(among(connection, _OWN.c.id, asked), _CC.is_hit == sa.true())
        .order_by(_CC.seq)
    )
    pairs = connection.execute(query).all()
    names = names_of(connection, [other_id for _, _, other_id, *_ in pairs], [row.id])
    found: dict[int, tuple[SameCompound, ...]] = {}
    for id_, multiplicity, other_id, key, kind, text, other_multiplicity in pairs:
        named = SameCompound(
            key=key,
            kind=kind,
            text=text,
            names=names.get(other_id, {}),
            relation="tautomer" if multiplicity == other_multiplicity else "spin state",
        )
        found[id_] = (*found.get(id_, ()), named)[:MAX_SAME_COMPOUND]
    return found


def imported_for_same_compound(
    connection: Connection, candidates: Sequence[RankedCandidate]
) -> dict[int, list[tuple[str, list[EvidenceAnswer]]]]:
    """{id of a hit: [(notation, imported values)]} of the other candidates of the ledger with its standard InChIKey and
    its spin multiplicity."""
    asked = [each.id for each in candidates if each.inchikey and each.hit]
    if not asked:
        return {}
    # a literal, so that SQLite uses the index of imports
    is_imported = sa.and_(
        t.evidence.c.candidate_id == _OTHER.c.id, t.evidence.c.verifier == sa.literal_column("'import'")
    )
    query = (
        sa.select(_OWN.c.id, _OTHER.c.id, _OTHER.c.text)
        .select_from(_SAME_COMPOUND)
        .where(among(connection, _OWN.c.id, asked), _OTHER.c.multiplicity == _OWN.c.multiplicity)
        .where(sa.exists().where(is_imported))
        .order_by(_OTHER.c.id)
    )
    pairs = connection.execute(query).all()
    if not pairs:
        return {}
    answers = imported_answers(connection, [other_id for _, other_id, _ in pairs])
    found: dict[int, list[tuple[str, list[EvidenceAnswer]]]] = {}
    for id_, other_id, text in pairs:
        of_candidate = found.setdefault(id_, [])
        of_candidate.append((text, answers.get(other_id, [])))
    return found


def _ranked(connection: Connection, row: CampaignRow, query: sa.Select[Any]) -> list[RankedCandidate]:
    """Returns the selected candidates with their names."""
    ranked = [RankedCandidate(*candidate) for candidate in connection.execute(query)]
    names = names_of(connection, [candidate.id for candidate in ranked], [row.id])
    return [candidate._replace(names=names.get(candidate.id, {})) for candidate in ranked]


IS_WHOLE = sa.or_(_CE.reusable, ~_CE.source.startswith("task "))
"""Whether evidence is no answer of a person that leaves a quantity open."""


def rung_answers(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], ids: Sequence[int]
) -> dict[int, list[EvidenceAnswer]]:
    """{candidate id: current evidence from the rungs of `ladder`, in their order}. Its values are in the units of the
    campaign. An answer of a person that leaves a quantity open is left out: no verdict follows from it."""
    is_of_ladder = sa.or_(sa.false(), *(is_of_rung(rung) for rung in ladder))
    evidence_of_rungs = _evidence(connection, ids, is_of_ladder, IS_WHOLE)
    rows = []
    for rung in ladder:
        for evidence in evidence_of_rungs:
            if (evidence.verifier, evidence.verifier_version, evidence.settings_hash) in rung.computations:
                rows.append((rung.name, evidence))
    return _answers(connection, rows, lambda measured: in_chosen_unit(measured, row.units))


def imported_answers(
    connection: Connection, ids: Sequence[int], units: Units | None = None
) -> dict[int, list[EvidenceAnswer]]:
    """Current imported values of these candidates, whichever person imported them.

    units: units of a campaign; None: each value is in the unit that it came with.
    """
    rows = [("", row) for row in _evidence(connection, ids, _CE.verifier == IMPORT_VERIFIER)]  # they have no rung
    if rows:
        register_ledger_properties(connection)  # a value may be of a property that a function of a notebook defines
    if units is None:
        return _answers(connection, rows, as_imported)
    return _answers(connection, rows, lambda measured: in_chosen_unit(measured, units))


def pooled_by_rung(
    answers: Iterable[EvidenceAnswer],
    fits: Mapping[str, Fits],
    limits: Mapping[str, tuple[float, ...]],
    charge: int | None = None,
) -> list[EvidenceAnswer]:
    """One answer per rung, with the values of its replicates pooled and calibrated.

    answers: of one candidate, in ladder order. fits: calibrations by label of the rung, from `calibrations_by_rung`.
    limits: of the campaign, by property; the texts of the values tell them from these. charge: of the candidate.
    """
    pooled_answers = []
    for rung, grouped_answers in groupby(answers, key=lambda answer: answer.rung):
        replicates = list(grouped_answers)
        pooled_values = pooled_measured(replicate.measured for replicate in replicates)
        values = calibrated(pooled_values, fits.get(rung, {}), charge)
        measured = tuple(beside_limits(value, limits) for value in values)
        pooled_answers.append(replicates[0]._replace(measured=measured))
    return pooled_answers


MEASURED_LABEL = "measured"  # in place of the label of a rung, of an experimental value that decides


def with_deciding_measurements(
    row: CampaignRow, ladder: Sequence[RungRow], highest: Mapping[str, MeasuredAt], imported: Sequence[EvidenceAnswer]
) -> dict[str, MeasuredAt]:
    """Returns the values of a candidate by property, with the experimental ones in place of those of rungs where they
    decide an objective. Without `measured: decide` in the campaign file, the values are unchanged.

    highest: the value at the highest rung, by property. imported: the candidate's imported values, in any unit.
    """
    values = dict(highest)
    for name, (answer, measured) in deciding_measurements(row, ladder, imported).items():
        values[name] = (answer._replace(rung=MEASURED_LABEL), measured)
    return values


def deciding_measurements(
    row: CampaignRow, ladder: Sequence[RungRow], imported: Sequence[EvidenceAnswer]
) -> dict[str, MeasuredAt]:
    """Returns the experimental values that decide objectives of the campaign, by property, in its units; empty without
    `measured: decide` in the campaign file. imported: the candidate's imported values, in any unit."""
    return experimental_values(row, ladder, imported) if row.spec.get("measured") == "decide" else {}


def deciding_phases(ladder: Sequence[RungRow]) -> dict[str, str]:
    """Returns the phase of the values that decide an objective, by property, as the ledger holds it."""
    phases: dict[str, str] = {}
    for rung in ladder:
        phases.update(rung.decides)
    return phases


def experimental_values(
    row: CampaignRow, ladder: Sequence[RungRow], imported: Sequence[EvidenceAnswer]
) -> dict[str, MeasuredAt]:
    """Returns the experimental values of the objectives' properties, by property, in the units of the campaign; several
    of one property are pooled. A value in another phase than that of the deciding rung is left out, and so is a bound
    that could lie on either side of a limit.

    imported: the candidate's imported values, in any unit.
    """
    limits = {}
    for objective in row.spec.get("objectives", ()):
        limits[objective["property"]] = Window(*objective["accept"]) if objective["accept"] else None
    by_name: dict[str, dict[str, list[MeasuredAt]]] = {}  # by property, then by phase
    for answer in imported:
        for measured in answer.measured:
            if measured.property in limits and measured.level.is_experiment:
                by_phase = by_name.setdefault(measured.property, {})
                by_phase.setdefault(phase_named(measured.level.phase), []).append((answer, measured))
    phases = deciding_phases(ladder)
    origins: dict[str, MeasuredAt] = {}
    pooled_values: dict[str, Quantity] = {}
    for name, by_phase in by_name.items():
        phase = comparable_phase(by_phase, phases.get(name, ""))
        if phase is not None:
            replicates = by_phase[phase]
            origins[name] = replicates[0]
            prop = properties()[name]
            quantity = pooled_quantity([to_canonical(measured.quantity, prop) for _, measured in replicates])
            if quantity is not None:
                pooled_values[name] = quantity
    values = {}
    for name, quantity in decisive(limits, pooled_values).items():
        answer, first = origins[name]
        measured = in_chosen_unit(replace(first, quantity=quantity), row.units)
        values[name] = (answer, beside_limits(measured, row.limits))
    return values


def calibrations_by_rung(ladder: Sequence[RungRow]) -> dict[str, Fits]:
    """Calibrations of a campaign, by label of the rung."""
    return {rung.name: rung.fits for rung in ladder if rung.fits}


def is_of_rung(rung: RungRow) -> sa.ColumnElement[bool]:
    """A condition that selects the current evidence of this rung, and of the properties derived after it."""
    return is_of_computation(rung.computation, rung.derived.values())


def rung_values(connection: Connection, ids: Sequence[int], rung: RungRow) -> dict[int, pooled.PooledValues | None]:
    """Values that a rung gave these candidates, replicates pooled, with its derived properties and calibrations."""
    return pooled.values_of(connection, ids, rung.computation, rung.derived.values(), rung.fits)


def _evidence(connection: Connection, ids: Sequence[int], *conditions: sa.ColumnElement[bool]) -> Sequence[Any]:
    """Rows of current evidence with the cost of its attempt, the campaign that paid, and the hash of its settings.

    The columns before the cost are the fields of `EvidenceAnswer` from `evidence_id` to `watermark`.
    """
    a = t.attempt.c
    about = (_CE.id, _CE.key, _CE.candidate_id, _CE.verifier, _CE.verifier_version, _CE.outcome, _CE.reason, _CE.detail)
    record = (_CE.replicate, _CE.revision, _CE.source, _CE.who, _CE.why, _CE.at, _CE.versions, _CE.attempt_id)
    paid = (a.cost, a.n_candidates, t.campaign.c.name)
    query = (
        sa.select(*about, *record, a.wall_seconds, _CE.watermark, *paid, _CE.settings_hash)
        .outerjoin(t.attempt, a.id == _CE.attempt_id)
        .outerjoin(t.campaign, t.campaign.c.id == a.campaign_id)
        .where(among(connection, _CE.candidate_id, ids), *conditions)
        .order_by(_CE.replicate, _CE.id)
    )
    return connection.execute(query).all()


def _answers(
    connection: Connection, rows: Sequence[tuple[str, Any]], shown_as: Callable[[Measured], Measured]
) -> dict[int, list[EvidenceAnswer]]:
    """{candidate id: answers}, in the order of the rows.

    rows: (label of the rung, row of `_evidence`). shown_as: converts a value to the unit in which it is shown.
    """
    if not rows:
        return {}
    ids = [row.id for _, row in rows]
    values_by_id = measured_of(connection, ids)
    files_by_id = _files(connection, ids)
    by_candidate: dict[int, list[EvidenceAnswer]] = {}
    for rung, row in rows:
        measured = tuple(shown_as(value) for value in values_by_id.get(row.id, ()))
        files = tuple(files_by_id.get(row.id, ())[:MAX_FILES])
        *evidence_columns, attempt_cost, n_candidates, campaign, _settings_hash = row
        cost = {}
        if attempt_cost:
            n_sharing = max(n_candidates, 1)  # candidates that share the cost of the attempt
            cost = {resource: amount / n_sharing for resource, amount in attempt_cost.items()}
        answer = EvidenceAnswer._make([rung, *evidence_columns, cost, campaign, measured, files])
        by_candidate.setdefault(row.candidate_id, []).append(answer)
    return by_candidate


def _files(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, list[tuple[str, str, int, str]]]:
    a = t.artifact.c
    by_evidence = dict[int, list[tuple[str, str, int, str]]]()
    query = sa.select(a.evidence_id, a.name, a.sha256, a.size, a.media_type)
    for id_, *file in connection.execute(query.where(among(connection, a.evidence_id, evidence_ids)).order_by(a.id)):
        by_evidence.setdefault(id_, []).append(tuple(file))
    return by_evidence


def origin_of(connection: Connection, candidate: RankedCandidate) -> Origin:
    """The proposer, the reason and the time of the proposal, and the ancestors of the candidate."""
    p = t.proposal.c
    u = t.turn.c
    trajectory = t.trajectory.c
    episode = (trajectory.proposer, trajectory.number, u.number)
    query = (
        sa.select(*episode, p.operation, p.rationale, p.predicted, p.at, p.detail)
        .select_from(t.proposal)
        .outerjoin(t.turn, u.id == p.turn_id)
        .outerjoin(t.trajectory, trajectory.id == u.trajectory_id)
        .where(p.id == candidate.proposal_id)
    )
    n_proposal_fields = len(Origin._fields) - 1  # all but `parents`
    proposal = connection.execute(query).one_or_none() or (None,) * n_proposal_fields
    return Origin._make([*proposal, _ancestors(connection, candidate)])


def _ancestors(connection: Connection, candidate: RankedCandidate) -> tuple[tuple[tuple[str, str, str], ...], ...]:
    """Ancestors by generation: first the parents that the candidate's proposal to this campaign names; then the
    parents of each generation that any proposal names."""
    cp = t.candidate_parent.c
    c = t.candidate.c
    generations = []
    ids = [candidate.id]
    known_ids = {candidate.id}
    for generation in range(MAX_GENERATIONS):
        query = (
            sa.select(cp.operation, c.id, c.key, c.text)
            .select_from(t.candidate_parent)
            .join(t.candidate, c.id == cp.parent_id)
            .where(cp.candidate_id.in_(ids))
            .order_by(cp.id)
            .limit(MAX_PARENTS)
        )
        if generation == 0 and candidate.proposal_id is not None:
            query = query.where(cp.proposal_id == candidate.proposal_id)
        parents = {id_: (operation or "", key, text) for operation, id_, key, text in connection.execute(query)}
        ids = [id_ for id_ in parents if id_ not in known_ids]
        if not ids:
            break
        known_ids.update(ids)
        generations.append(tuple(parents[id_] for id_ in ids))
    return tuple(generations)
