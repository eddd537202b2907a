"""Compares proposals with earlier candidates: whether one is new, what resembles it, and which are the best so far.

A proposal may be new in the candidate itself, or in its family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.law.past_values import deciding_values
from sciagent.chemistry.fingerprints_and_families import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.proposer_interfaces import KnownCandidate, MeasuredCandidate
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import Worth
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.condition_for_part_of_candidates import WHOLE, CandidatePart
from sciagent.store.results import candidates

MAX_COMPARED = 256  # number of latest candidates in the ledger, of any campaign, that a proposal is compared with
MAX_MEASURED = 10_000  # most candidates with a worth that a proposer is shown, the best first
MAX_LATEST = 1000  # latest candidates beside them that ended at a rung which decides
MAX_FILLED = 200  # most earlier candidates without a family whose family is stored with each turn

Note = dict[str, Any]


def novelty_notes(connection: Connection, subject: Subject, described: Sequence[tuple[str, Features]]) -> list[Note]:
    """Returns a note on the novelty of each candidate before the candidate is entered.

    Novelty depends on time, so that a note is no evidence. described: key and features of each candidate; earlier
    candidates of the same turn count as known. The keys of a note:

    `candidate`: whether the candidate is new to the ledger. `scaffold`: whether its family is new (the family of a
    molecule is its Murcko scaffold); None if unknown, since the families of some earlier candidates are not stored yet.
    `nearest`: similarity, by `fingerprint`, to the nearest of the `compared` latest candidates; 1 for a known
    candidate, None if there is nothing to compare with.
    """
    known_keys = set(candidates.ids_of(connection, {key for key, _ in described}))
    new_features = [features for key, features in described if key not in known_keys]
    known_families = candidates.known_families(connection, (features.family_hash for features in new_features))
    is_unsure = bool(new_features) and bool(candidates.candidates_without_family(connection, limit=1))
    earlier = _latest(connection, subject) if new_features else []
    notes: list[Note] = []
    for key, features in described:
        if key in known_keys:
            notes.append({"candidate": False, "scaffold": False, "nearest": 1.0})
            continue
        notes.append(_note(subject, features, known_families, earlier, is_unsure))
        known_keys.add(key)
        known_families.add(features.family_hash)
        earlier = [features, *earlier[: MAX_COMPARED - 1]]
    return notes


def _latest(connection: Connection, subject: Subject) -> list[Features]:
    """Returns the features of the `MAX_COMPARED` latest candidates of the subject, newest first."""
    texts = candidates.latest_texts(connection, subject.name, MAX_COMPARED)
    notations = candidates.notations(connection, subject, texts)
    return [subject.features(notations[id_]) for id_ in texts]


def _note(subject: Subject, fresh: Features, old: set[str], earlier: Sequence[Features], unsure: bool) -> Note:
    """Returns the note on a candidate that is new to the ledger.

    old: known families. unsure: whether the families of some earlier candidates are not stored yet.
    """
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
    """Stores the families of new candidates, by ledger id, and of `MAX_FILLED` earlier candidates without one."""
    candidates.write_families(connection, {id_: features.family_hash for id_, features in fresh.items()})
    older = candidates.candidates_without_family(connection, MAX_FILLED)
    for kind in sorted({kind for _, kind, _ in older}):
        subject_of_kind = subject if kind == subject.name else subject_of(kind)
        texts = {id_: text for id_, kind_of_candidate, text in older if kind_of_candidate == kind}
        notations = candidates.notations(connection, subject_of_kind, texts)
        families = {id_: subject_of_kind.features(text).family_hash for id_, text in notations.items()}
        candidates.write_families(connection, families)


def best_candidates(
    connection: Connection, built: Built, n: int, part: CandidatePart = WHOLE
) -> dict[int, KnownCandidate]:
    """Returns the n candidates of a part of the campaign that have a worth, best first, by ledger id."""
    rows = candidate_standings.best_with_worth(connection, built.row.id, n, part)
    texts = {row["candidate_id"]: row["text"] for row in rows}
    notations = candidates.notations(connection, built.subject, texts)
    best = {}
    for row in rows:
        worth = Worth.from_columns(row)
        assert worth is not None
        best[row["candidate_id"]] = KnownCandidate(
            row["key"],
            notations[row["candidate_id"]],
            worth,
            row["depth"],
            in_seeds=row["in_seeds"],
            seq=row["seq"],
            operation=row["operation"] or "",
            is_held=row["standing"] == Standing.HELD,
        )
    return best


def measured_candidates(connection: Connection, built: Built) -> list[MeasuredCandidate]:
    """Returns the best candidates that have a worth, best first, with the results of the rungs that decide the
    objectives, and all those of the terminal rung.

    Beside them are the latest that ended at such a rung: where many wait, each with some chance to be a hit, all known
    misses stand behind those that wait.
    """
    top = best_candidates(connection, built, MAX_MEASURED)
    if len(top) == MAX_MEASURED:
        seqs = set[int]()
        for rung in built.rungs[: built.terminal + 1]:
            if rung.rules.decides:
                position = rung.rules.position
                seqs |= set(candidate_standings.latest_ended(connection, built.row.id, position, MAX_LATEST))
        seqs -= {each.seq for each in top.values()}
        top |= best_candidates(connection, built, len(seqs), CandidatePart(seqs=tuple(sorted(seqs))))
    values = deciding_values(connection, built, list(top))
    return [
        MeasuredCandidate(each.text, each.worth, each.seq, values=values[id_], key=each.key)
        for id_, each in top.items()
    ]
