"""Finds candidates that lie too far above another candidate of their campaign with the same formula.

The energy above the known phases compares a crystal with phases that the verifier decorates. A campaign may itself hold
a lower form, which would take part in the hull: the tilted form of a cubic perovskite, or another polymorph. If a
candidate's formation energy lies above that of such a form by more than the rung allows above known phases, it is
dropped at the rung, whichever of the two was answered first. Evidence stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.verdicts_and_places import RungRules
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import E_ABOVE_HULL, E_ABOVE_KNOWN_PHASES, FORMATION_ENERGY
from sciagent.store.campaign_state import same_structures
from sciagent.store.campaign_state.same_structures import RelaxedStructure, ValueWindow
from sciagent.store.results import evidence

STABILITIES = (E_ABOVE_KNOWN_PHASES.name, E_ABOVE_HULL.name)
"""Properties whose upper limit holds for the energy above another candidate, too."""
MAX_DROPPED = 200
"""Most candidates that a new lower form drops at once."""
BOUND = 1e4  # eV/atom, beyond every formation energy


def stability_limit(rules: RungRules) -> float | None:
    """Returns the smallest upper limit that a rung sets to the energy above other phases, eV/atom; None without one."""
    limits = []
    for windows in (rules.gate, rules.accept):
        for name in STABILITIES:
            window = windows.get(name)
            if window is not None and window.high is not None:
                limits.append(window.high)
    return min(limits, default=None)


def find_lower(
    connection: Connection,
    built: Built,
    rung: BuiltRung,
    structures: Sequence[RelaxedStructure],
    measured: Mapping[int, Sequence[Measured]],
) -> set[int]:
    """Writes the likenesses of candidates that lie too far above another one, and returns their ids.

    These are candidates of the structures, which the rung has answered, or earlier ones. measured: values by evidence.
    Call it in a transaction that holds the lock of the campaign's row.
    """
    limit = stability_limit(rung.rules)
    found: set[int] = set()
    if limit is None:
        return found
    for structure in structures:
        energies = [m for m in measured.get(structure.evidence_id, ()) if m.property == FORMATION_ENERGY.name]
        if not energies or structure.candidate_id in found:
            continue
        energy = energies[0].quantity.value
        property_ids, level_ids = evidence.ids_of_names(connection, energies[:1])
        ids = property_ids[FORMATION_ENERGY.name], level_ids[energies[0].level]
        of = rung.rules.position, rung.verifier.computation, built.subject.relaxed_file
        lower = same_structures.of_formula_by_energy(
            connection, built.row.id, structure, *of, window=ValueWindow(*ids, -BOUND, energy - limit), most=1
        )
        higher = []
        if not lower:
            higher = same_structures.of_formula_by_energy(
                connection,
                built.row.id,
                structure,
                *of,
                window=ValueWindow(*ids, energy + limit, BOUND),
                most=MAX_DROPPED,
            )
        pairs = [(structure, other, energy - value) for other, value in lower]
        pairs += [(other, structure, value - energy) for other, value in higher]
        for upper, below, excess in pairs:
            same_structures.write(connection, built.row.id, rung.id, upper, below, excess=excess)
            found.add(upper.candidate_id)
    return found
