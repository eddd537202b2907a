"""The values that rungs which decide objectives gave: of a campaign's own candidates, of other campaigns, and of a law
entry that a campaign remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.value_sources import sources_of
from sciagent.campaign.law.law_entries import LawEntry
from sciagent.domain.proposer_interfaces import PastFit, PastProperty, PastValues
from sciagent.domain.quantities import Censoring
from sciagent.scheduling.law.similarity import order_of, smallest_hashes
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.learning import law_entries
from sciagent.store.results import candidates, pooled_replicates

MAX_PAST = 4_000
"""Most candidates of other campaigns whose values a law remembers; of more, those with the smallest hashes of their
keys."""


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


def past_values(connection: Connection, built: Built, names: Sequence[str]) -> PastValues:
    """Returns what the deciding rungs had measured in other campaigns when this campaign was made. names: of the
    campaigns. Raises UnknownNameError for a campaign that the ledger has not."""
    ids = set()
    for name in names:
        row = campaigns.get(connection, name)
        ids.update(candidate_standings.ids_with_answers(connection, row.id, MAX_PAST))
    loaded = candidates.load(connection, sorted(ids))
    of_kind = {id_: candidate for id_, candidate in loaded.items() if candidate.kind == built.subject.name}
    in_order = list(of_kind)
    chosen = smallest_hashes(order_of(of_kind[id_].key for id_ in in_order), MAX_PAST)
    values = deciding_values(connection, built, [in_order[place] for place in chosen], until=built.row.created_at)
    wanted = {objective.property for objective in built.objectives}
    past: dict[str, dict[str, float]] = {}
    for id_, of_candidate in values.items():
        notation = built.subject.notation(of_kind[id_])
        for name, value in of_candidate.items():
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
