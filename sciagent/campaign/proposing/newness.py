"""The novelty of proposals: whether candidate and family are new to the ledger, and the nearest of the latest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.fingerprint import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.store.results import candidates, scaffolds

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
    old = scaffolds.known(connection, (found.family_hash for found in fresh.values()))
    unsure = bool(fresh) and bool(scaffolds.without(connection, 1))
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
    texts = scaffolds.latest(connection, subject.name, COMPARED)
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
    scaffolds.write(connection, {id_: found.family_hash for id_, found in fresh.items()})
    older = scaffolds.without(connection, FILLED)
    for kind in sorted({kind for _, kind, _ in older}):
        of_kind = subject if kind == subject.name else subject_of(kind)
        notations = candidates.notations(connection, of_kind, {id_: text for id_, its, text in older if its == kind})
        scaffolds.write(connection, {id_: of_kind.features(text).family_hash for id_, text in notations.items()})
