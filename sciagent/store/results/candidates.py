"""Candidates in the ledger: inserted and found by key, with their texts, names and families.

A candidate is stored with the texts under which it was proposed; names and remarks come from input
files. Families are the scaffolds of molecules, for example. Every query is served by an index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.base import CandidateColumns, Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import IMPORTED_PREFIX, Candidate, Names, names_from_rows
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.safe_text_and_durations import storable
from sciagent.domain.worth import LEAST
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, insert_or_ignore
from sciagent.store.database.condition_for_part_of_candidates import WHOLE, CandidatePart
from sciagent.store.database.engine import db_now

MAX_ALIAS = 4096  # characters of a text that is stored as an alias
MAX_PROPOSAL = 4000  # characters stored of a proposed text
ROW_HASH_DIGITS = 16  # digits that tell the rows of one candidate apart
_MAX_MATCHES = 20  # candidates that a search returns
_MIN_KEY_DIGITS = 6  # a beginning of a key with at least this number of digits identifies a candidate
_CANDIDATE_COLUMNS = ("key", "kind", "text", "identity", "inchikey", "formula", "charge", "multiplicity", "n_atoms")


def enter(connection: Connection, candidates: Iterable[Candidate]) -> dict[str, int]:
    """Insert new candidates; returns {key: ledger id} of all candidates.

    Call it once per transaction, and before any function that takes a watermark (`evidence.record`), since writers
    that lock in different orders can deadlock.
    """
    by_key = {c.key: c for c in candidates}
    known = ids_of(connection, by_key)
    if len(known) == len(by_key):
        return known
    new_keys = sorted(by_key.keys() - known.keys())
    kinds = {by_key[key].kind for key in new_keys}
    versions_by_kind = {kind: subject_of(kind).versions()._asdict() for kind in kinds}
    now = db_now(connection)
    rows = []
    for key in new_keys:
        candidate = by_key[key]
        columns = {name: getattr(candidate, name) for name in _CANDIDATE_COLUMNS}
        versions = versions_by_kind[candidate.kind]
        rows.append({"payload": candidate.payload(), "created_at": now, **versions, **columns})
    insert_or_ignore(connection, t.candidate, rows)
    return known | ids_of(connection, new_keys)


def ids_of(connection: Connection, keys: Iterable[str]) -> dict[str, int]:
    """{key: ledger id} of the candidates that are in the ledger."""
    c = t.candidate.c
    rows = connection.execute(sa.select(c.key, c.id).where(among(connection, c.key, list(keys))))
    return {key: id_ for key, id_ in rows}


def enter_aliases(connection: Connection, pairs: Iterable[tuple[int, str]], notation: str = "smiles") -> None:
    """Store the texts under which candidates were proposed. pairs: (candidate id, text)."""
    rows = {}
    for id_, text in pairs:
        if len(text) <= MAX_ALIAS:
            digest = _digest(text)
            rows[digest] = {"candidate_id": id_, "notation": notation, "text": text, "text_hash": digest}
    in_order = [rows[digest] for digest in sorted(rows)]  # so that two writers cannot deadlock
    insert_or_ignore(connection, t.candidate_alias, in_order)


def stored_proposal(text: str) -> str:
    """Returns a proposed text as the ledger stores it: limited in length, without NUL characters."""
    return text[:MAX_PROPOSAL].replace("\0", "\\0")


def proposed_among(connection: Connection, campaign_id: int, texts: Iterable[str]) -> set[str]:
    """Returns those of the texts that were proposed to a campaign, whatever became of them. texts: as they are stored,
    see `stored_proposal`."""
    p = t.proposal.c
    query = sa.select(p.text).distinct().where(p.campaign_id == campaign_id, among(connection, p.text, list(texts)))
    return set(connection.execute(query).scalars())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def load(connection: Connection, ids: Sequence[int]) -> dict[int, Candidate]:
    """{ledger id: candidate}.

    A molecule entered by the present versions of the chemistry libraries is read from its columns, since an InChI takes
    4 ms; others are built from their payloads, too.
    """
    c = t.candidate.c
    candidates = dict[int, Candidate]()
    columns = [c[name] for name in CandidateColumns._fields]
    query = sa.select(c.id, c.kind, c.standardiser, c.library, *columns)
    incomplete = dict[int, _RowWithoutPayload]()
    rows = connection.execute(query.where(among(connection, c.id, ids))).all()
    for id_, kind, standardiser, library, *candidate_columns in rows:
        is_ours = (standardiser, library) == subject_of(kind).versions()
        row = _RowWithoutPayload(kind, CandidateColumns(*candidate_columns), is_ours)
        candidate = subject_of(kind).from_row(row.columns, payload=None, is_ours=is_ours)
        if candidate is None:
            incomplete[id_] = row
        else:
            candidates[id_] = candidate
    for id_, payload in _payloads(connection, incomplete):
        row = incomplete[id_]
        candidate = subject_of(row.kind).from_row(row.columns, payload, row.is_ours)
        if candidate is not None:
            candidates[id_] = candidate
    return candidates


class _RowWithoutPayload(NamedTuple):
    """A row whose payload is needed."""

    kind: str
    columns: CandidateColumns
    is_ours: bool
    """Whether the present versions of the chemistry libraries entered it."""


def _payloads(connection: Connection, ids: Collection[int]) -> list[tuple[int, Mapping[str, Any]]]:
    """(ledger id, payload) of candidates."""
    if not ids:
        return []
    c = t.candidate.c
    rows = connection.execute(sa.select(c.id, c.payload).where(among(connection, c.id, list(ids))))
    return [(id_, payload) for id_, payload in rows]


def notations(connection: Connection, subject: Subject, texts: Mapping[int, str]) -> dict[int, str]:
    """{ledger id: notation that can be read back}. texts: {ledger id: text of the candidate}."""
    if subject.texts_are_notations:
        return dict(texts)
    return {id_: subject.notation_of(texts[id_], payload) for id_, payload in _payloads(connection, texts)}


def find(connection: Connection, text: str, campaign_id: int | None = None) -> list[sa.Row[tuple[int, str, str]]]:
    """(id, key, text) of candidates, at most 20: the key begins with `text` (6 digits or more), or the InChIKey, a
    notation or a name in an input file equals it.

    A name in a file of the campaign goes before all other names, and a name with the same capitals before one with
    others; SQLite compares only the letters of ASCII without regard to capitals. campaign_id: None for the files of all
    campaigns; the names in files with values then come last.
    """
    query = sa.select(t.candidate.c.id, t.candidate.c.key, t.candidate.c.text).limit(_MAX_MATCHES)
    exact: list[sa.Row[tuple[int, str, str]]] = list(connection.execute(query.where(t.candidate.c.key == text)))
    if exact:
        return exact
    # the ids come from queries of their own, since with a subquery PostgreSQL would read all candidates
    alias = t.candidate_alias.c
    via_alias = connection.execute(sa.select(alias.candidate_id).where(alias.text_hash == _digest(text))).scalars()
    ids = {*via_alias, *_named(connection, storable(text), campaign_id)}
    condition = sa.or_(t.candidate.c.inchikey == storable(text), t.candidate.c.id.in_(ids))
    if len(text) >= _MIN_KEY_DIGITS and all(c in "0123456789abcdef" for c in text):
        # "g" sorts after all hexadecimal digits
        has_prefix = sa.and_(t.candidate.c.key >= text, t.candidate.c.key < text + "g")
        condition = sa.or_(condition, has_prefix)
    return list(connection.execute(query.where(condition)))


def _named(connection: Connection, text: str, campaign_id: int | None) -> list[int]:
    """Returns the ids of the candidates, at most 20, that have a name, in the order of preference of `find`: of the
    first kind of name that there is. text: as `storable` returns it."""
    name = t.candidate_name.c
    is_own = name.campaign_id.is_not(None) if campaign_id is None else name.campaign_id == campaign_id
    # not the bare column, whose value SQLite would put into lower(text), so that the index does not serve it
    is_exact = name.text.concat("") == text
    # the database lowers both sides, since its rule for letters beyond ASCII is not Python's
    is_named = sa.func.lower(name.text) == sa.func.lower(text)
    named = sa.select(name.candidate_id).where(is_named).distinct().limit(_MAX_MATCHES)
    for preferred in ((is_own, is_exact), (is_own,), (is_exact,), ()):
        ids = list(connection.execute(named.where(*preferred)).scalars())
        if ids:
            return ids
    return []


def made_of(
    connection: Connection, campaign_id: int, parent_ids: Sequence[int], operations: Collection[str]
) -> list[sa.Row[tuple[int, str, str]]]:
    """(id, key, text) of the candidates of a campaign, at most 20, that were made of these by one of the operations."""
    c = t.candidate.c
    parent = t.candidate_parent.c
    cc = t.campaign_candidate.c
    query = (
        sa.select(c.id, c.key, c.text)
        .distinct()
        .join(t.candidate_parent, parent.candidate_id == c.id)
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == c.id, cc.campaign_id == campaign_id))
        .where(among(connection, parent.parent_id, parent_ids), parent.operation.in_(operations))
        .order_by(c.id)
        .limit(_MAX_MATCHES)
    )
    return list(connection.execute(query))


def find_by_text(
    connection: Connection, text: str, kinds: Collection[str], campaign_id: int | None
) -> list[sa.Row[tuple[int, str, str]]]:
    """(id, key, text) of candidates, at most 20, that people read as `text`. Different candidates may share a text.

    kinds: the kinds of candidates to search; molecules are never found. campaign_id: None for the whole ledger.
    """
    c = t.candidate.c
    cc = t.campaign_candidate.c
    query = sa.select(c.id, c.key, c.text).where(t.is_no_molecule, c.text == storable(text), c.kind.in_(kinds))
    query = query.limit(_MAX_MATCHES)
    if campaign_id is not None:
        query = query.where(sa.exists().where(cc.campaign_id == campaign_id, cc.candidate_id == c.id))
    return list(connection.execute(query))


def enter_names(
    connection: Connection, campaign_id: int | None, given: Iterable[tuple[int, Mapping[str, str]]]
) -> None:
    """Stores the names of candidates; a row with the same texts as a stored one is skipped.

    given: (candidate id, {field: text}) for each row of the file. campaign_id: None for a file with values; such names
    are shown in every campaign, as remarks.
    """
    rows: dict[tuple[int, str], dict[str, str]] = {}  # by candidate id and hash
    for id_, names in given:
        row = {field: storable(text) for field, text in names.items() if text}
        if row:
            rows[id_, _row_hash(row)] = row
    # the unique constraint that makes the insert skip known names ignores rows without a campaign
    if campaign_id is None:
        ids = sorted({id_ for id_, _ in rows})
        known = {(stored.candidate_id, stored.row_hash) for stored in _name_cells(connection, ids, campaign_ids=())}
        rows = {key: row for key, row in rows.items() if key not in known}
    new: list[dict[str, Any]] = []
    for (id_, row_hash), row in rows.items():
        alike = {"campaign_id": campaign_id, "candidate_id": id_, "row_hash": row_hash}
        new.extend({**alike, "field": field, "text": text} for field, text in row.items())
    insert_or_ignore(connection, t.candidate_name, new)


def _row_hash(row: Mapping[str, str]) -> str:
    """Returns 16 hexadecimal digits, which are the same for rows with the same texts. row: {field: text}."""
    return content_hash(dict(row))[:ROW_HASH_DIGITS]


def names_of(connection: Connection, ids: Sequence[int], campaign_ids: Sequence[int]) -> dict[int, Names]:
    """Returns {candidate id: names} for the candidates with names in these campaigns or from a file with values."""
    own: dict[int, dict[str, dict[str, str]]] = {}  # {candidate id: {hash: row}}
    remarks: dict[int, dict[str, dict[str, str]]] = {}  # the same of files with values
    for cell in _name_cells(connection, ids, campaign_ids):
        is_remark = cell.campaign_id is None
        rows = (remarks if is_remark else own).setdefault(cell.candidate_id, {})
        field = f"{IMPORTED_PREFIX}{cell.field}" if is_remark else cell.field
        rows.setdefault(cell.row_hash, {})[field] = cell.text
    names: dict[int, Names] = {}
    for id_ in own | remarks:
        own_names = names_from_rows(own.get(id_, {}).values())
        names[id_] = {**own_names, **names_from_rows(remarks.get(id_, {}).values())}
    return names


def name_fields(connection: Connection, campaign_id: int) -> list[str]:
    """Returns the fields of `names_of` that the candidates of a campaign have: the campaign's own, the oldest first,
    then those of files with values."""
    cc = t.campaign_candidate.c
    c = t.candidate_name.c
    is_remark = c.campaign_id.is_(None)
    query = (
        sa.select(c.field, is_remark.label("remark"), sa.func.min(c.id).label("first"))
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == c.candidate_id, cc.campaign_id == campaign_id))
        .where(_is_shown([campaign_id]))
        .group_by(c.field, is_remark)
        .order_by("remark", "first")
    )
    return [f"{IMPORTED_PREFIX}{field}" if remark else field for field, remark, _ in connection.execute(query)]


def _name_cells(connection: Connection, ids: Sequence[int], campaign_ids: Sequence[int]) -> list[sa.Row[Any]]:
    """Returns (id, candidate id, campaign id, hash of the row, field, text) of names, the oldest first."""
    if not ids:
        return []
    c = t.candidate_name.c
    query = sa.select(c.id, c.candidate_id, c.campaign_id, c.row_hash, c.field, c.text)
    query = query.where(among(connection, c.candidate_id, ids), _is_shown(campaign_ids))
    return sorted(connection.execute(query), key=lambda cell: cell.id)


def _is_shown(campaign_ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Returns the condition that a text is shown with these campaigns: it is of one of their files, or a remark.

    A row of a file with values is no remark if it is also a row of a campaign's file, or only repeats one name.
    """
    c = t.candidate_name.c
    own = t.candidate_name.alias().c
    other = t.candidate_name.alias().c
    is_of_campaigns = (own.candidate_id == c.candidate_id, own.campaign_id.in_(campaign_ids))
    is_own_row = sa.exists().where(*is_of_campaigns, own.row_hash == c.row_hash)
    has_more_texts = sa.exists().where(
        other.candidate_id == c.candidate_id,
        other.campaign_id.is_(None),
        other.row_hash == c.row_hash,
        other.field != c.field,
    )
    repeats_a_name = sa.and_(~has_more_texts, sa.exists().where(*is_of_campaigns, own.text == c.text))
    is_remark = sa.and_(c.campaign_id.is_(None), ~is_own_row, ~repeats_a_name)
    return sa.or_(c.campaign_id.in_(campaign_ids), is_remark)


_C = t.candidate.c


def known_families(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Returns the hashes of families that occur in the ledger."""
    query = sa.select(_C.scaffold_hash).where(among(connection, _C.scaffold_hash, sorted(set(hashes)))).distinct()
    return set(connection.execute(query).scalars())


def candidates_without_family(connection: Connection, limit: int) -> list[tuple[int, str, str]]:
    """(id, kind, text) of candidates whose family is not computed yet, oldest first."""
    query = sa.select(_C.id, _C.kind, _C.text).where(_C.scaffold_hash.is_(None)).order_by(_C.id).limit(limit)
    return [(id_, kind, text) for id_, kind, text in connection.execute(query)]


def write_families(connection: Connection, hashes: Mapping[int, str]) -> None:
    """Store families. hashes: {candidate id: hash of the family}."""
    if hashes:
        update = t.candidate.update().where(_C.id == sa.bindparam("candidate_id"))
        update = update.values(scaffold_hash=sa.bindparam("family_hash"))
        rows = [{"candidate_id": id_, "family_hash": hashes[id_]} for id_ in sorted(hashes)]
        connection.execute(update, rows)


def latest_texts(connection: Connection, kind: str, n: int) -> dict[int, str]:
    """{ledger id: text} of the candidates of a kind among the last n candidates of the ledger, latest first."""
    query = sa.select(_C.id, _C.kind, _C.text).order_by(_C.id.desc()).limit(n)
    return {id_: text for id_, kind_of_candidate, text in connection.execute(query) if kind_of_candidate == kind}


def ids_of_family(connection: Connection, campaign_id: int, family_hash: str, formula: str, most: int) -> list[int]:
    """Ledger ids of the first `most` candidates of a campaign with this family and formula."""
    cc = t.campaign_candidate.c
    query = sa.select(_C.id).join(t.campaign_candidate, cc.candidate_id == _C.id)
    query = query.where(_C.scaffold_hash == family_hash, _C.formula == formula, cc.campaign_id == campaign_id)
    return list(connection.execute(query.order_by(_C.id).limit(most)).scalars())


UTILITY_WEIGHT = 0.999  # so that the expected utility only orders candidates of one chance, a whole number


class FamilyResults(NamedTuple):
    """The results of the candidates that share a family."""

    n: int
    """Number of candidates."""
    dropped: int
    """Number of candidates that a rung rejected."""
    hits: int
    best: str | None
    """The best worth in short words; None if no candidate has one."""
    first: int
    """Ledger id of the first candidate."""
    text: str
    """Text of the first candidate."""


def results_by_family(
    connection: Connection, campaign_id: int, latest: int, most: int, part: CandidatePart = WHOLE
) -> list[FamilyResults]:
    """Results of a campaign's candidates by family, the family with the best candidate first.

    latest: number of candidates in `part`, from the last one back, that are counted. most: number of families that are
    returned, the most frequent ones.
    """
    cc = t.campaign_candidate.c
    recent = (
        sa.select(cc.candidate_id, cc.standing, cc.is_hit, cc.chance, cc.expected_utility)
        .where(cc.campaign_id == campaign_id, part.condition)
        .order_by(cc.seq.desc())
        .limit(latest)
        .subquery()
    )
    r = recent.c
    n = sa.func.count()
    grouped = (
        sa.select(
            n.label("n"),
            sa.func.sum(sa.case((r.standing == "dropped", 1), else_=0)).label("dropped"),
            sa.func.sum(sa.case((r.is_hit, 1), else_=0)).label("hits"),
            sa.func.max(r.chance + UTILITY_WEIGHT * r.expected_utility).label("best"),
            sa.func.min(r.candidate_id).label("first"),
        )
        .select_from(recent.join(t.candidate, _C.id == r.candidate_id))
        .where(_C.scaffold_hash.is_not(None))
        .group_by(_C.scaffold_hash)
        .order_by(n.desc(), sa.func.min(r.candidate_id))
        .limit(most)
        .subquery()
    )
    g = grouped.c
    query = sa.select(g.n, g.dropped, g.hits, g.best, g.first, _C.text).join(t.candidate, _C.id == g.first)
    rows = connection.execute(query.order_by(g.best.desc().nulls_last(), g.n.desc(), g.first)).all()
    return [FamilyResults(*row)._replace(best=_best_words(row.best)) for row in rows]


def _best_words(best: float | None) -> str | None:
    """Returns words on the best candidate of a family. best: its chance in percent plus nearly its utility."""
    if best is None:
        return None
    chance = int(best)
    if chance == LEAST:  # also of a candidate of which nothing is known
        return f"chance unknown or at most {LEAST} %"
    return f"chance {chance} %" if chance else f"expected utility {best / UTILITY_WEIGHT:.2f}"
