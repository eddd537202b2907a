"""Compares proposals with earlier candidates: whether one is new, what resembles it, and which are the best so far.

A proposal may be new in the candidate itself, or in its family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.chemistry.fingerprint import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.ports import MeasuredCandidate, Scored
from sciagent.store.campaign_state import standings
from sciagent.store.database.parts import WHOLE, CandidatePart
from sciagent.store.results import candidates, pooled

COMPARED = 256  # number of latest candidates in the ledger, of any campaign, that a proposal is compared with
FILLED = 200  # most earlier candidates without a family whose family is stored with each turn

Note = dict[str, Any]


def novelty_notes(connection: Connection, subject: Subject, described: Sequence[tuple[str, Features]]) -> list[Note]:
    """Returns a note on the novelty of each candidate before it is entered, which depends on time and so is no
    evidence.

    described: key and features of each. Earlier ones of the same turn count as known. `candidate`: whether the
    candidate is new to the ledger. `scaffold`: whether its family (of a molecule its Murcko scaffold) is new; None if
    that is unknown, since the families of some earlier candidates are not stored yet. `nearest`: similarity, by
    `fingerprint`, to the nearest of the `compared` latest candidates; 1 for a known one, None if there are none.
    """
    known_keys = set(candidates.ids_of(connection, {key for key, _ in described}))
    fresh = {key: found for key, found in described if key not in known_keys}
    old = candidates.known_families(connection, (found.family_hash for found in fresh.values()))
    unsure = bool(fresh) and bool(candidates.candidates_without_family(connection, 1))
    earlier = _latest(connection, subject) if fresh else []
    noted: list[Note] = []
    for key, found in described:
        if key in known_keys:
            noted.append({"candidate": False, "scaffold": False, "nearest": 1.0})
        else:
            noted.append(_note(subject, found, old, earlier, unsure))
            known_keys.add(key)
            old.add(found.family_hash)
            earlier = [found, *earlier[: COMPARED - 1]]
    return noted


def _latest(connection: Connection, subject: Subject) -> list[Features]:
    texts = candidates.latest_texts(connection, subject.name, COMPARED)
    notations = candidates.notations(connection, subject, texts)
    return [subject.features(notations[id_]) for id_ in texts]


def _note(subject: Subject, fresh: Features, old: set[str], earlier: Sequence[Features], unsure: bool) -> Note:
    is_new = fresh.family_hash not in old
    similarity = subject.nearest(fresh, earlier)
    return {
        "candidate": True,
        "scaffold": None if is_new and unsure else is_new,
        "nearest": None if similarity is None else round(similarity, 4),
        "fingerprint": subject.fingerprint,
        "compared": len(earlier),
    }


def remember_families(connection: Connection, subject: Subject, fresh: Mapping[int, Features]) -> None:
    """Stores the families of new candidates, by ledger id, and of `FILLED` earlier candidates without one."""
    candidates.write_families(connection, {id_: found.family_hash for id_, found in fresh.items()})
    older = candidates.candidates_without_family(connection, FILLED)
    for kind in sorted({kind for _, kind, _ in older}):
        of_kind = subject if kind == subject.name else subject_of(kind)
        notations = candidates.notations(connection, of_kind, {id_: text for id_, its, text in older if its == kind})
        candidates.write_families(
            connection, {id_: of_kind.features(text).family_hash for id_, text in notations.items()}
        )


MOST = 10_000  # candidates; those with the best score


def best_candidates(connection: Connection, built: Built, n: int, part: CandidatePart = WHOLE) -> dict[int, Scored]:
    """Returns the n candidates of a part of the campaign with the highest score, best first, by ledger id."""
    rows = standings.best_scored(connection, built.row.id, n, part)
    notations = candidates.notations(connection, built.subject, {row[0]: row[2] for row in rows})
    return {
        id_: Scored(key, notations[id_], value, depth, seeds, seq, operation or "")
        for id_, key, _, value, depth, seeds, seq, operation in rows
    }


def measured_candidates(connection: Connection, built: Built) -> list[MeasuredCandidate]:
    """Returns the candidates that have a score, best first, with the results of the terminal rung."""
    top = best_candidates(connection, built, MOST)
    rung = built.rungs[built.terminal]
    derived = [prop.settings_hash for prop in rung.spec.derived]
    known = pooled.values_of(connection, list(top), rung.verifier.computation, derived, rung.fits)
    return [
        MeasuredCandidate(
            one.text, one.score, one.seq, {name: q.value for name, q in (known.get(id_) or {}).items()}, one.key
        )
        for id_, one in top.items()
    ]
