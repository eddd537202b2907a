"""Finds candidates that relaxed to the structure of another candidate of their campaign.

A rung that relaxes candidates leaves their structures as files. Of several candidates that relax to one structure, the
first goes on and the others are dropped: no dearer rung computes one structure twice, and the structure is one hit. A
likeness is such a finding about a dropped candidate. It is a row of the ledger, so a candidate that is placed again is
dropped for the same reason. What lies too far above another candidate has a likeness, too (`lower_polymorphs`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.lower_polymorphs import find_lower
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import E_ABOVE_HULL, E_ABOVE_KNOWN_PHASES, FORMATION_ENERGY, VOLUME_PER_ATOM
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.errors import LedgerError
from sciagent.store.campaign_state import same_structures
from sciagent.store.campaign_state.same_structures import Likeness, RelaxedStructure, ValueWindow
from sciagent.store.results import evidence

MAX_DEVIATIONS = 3.0
"""Largest difference of two values of one structure, in standard uncertainties of the difference."""
LEAST_RELATIVE_WIDTHS = {
    VOLUME_PER_ATOM.name: 0.015,  # what `relaxed_distance` allows
    FORMATION_ENERGY.name: 0.0,
    E_ABOVE_KNOWN_PHASES.name: 0.0,
    E_ABOVE_HULL.name: 0.0,
}
"""The properties that have to agree where their uncertainty is known, each with a relative difference that counts as
agreement whatever the uncertainty."""
MAX_COMPARED = 8
"""Most structures that a new one is matched with."""


def known_likenesses(
    connection: Connection, built: Built, candidate_ids: Sequence[int], as_of: int | None = None
) -> dict[int, Likeness]:
    """Returns the likenesses of the candidates that relaxed to the structure of another one, by candidate id.

    as_of: a watermark, the number of a state of the ledger; likenesses found since do not count.
    """
    if not built.subject.relaxed_file:
        return {}
    return same_structures.likenesses_of(connection, built.row.id, candidate_ids, as_of)


def find_likenesses(connection: Connection, built: Built, answered: Mapping[int, Position]) -> dict[int, Likeness]:
    """Compares the structures to which rungs relaxed candidates with the structures of earlier candidates, and writes
    the likenesses. Returns the new likenesses by candidate id; some may be of candidates that have answered before.

    answered: position of the rung that has answered, by candidate id. The candidates' places are written already. Among
    several candidates with one structure, the one that entered the campaign first counts as the first. Call it in a
    transaction that holds the lock of the campaign's row.
    """
    if not built.subject.relaxed_file:
        return {}
    found: set[int] = set()
    for position in sorted(set(answered.values())):
        ids = [id_ for id_, at in answered.items() if at == position]
        found.update(_find(connection, built, built.rungs[position], ids))
    return same_structures.likenesses_of(connection, built.row.id, sorted(found)) if found else {}


def _find(connection: Connection, built: Built, rung: BuiltRung, candidate_ids: Sequence[int]) -> set[int]:
    """Returns the ids of the candidates that the rung relaxed to the structure of an earlier candidate, or that lie too
    far above another one."""
    campaign_id = built.row.id
    position = rung.rules.position
    computation = rung.verifier.computation
    media_type = built.subject.relaxed_file
    structures = same_structures.relaxed_structures(
        connection, campaign_id, candidate_ids, position, computation, media_type
    )
    measured = evidence.measured_of(connection, [structure.evidence_id for structure in structures])
    # at first all candidates of this call, so that the first of several alike ones is compared with none of the others
    not_compared = {structure.candidate_id for structure in structures}
    found = set()
    for structure in structures:
        windows = _windows(connection, measured.get(structure.evidence_id, ()))
        others = same_structures.similar_structures(
            connection,
            campaign_id,
            structure,
            position,
            computation,
            media_type,
            windows=windows,
            without=not_compared,
            most=MAX_COMPARED,
        )
        for other in others:
            distance = _distance(built, structure, other)
            if distance is not None:
                same_structures.write(connection, campaign_id, rung.id, structure, other, distance=distance)
                found.add(structure.candidate_id)
                break
        else:
            not_compared.remove(structure.candidate_id)  # later candidates are compared with this one
    unlike = [structure for structure in structures if structure.candidate_id not in found]
    return found | find_lower(connection, built, rung, unlike, measured)


def _windows(connection: Connection, measured: Sequence[Measured]) -> list[ValueWindow]:
    """Returns the limits within which the values of the same structure lie: MAX_DEVIATIONS standard uncertainties of a
    difference, since the other value is as uncertain."""
    limited = [m for m in measured if m.property in LEAST_RELATIVE_WIDTHS and m.quantity.uncertainty is not None]
    property_ids, level_ids = evidence.ids_of_names(connection, limited)
    windows = []
    for m in limited:
        value = m.quantity.value
        uncertainty = m.quantity.uncertainty or 0.0
        width = max(MAX_DEVIATIONS * math.sqrt(2) * uncertainty, LEAST_RELATIVE_WIDTHS[m.property] * abs(value))
        windows.append(ValueWindow(property_ids[m.property], level_ids[m.level], value - width, value + width))
    return windows


def _distance(built: Built, structure: RelaxedStructure, other: RelaxedStructure) -> float | None:
    """Returns the distance of two structures that are one, in angstrom; None if they are two, or a file is gone."""
    try:
        contents = [built.ledger.artifacts.get(each.sha256) for each in (structure, other)]
    except LedgerError:
        return None
    text, other_text = (content.decode("utf-8", errors="replace") for content in contents)
    return built.subject.relaxed_distance(text, other_text)
