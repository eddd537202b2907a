"""Laws that are fitted to what campaigns measured, and what is refused."""

from __future__ import annotations

import pytest

from sciagent.campaign.law import fit_law as fitting
from sciagent.campaign.law.fit_law import fit_law, read_campaigns
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database.ledger import Ledger

NAMES = ["alcohols", "acids", "nitriles"]


def test_values_of_another_level_or_kind_and_too_few_are_refused_by_name(
    two: tuple[Ledger, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UsageError, match=r'"others" has its qed by molecule\.checks with other settings, unlike "acids"'
    ):
        fit_law(read_campaigns(two, ["acids", "others"]))
    with pytest.raises(UnknownNameError, match="nowhere"):
        read_campaigns(two, ["acids", "nowhere"])
    with pytest.raises(UnknownNameError, match="dipole"):
        fit_law(read_campaigns(two, ["acids"]), ["dipole"])
    monkeypatch.setattr(fitting, "FEWEST_VALUES", 17)
    with pytest.raises(UsageError, match="16 values of qed in acids: a law takes at least 17"):
        fit_law(read_campaigns(two, ["acids"]))


def test_a_large_past_is_cut_to_the_same_rows_in_any_order(
    two: tuple[Ledger, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "MAX_PAST", 20)
    entry = fit_law(read_campaigns(two, NAMES))
    assert len(entry.quantities[0].rows) == 20
    assert fit_law(read_campaigns(two[::-1], NAMES)).hash == entry.hash
