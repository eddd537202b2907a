"""How new a proposal is when it is made. It depends on the time, so it is a note on the proposal and never evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.scaffold import FINGERPRINT, Features, features, nearest
from sciagent.domain.candidates import Candidate
from sciagent.store.results import candidates, scaffolds

COMPARED = 256  # the candidates that came last, in any campaign of the ledger
FILLED = 200  # imported and added candidates that get their scaffold with each turn

Note = dict[str, Any]


def notes(connection: Connection, made: Sequence[Candidate | None]) -> list[Note | None]:
    """A note for each molecule, before it is entered; those before it in the same turn count as earlier.

    `candidate`: whether the ledger did not have it. `scaffold`: whether it had no candidate with this Murcko scaffold;
    None while earlier ones have none worked out. `nearest`: Tanimoto similarity by `fingerprint` to the nearest of
    the `compared` candidates that came last; 1 for one that is there already, None for the first of all.
    The cost is bounded: one look-up by key and one by scaffold for the turn, and COMPARED similarities a molecule.
    """
    molecules = [one for one in made if one is not None and one.kind == "molecule"]
    there = set(candidates.ids_of(connection, {one.key for one in molecules}))
    fresh = {one.key: features(one.text) for one in molecules if one.key not in there}
    old_scaffolds = scaffolds.known(connection, (f.scaffold_hash for f in fresh.values()))
    unsure = bool(fresh) and bool(scaffolds.without(connection, 1))
    earlier = [features(text) for text in scaffolds.latest(connection, COMPARED)] if fresh else []
    found: list[Note | None] = []
    for one in made:
        if one is None or one.kind != "molecule":
            found.append(None)
        elif one.key in there:
            found.append({"candidate": False, "scaffold": False, "nearest": 1.0})
        else:
            found.append(_note(fresh[one.key], old_scaffolds, earlier, unsure))
            there.add(one.key)
            old_scaffolds.add(fresh[one.key].scaffold_hash)
            earlier = [fresh[one.key], *earlier[: COMPARED - 1]]
    return found


def _note(one: Features, old: set[str], earlier: Sequence[Features], unsure: bool) -> Note:
    is_new = one.scaffold_hash not in old
    similarity = nearest(one, earlier)
    return {
        "candidate": True,
        "scaffold": None if is_new and unsure else is_new,
        "nearest": None if similarity is None else round(similarity, 4),
        "fingerprint": FINGERPRINT,
        "compared": len(earlier),
    }


def remember(connection: Connection, made: Sequence[Candidate | None], ids: Mapping[str, int]) -> None:
    """Gives the candidates of this turn their scaffold, and some of those that a file or a person brought."""
    mine = {
        ids[one.key]: features(one.text).scaffold_hash for one in made if one is not None and one.kind == "molecule"
    }
    scaffolds.write(connection, mine)
    older = scaffolds.without(connection, FILLED)
    scaffolds.write(
        connection,
        {id_: features(text).scaffold_hash if kind == "molecule" else scaffolds.NONE for id_, kind, text in older},
    )
