# ruff: noqa: T201
"""Whether the intervals and chances of a law hold for campaigns to which it was not fitted:

    python -m benchmarks.law.calibration LEDGER LAW PREFIX [PREFIX...]

PREFIX: beginning of the names of campaigns, such as that of an arm of `sciagent evaluate`. Each campaign is foretold in
the order in which its candidates came, eight at a time: by the law alone, and by the law with the campaign's own
answers so far, as a proposer or a filter has it. Candidates of which the law has a value are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from sciagent.api.open_ledger import open_ledger
from sciagent.campaign.core.create_and_open import open_within
from sciagent.campaign.law.fit_law import CampaignValues, campaign_values
from sciagent.campaign.law.past_values import loaded_entry
from sciagent.campaign.law.predictions import AskedStructure, LawPredictor, PredictedStructure
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.objectives import Objective, ends_of
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.left_out_calibration import chance_bins
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import law_entries

BATCH = 8
BIN = 50
NEAR = 0.1  # a bin is right if the share of hits is as near to the mean of its chances
DRAWS = 2000
Order = dict[str, int]


def read(ledger: Ledger, prefix: str) -> Iterator[tuple[CampaignValues, Sequence[Objective], Order]]:
    """Yields the values of each campaign, its objectives, and {key: place in the order of arrival}."""
    with ledger.read() as connection:
        for name in campaigns.names(connection):
            if not name.startswith(prefix):
                continue
            built = open_within(connection, ledger, name)
            query = sa.select(t.candidate.c.key, t.campaign_candidate.c.seq).join(t.campaign_candidate)
            rows = connection.execute(query.where(t.campaign_candidate.c.campaign_id == built.row.id))
            yield campaign_values(connection, built), built.objectives, {key: seq for key, seq in rows}


def foretold(
    predictor: LawPredictor, values: CampaignValues, objectives: Sequence[Objective], order: Order, with_own: bool
) -> Iterator[tuple[PredictedStructure, dict[str, float]]]:
    """Yields each new candidate's prediction and its values."""
    measured: dict[str, tuple[str, dict[str, float]]] = {}
    for name, of_one in values.values.items():
        for key, (notation, value) in of_one.items():
            measured.setdefault(key, (notation, {}))[1][name] = value
    keys = sorted(measured, key=order.__getitem__)
    for begin in range(0, len(keys), BATCH):
        batch = [key for key in keys[begin : begin + BATCH] if key not in predictor.entry.keys]
        earlier = set(keys[:begin])
        own = {name: {k: v for k, v in of_one.items() if k in earlier} for name, of_one in values.values.items()}
        known = replace(values, values=own) if with_own else None
        asked = [AskedStructure(measured[key][0], values.charges[key]) for key in batch]
        for key, prediction in zip(batch, predictor.predict(asked, objectives, known, are_own=True), strict=True):
            yield prediction, measured[key][1]


def compare(predictor: LawPredictor, ledger: Ledger, prefix: str, with_own: bool) -> None:
    """Prints how the predictions of the campaigns of an arm held."""
    inside: dict[str, list[bool]] = {}
    errors: dict[str, list[float]] = {}
    said = []
    real = []
    for values, objectives, order in read(ledger, prefix):
        for prediction, measured in foretold(predictor, values, objectives, order, with_own):
            for quantity in prediction.quantities:
                if quantity.name in measured:
                    value = measured[quantity.name]
                    inside.setdefault(quantity.name, []).append(quantity.low <= value <= quantity.high)
                    errors.setdefault(quantity.name, []).append(abs(value - quantity.value))
            if prediction.p_hit is not None and all(each.property in measured for each in objectives):
                ends = [(ends_of(each.accept), measured[each.property]) for each in objectives]
                said.append(prediction.p_hit)
                real.append(all(low <= value <= high for (low, high), value in ends))
    print(f"{prefix}{', with own answers' if with_own else ''}")
    for name, held in inside.items():
        median = np.median(errors[name])
        print(f"  {name}: {np.mean(held):.3f} of {len(held)} in 90 % intervals, median error {median:.3g}")
    bins = chance_bins(np.array(said), np.array(real, dtype=bool), BIN)
    gaps = [each.said - each.real for each in bins]
    print(f"  said chances minus hits in {len(bins)} bins: {min(gaps):.2f} to {max(gaps):.2f}")
    n_within = sum(abs(gap) <= NEAR for gap in gaps)
    print(f"  within .10: {n_within}; all: said {np.mean(said):.3f}, hits {np.mean(real):.3f}")
    print(f"  {exact_law(np.array(said))}")
    for each in bins:
        print(f"    {each.low:.3f} to {each.high:.3f}: {each.n}, said {each.said:.3f}, hits {each.real:.3f}")


def exact_law(said: Array) -> str:
    """Returns a line on how many bins exactly right chances would have within .10. said: (n,) chances."""
    rng = np.random.default_rng(1)
    within = []
    largest = []
    for _ in range(DRAWS):
        gaps = [abs(each.said - each.real) for each in chance_bins(said, rng.random(len(said)) < said, BIN)]
        within.append(sum(gap <= NEAR for gap in gaps))
        largest.append(max(gaps))
    low, median, high = np.quantile(within, (0.05, 0.5, 0.95))
    return (
        f"chances that are exactly right: within .10 {median:.0f} ({low:.0f} to {high:.0f}), "
        f"largest {np.median(largest):.2f} ({np.quantile(largest, 0.95):.2f} in one of twenty)"
    )


def main() -> None:
    """Compares the arms that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger")
    parser.add_argument("law")
    parser.add_argument("prefixes", nargs="+")
    given = parser.parse_args()
    ledger = open_ledger(given.ledger)
    with ledger.read() as connection:
        entry = loaded_entry(connection, law_entries.find(connection, given.law))
    predictor = LawPredictor(entry, subject_of(entry.kind))
    for prefix in given.prefixes:
        for with_own in (False, True):
            compare(predictor, ledger, prefix, with_own)


if __name__ == "__main__":
    main()
