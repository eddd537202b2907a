"""Laws in the ledger, as the commands fit, show, use and delete them."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import QED

from sciagent.api.campaign import LedgerView
from sciagent.campaign.law import law_commands
from sciagent.campaign.law.fit_law import fit_law, read_campaigns
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.errors import LedgerError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

NAMES = ["alcohols", "acids", "nitriles"]


def given(*texts: str) -> list[StructureRecord]:
    return [StructureRecord(number, text) for number, text in enumerate(texts)]


def test_predictions_have_an_error_an_interval_a_chance_and_the_nearest_measured(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    shown = law_commands.fit(first, "qeds", NAMES, others=[second], who="anna")
    assert law_commands.show(first, "qeds") == shown and law_commands.listed(first)[0].law == shown.law
    found = law_commands.predict(first, given("CCCCCCCCCCO", "CCCO", "nonsense"), law="qeds", campaign="acids")
    assert [each.text for each in found.unread] == ["nonsense"]
    new, known = (each.quantities[0] for each in found.structures)
    truth = QED.qed(Chem.MolFromSmiles("CCCCCCCCCCO"))
    assert new.low < truth < new.high and abs(new.value - truth) < 0.05 and new.known is None
    assert new.nearest[0].notation == "CCCCCCCCCO" and 0.8 < new.nearest[0].similarity < 1
    assert known.known == pytest.approx(QED.qed(Chem.MolFromSmiles("CCCO")), abs=1e-6)
    assert found.structures[0].p_hit == pytest.approx(new.chance) and 0 <= (new.chance or 0) <= 1
    assert law_commands.predict(first, given("CCCO"), law="qeds").structures[0].p_hit is None, "no objective was named"
    nitroglycerin, thiol = law_commands.predict(
        first, given("O=[N+]([O-])OCC(CO[N+](=O)[O-])O[N+](=O)[O-]", "CCCCS"), law="qeds", campaign="acids"
    ).structures
    assert nitroglycerin.p_hit == 0 and (nitroglycerin.missed or "").startswith("explosive: ")
    assert thiol.p_hit == 0 and (thiol.missed or "").startswith("element: ")
    alone = law_commands.predict(first, given("CCCCCCCCCC(=O)O"), campaign="acids")
    assert alone.law == "acids" and alone.structures[0].quantities[0].nearest[0].notation == "CCCCCCCCC(=O)O"
    with pytest.raises(UsageError, match="name a law or a campaign"):
        law_commands.predict(first, given("CCO"))


def test_a_version_that_no_campaign_uses_is_deleted_and_a_changed_one_is_found(two: tuple[Ledger, Ledger]) -> None:
    first, _ = two
    shown = law_commands.fit(first, "few", ["alcohols"], who="anna")
    assert law_commands.fit(first, "few", ["alcohols"], who="bert").who == "anna", "it is written once"
    newer = law_commands.fit(first, "few", ["alcohols", "acids"], who="anna")
    assert newer.before == shown.hash
    assert law_commands.delete(first, shown.law).law == shown.law
    assert law_commands.show(first, "few").before == shown.hash
    with first.begin() as connection:
        content = fit_law(read_campaigns([first], ["acids"])).text()
        connection.execute(t.law_entry.update().where(t.law_entry.c.hash == newer.hash).values(content=content))
    with pytest.raises(LedgerError, match="has been changed"):
        law_commands.predict(first, given("CCO"), law="few")
    assert np.isfinite(newer.quantities[0].noise)


def test_a_notebook_has_laws_and_predictions_as_tables(two: tuple[Ledger, Ledger]) -> None:
    with LedgerView(two[1].url.database) as ledger:
        shown = ledger.fit_law("notebook", ["nitriles"])
        assert [each.law for each in ledger.laws()] == [shown.law]
        new, unread = ledger.predict(["CCCCCCCCCCC#N", "nonsense"], law="notebook", campaign="nitriles")
    assert new.low is not None and new.high is not None and new.value is not None
    assert new.low < new.value < new.high and new.p_hit is not None and new.nearest == "CCCCCCCCCC#N"
    assert unread.structure == "nonsense" and unread.reason and unread.value is None
