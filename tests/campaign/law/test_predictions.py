"""Predictions of a law, with the own answers of a campaign, and beside what others measured."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import QED

from sciagent.campaign.law import law_commands, predictions
from sciagent.campaign.law.fit_law import fit_law, read_campaigns
from sciagent.campaign.law.predictions import LawPredictor
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

NAMES = ["alcohols", "acids", "nitriles"]


def test_own_answers_count_beside_the_past(two: tuple[Ledger, Ledger]) -> None:
    first, _ = two
    past = fit_law(read_campaigns([first], ["alcohols"]))
    [own] = read_campaigns([first], ["acids"])
    predictor = LawPredictor(past, subject_of("molecule"))
    [with_own] = predictor.predict(["CCCCCCCCCC(=O)O"], own=own)
    [without] = predictor.predict(["CCCCCCCCCC(=O)O"])
    truth = QED.qed(Chem.MolFromSmiles("CCCCCCCCCC(=O)O"))
    error, before = (abs(each.quantities[0].value - truth) for each in (with_own, without))
    assert error < before / 2 and with_own.quantities[0].uncertainty < without.quantities[0].uncertainty
    assert with_own.quantities[0].nearest[0].notation == "CCCCCCCCC(=O)O"


def test_a_check_leaves_out_what_the_law_knows(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    law_commands.fit(first, "some", ["alcohols"], who="anna")
    found = law_commands.check(first, "some", ["alcohols", "acids"])
    [quantity] = found.quantities
    assert found.known == 16 and quantity.held.n == 16
    assert sum(each.n for each in found.chances) == 16 and quantity.held.median_error is not None
    with pytest.raises(UsageError, match="knows all 16 candidates"):
        law_commands.check(first, "some", ["alcohols"])
    law_commands.fit(second, "some", ["nitriles"], who="anna")
    with pytest.raises(UsageError, match="with other settings, unlike the law"):
        law_commands.check(second, "some", ["others"])


def test_few_of_many_own_answers_count_and_all_are_known(
    two: tuple[Ledger, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two
    past = fit_law(read_campaigns([first], ["alcohols"]))
    [own] = read_campaigns([first], ["acids"])
    monkeypatch.setattr(predictions, "MOST_OWN", 2)
    predictor = LawPredictor(past, subject_of("molecule"))
    of_acids = own.values["qed"]
    found = predictor.predict([notation for notation, _ in of_acids.values()], own=own)
    assert [each.quantities[0].known for each in found] == [value for _, value in of_acids.values()]
    nearest = {other.notation for each in found for other in each.quantities[0].nearest}
    assert len(nearest & {notation for notation, _ in of_acids.values()}) == 2
