"""The novelty of a proposal at the time when it is made. It depends on time, so it is a note and not evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.fingerprint import FINGERPRINT, Features, features, nearest
from sciagent.chemistry.molecule import Molecule
from sciagent.store.results import candidates, scaffolds

COMPARED = 256  # number of latest candidates in the ledger, of any campaign, that a proposal is compared with
FILLED = 200  # most earlier candidates without a scaffold whose scaffold is stored with each turn

Note = dict[str, Any]


def notes(connection: Connection, molecules: Sequence[Molecule]) -> list[Note]:
    """Returns one note per molecule before it is entered. Earlier molecules of the same turn count as known.

    `candidate`: whether the molecule is new to the ledger. `scaffold`: whether its Murcko scaffold is new; None if that
    is unknown, since the scaffolds of some earlier candidates are not stored yet. `nearest`: Tanimoto similarity, by
    `fingerprint`, to the nearest of the `compared` latest candidates; 1 for a known molecule, None if there are none.
    """
    known_keys = set(candidates.ids_of(connection, {molecule.key for molecule in molecules}))
    fresh = {molecule.key: features(molecule.text) for molecule in molecules if molecule.key not in known_keys}
    old_scaffolds = scaffolds.known(connection, (f.scaffold_hash for f in fresh.values()))
    unsure = bool(fresh) and bool(scaffolds.without(connection, 1))
    earlier = [features(text) for text in scaffolds.latest(connection, COMPARED)] if fresh else []
    noted: list[Note] = []
    for key in (molecule.key for molecule in molecules):
        if key in known_keys:
            noted.append({"candidate": False, "scaffold": False, "nearest": 1.0})
        else:
            noted.append(_note(fresh[key], old_scaffolds, earlier, unsure))
            known_keys.add(key)
            old_scaffolds.add(fresh[key].scaffold_hash)
            earlier = [fresh[key], *earlier[: COMPARED - 1]]
    return noted


def _note(fresh: Features, old: set[str], earlier: Sequence[Features], unsure: bool) -> Note:
    is_new = fresh.scaffold_hash not in old
    similarity = nearest(fresh, earlier)
    return {
        "candidate": True,
        "scaffold": None if is_new and unsure else is_new,
        "nearest": None if similarity is None else round(similarity, 4),
        "fingerprint": FINGERPRINT,
        "compared": len(earlier),
    }


def remember(connection: Connection, molecules: Sequence[Molecule], ids: Mapping[str, int]) -> None:
    """Stores the scaffolds of this turn's candidates, and of `FILLED` earlier candidates without one."""
    hashes = {ids[molecule.key]: features(molecule.text).scaffold_hash for molecule in molecules}
    scaffolds.write(connection, hashes)
    older = scaffolds.without(connection, FILLED)
    scaffolds.write(
        connection,
        {id_: features(text).scaffold_hash if kind == "molecule" else scaffolds.NONE for id_, kind, text in older},
    )
