"""Law entries: the same for any order of campaigns, as JSON and back."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import QED

from sciagent.campaign.law.fit_law import fit_law, read_campaigns
from sciagent.campaign.law.law_entries import LawEntry
from sciagent.store.database.ledger import Ledger

NAMES = ["alcohols", "acids", "nitriles"]


def test_an_entry_is_the_same_for_any_order_of_ledgers_and_campaigns(two: tuple[Ledger, Ledger]) -> None:
    entry = fit_law(read_campaigns(two, NAMES))
    again = fit_law(read_campaigns(two[::-1], NAMES[::-1]))
    assert again == entry and again.hash == entry.hash
    assert LawEntry.from_text(entry.text()) == entry
    [law] = entry.quantities
    assert (entry.kind, entry.campaigns, law.name, law.unit) == (
        "molecule",
        ("acids", "alcohols", "nitriles"),
        "qed",
        "1",
    )
    assert len(law.rows) == 48 and {row.group for row in law.rows} == {0, 1, 2}
    for row in law.rows[::7]:
        assert row.value == pytest.approx(QED.qed(Chem.MolFromSmiles(row.notation)), abs=1e-6)
    assert law.calibration.groups == 3 and law.calibration.n == 48, "each campaign was left out"
    fewer = fit_law(read_campaigns(two, NAMES[:2]))
    assert fewer.hash != entry.hash and fewer.quantities[0].calibration.groups > 1, "families were left out"
