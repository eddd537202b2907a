"""Fits a law to what campaigns measured, in one ledger or in several.

The values are those of the rungs that decide the campaigns' objectives. Campaigns whose values come from another
verifier, another version of it or other settings are refused by name: their values differ by more than noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import open_within
from sciagent.campaign.core.value_sources import ValueSource, sources_of
from sciagent.campaign.law.law_entries import DIGITS, LawEntry, LawRowOfCandidate, QuantityLaw
from sciagent.campaign.law.past_values import MAX_PAST, values_in_order
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import UnknownNameError, UsageError
from sciagent.scheduling.law.left_out_calibration import (
    FEWEST_GROUPS,
    NOT_CALIBRATED,
    WidthCalibration,
    calibrated,
    left_out,
)
from sciagent.scheduling.law.similarity import order_of, smallest_hashes
from sciagent.scheduling.law.structure_process import ComparedStructures, StructureMemory, fitted_memory
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger

FEWEST_VALUES = 8  # candidates with a value from which a law is fitted
FEWEST_LEFT_OUT = 3  # campaigns from which whole campaigns are left out; of fewer, whole families are
FOLDS = 10  # groups of families


@dataclass(frozen=True)
class CampaignValues:
    """The values of a campaign, and where they come from."""

    name: str
    kind: str
    created_at: datetime
    sources: Mapping[str, ValueSource]
    """{property of an objective: the computation that decides it}"""
    levels: Mapping[str, tuple[str, str]]
    """{property: (canonical unit, level)}"""
    values: Mapping[str, Mapping[str, tuple[str, float]]]
    """{property: {key of a candidate: (notation, value in the canonical unit)}}; limits such as `<3` are left out."""
    charges: Mapping[str, int]
    """{key of a candidate: net charge in elementary charges}"""


def campaign_values(connection: Connection, built: Built) -> CampaignValues:
    """Returns what the rungs that decide a campaign's objectives have measured so far, of at most MAX_PAST candidates a
    property: of more, those with the smallest hashes of their keys."""
    deciding = built.rungs[: built.terminal + 1]
    sources = sources_of(deciding)
    levels = {name: _level_of(rung, name) for rung in deciding for name in rung.rules.decides}
    values: dict[str, dict[str, tuple[str, float]]] = {name: {} for name in sources}
    charges = dict[str, int]()
    for rung in deciding:
        missing = set(rung.rules.decides)
        answered = values_in_order(connection, built, built.row.id, rung.rules.position) if missing else iter(())
        for candidate, of_candidate in answered:
            for name in missing & of_candidate.keys():
                values[name][candidate.key] = (built.subject.notation(candidate), of_candidate[name])
                charges[candidate.key] = candidate.charge
            missing = {name for name in missing if len(values[name]) < MAX_PAST}
            if not missing:
                break
    return CampaignValues(built.row.name, built.subject.name, built.row.created_at, sources, levels, values, charges)


def _level_of(rung: BuiltRung, name: str) -> tuple[str, str]:
    """Returns the canonical unit and the level of a property that a rung measures."""
    measure = next(each for each in rung.spec.measures if each.property.name == name)
    return measure.property.unit, measure.level.label


def read_campaigns(ledgers: Sequence[Ledger], names: Sequence[str]) -> list[CampaignValues]:
    """Returns the values of campaigns, each from all ledgers that have it, by name and date.

    Raises UnknownNameError for a campaign that no ledger has, UsageError for one whose verifiers have changed since.
    """
    found = list[CampaignValues]()
    for name in dict.fromkeys(names):
        known = list[str]()
        n_before = len(found)
        for ledger in ledgers:
            with ledger.read() as connection:
                held = campaigns.names(connection)
                known += held
                if name in held:
                    found.append(campaign_values(connection, open_within(connection, ledger, name)))
        if len(found) == n_before:
            raise UnknownNameError("campaign", name, sorted(set(known)))
    return sorted(found, key=lambda each: (each.name, each.created_at))


def fit_law(read: Sequence[CampaignValues], properties: Sequence[str] = ()) -> LawEntry:
    """Returns the law of properties, by default of all that decide an objective in one of the campaigns.

    read: sorted as `read_campaigns` does. Raises UsageError for campaigns of different kinds, for values that come from
    different computations, for a campaign without values, and for fewer than eight values; UnknownNameError for a
    property that none of them measures.
    """
    kinds = sorted({each.kind for each in read})
    if len(kinds) > 1:
        raise UsageError(f"the campaigns are about {' and '.join(f'{kind}s' for kind in kinds)}: fit a law for each")
    offered = sorted({name for each in read for name in each.sources})
    for name in properties:
        if name not in offered:
            raise UnknownNameError("quantity", name, offered)
    chosen = properties or offered
    for each in read:
        if not any(each.values.get(name) for name in chosen):
            raise UsageError(f'"{each.name}" has no values of {" or ".join(chosen)}: leave it out')
    subject = subject_of(kinds[0])
    laws = [_fit_quantity(read, name, subject) for name in chosen]
    return LawEntry(kinds[0], tuple(each.name for each in read), tuple(laws))


def _fit_quantity(read: Sequence[CampaignValues], name: str, subject: Subject) -> QuantityLaw:
    having = [(place, each) for place, each in enumerate(read) if name in each.sources]
    first = having[0][1]
    source = first.sources[name]
    for _, other in having[1:]:
        difference = other.sources[name].difference(source)
        if difference:
            raise UsageError(
                f'"{other.name}" has its {name} {difference}, unlike "{first.name}": values of different levels share '
                "no law; fit a law for each"
            )
    rows = _rows(having, name)
    if len(rows) < FEWEST_VALUES:
        raise UsageError(
            f"{len(rows)} values of {name} in {', '.join(each.name for _, each in having)}: a law takes at least "
            f"{FEWEST_VALUES}"
        )
    values = np.array([row.value for row in rows])
    compared = ComparedStructures()
    compared.add([subject.structure(row.notation) for row in rows])
    fresh = fitted_memory(compared, values).fresh
    # the entry holds rounded hyper-parameters, and all of it is made with these
    log_hyper = np.round(fresh.log_hyper, DIGITS)
    memory = StructureMemory(compared, values, fresh.transform, log_hyper)
    calibration = _calibration(memory, rows, subject)
    unit, level = first.levels[name]
    return QuantityLaw(
        name=name,
        unit=unit,
        level=level,
        source=source,
        transform=fresh.transform,
        log_hyper=tuple(float(each) for each in log_hyper),
        rows=tuple(rows),
        calibration=calibration,
    )


def _rows(having: Sequence[tuple[int, CampaignValues]], name: str) -> list[LawRowOfCandidate]:
    """Returns at most MAX_PAST candidates with their values, by key; the mean of several ledgers' values.

    having: campaigns with their places among all.
    """
    measured: dict[str, list[tuple[int, str, float]]] = {}
    charges: dict[str, int] = {}
    for place, each in having:
        charges.update(each.charges)
        for key, (notation, value) in each.values[name].items():
            measured.setdefault(key, []).append((place, notation, value))
    keys = sorted(measured)
    chosen = smallest_hashes(order_of(keys), MAX_PAST)
    rows = []
    for key in (keys[place] for place in sorted(chosen.tolist())):
        of_key = measured[key]
        notation = min(notation for _, notation, _ in of_key)
        distinct = sorted({value for _, _, value in of_key})
        value = math.fsum(distinct) / len(distinct)
        rows.append(LawRowOfCandidate(key, notation, charges[key], value, min(of_key)[0]))
    return rows


def _calibration(memory: StructureMemory, rows: Sequence[LawRowOfCandidate], subject: Subject) -> WidthCalibration:
    """Returns the factors on the widths of a law.

    Whole campaigns are left out, or of fewer than three campaigns whole families, of which ten groups are made.
    """
    values = np.array([row.value for row in rows])
    campaigns = np.array([row.group for row in rows], dtype=np.int64)
    if len(np.unique(campaigns)) >= FEWEST_LEFT_OUT:
        return calibrated(left_out(memory, values, campaigns))
    families = _groups_of_families([subject.features(row.notation).family_hash for row in rows])
    if len(np.unique(families)) < FEWEST_GROUPS:
        return NOT_CALIBRATED
    return calibrated(left_out(memory, values, families))


def _groups_of_families(families: Sequence[str]) -> NDArray[np.int64]:
    """Returns (n,) the group of each family, of ten groups of about the same size."""
    sizes = Counter(families)
    group_sizes = [0] * FOLDS
    groups = {}
    for family in sorted(sizes, key=lambda each: (-sizes[each], each)):
        group = min(range(FOLDS), key=lambda place: (group_sizes[place], place))
        groups[family] = group
        group_sizes[group] += sizes[family]
    return np.array([groups[family] for family in families], dtype=np.int64)
