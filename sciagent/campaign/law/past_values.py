"""The values that rungs which decide objectives gave: of a campaign's own candidates, of other campaigns, and of a law
entry that a campaign remembers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.value_sources import sources_of
from sciagent.campaign.law.law_entries import LawEntry
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import PastFit, PastProperty, PastValues
from sciagent.domain.quantities import Censoring
from sciagent.scheduling.law.similarity import order_of, smallest_hashes
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.learning import law_entries
from sciagent.store.results import candidates, pooled_replicates

MAX_PAST = 4_000
"""Most candidates of other campaigns whose values a law remembers; of more, those with the smallest hashes of their
keys."""
READ_AT_ONCE = 4_000  # candidates


def deciding_values(
    connection: Connection, built: Built, candidate_ids: Sequence[int], until: datetime | None = None
) -> dict[int, dict[str, float]]:
    """Returns {candidate id: {property: value}} of the rungs that decide the objectives, and all of the terminal rung;
    limits such as `<3` are left out. until: the latest time of the evidence that is read; None for all."""
    values: dict[int, dict[str, float]] = {id_: {} for id_ in candidate_ids}
    for rung in built.rungs[: built.terminal + 1]:
        is_terminal = rung.rules.position == built.terminal
        if not (is_terminal or rung.rules.decides):
            continue
        computation = rung.verifier.computation
        derived = [prop.settings_hash for prop in rung.spec.derived]
        answered = candidate_ids
        if until is not None:
            answered = pooled_replicates.answered_until(connection, candidate_ids, computation, until)
        known = pooled_replicates.values_of(connection, answered, computation, derived, rung.fits)
        for id_, of_rung in known.items():
            for name, quantity in (of_rung or {}).items():
                is_exact = quantity.censoring is Censoring.NONE
                if is_exact and (is_terminal or name in rung.rules.decides):
                    values[id_][name] = quantity.value
    return values


def values_in_order(
    connection: Connection, built: Built, campaign_id: int, position: int, until: datetime | None = None
) -> Iterator[tuple[Candidate, dict[str, float]]]:
    """Yields the candidates that the rung at a position of a campaign's ladder has answered, each with the values that
    `deciding_values` has of it, in the order of the hashes of their keys; those without a value are left out.

    built: whose rungs give the values. Only the ids of all answered candidates are in memory.
    """
    ids = array("q")
    hashes = array("Q")
    answered = candidate_standings.answered_keys(connection, campaign_id, position)
    while some := list(islice(answered, READ_AT_ONCE)):
        ids.extend(id_ for id_, _ in some)
        hashes.extend(order_of(key for _, key in some).tolist())
    order = np.argsort(np.array(hashes, dtype=np.uint64), kind="stable")
    for first in range(0, len(order), READ_AT_ONCE):
        chosen = [ids[place] for place in order[first : first + READ_AT_ONCE].tolist()]
        known = candidates.load(connection, chosen)
        values = deciding_values(connection, built, chosen, until)
        for id_ in chosen:
            if values[id_]:
                yield known[id_], values[id_]


def past_values(connection: Connection, built: Built, names: Sequence[str]) -> PastValues:
    """Returns what the deciding rungs had measured in other campaigns when this campaign was made. names: of the
    campaigns. Raises UnknownNameError for a campaign that the ledger has not."""
    until = built.row.created_at
    computations = {rung.verifier.computation for rung in built.rungs if rung.rules.decides}
    remembered: dict[str, tuple[str, dict[str, float]]] = {}
    for name in names:
        row = campaigns.get(connection, name)
        positions = [rung.position for rung in campaigns.rungs(connection, row.id) if rung.computation in computations]
        of_campaign = values_in_order(connection, built, row.id, min(positions, default=0), until)
        of_kind = ((candidate, values) for candidate, values in of_campaign if candidate.kind == built.subject.name)
        for candidate, values in islice(of_kind, MAX_PAST):
            remembered[candidate.key] = (built.subject.notation(candidate), values)
    keys = list(remembered)
    chosen = smallest_hashes(order_of(keys), MAX_PAST)
    wanted = {objective.property for objective in built.objectives}
    past: dict[str, dict[str, float]] = {}
    for place in chosen.tolist():
        notation, values = remembered[keys[place]]
        for name, value in values.items():
            if name in wanted:
                past.setdefault(name, {})[notation] = value
    return {name: PastProperty(of_property, None) for name, of_property in past.items()}


def loaded_entry(connection: Connection, row: law_entries.EntryRow) -> LawEntry:
    """Returns the entry of a row. Raises LedgerError if its content was changed."""
    entry = LawEntry.from_text(law_entries.content(connection, row.id))
    law_entries.require_hash(row, entry.hash)
    return entry


def values_of_law(connection: Connection, built: Built, text: str) -> PastValues:
    """Returns what the law entry holds that a campaign uses, of the properties of its objectives.

    text: the law as the campaign file names it; its levels were compared when the campaign was made.
    """
    entry = loaded_entry(connection, law_entries.pinned(connection, built.row.id, text))
    deciding = sources_of(built.rungs)
    past = {}
    for law in entry.quantities:
        if law.name in deciding:
            values = {row.notation: row.value for row in law.rows}
            past[law.name] = PastProperty(values, PastFit(str(law.transform), law.log_hyper, law.calibration.as_json()))
    return past
