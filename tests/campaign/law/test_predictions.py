"""Predictions of a law, with the own answers of a campaign, and beside what others measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rdkit import Chem
from rdkit.Chem import QED

from sciagent.campaign.law import law_commands, predictions
from sciagent.campaign.law.fit_law import fit_law, read_campaigns
from sciagent.campaign.law.predictions import AskedStructure, LawPredictor
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

NAMES = ["alcohols", "acids", "nitriles"]


def test_own_answers_count_beside_the_past(two: tuple[Ledger, Ledger]) -> None:
    first, _ = two
    past = fit_law(read_campaigns([first], ["alcohols"]))
    [own] = read_campaigns([first], ["acids"])
    predictor = LawPredictor(past, subject_of("molecule"))
    [with_own] = predictor.predict([AskedStructure("CCCCCCCCCC(=O)O", 0)], own=own)
    [without] = predictor.predict([AskedStructure("CCCCCCCCCC(=O)O", 0)])
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
    found = predictor.predict([AskedStructure(notation, 0) for notation, _ in of_acids.values()], own=own)
    assert [each.quantities[0].known for each in found] == [value for _, value in of_acids.values()]
    nearest = {other.notation for each in found for other in each.quantities[0].nearest}
    assert len(nearest & {notation for notation, _ in of_acids.values()}) == 2


def test_a_charge_or_a_stereoisomer_that_was_never_measured_has_a_caveat(two: tuple[Ledger, Ledger]) -> None:
    first, _ = two
    entry = fit_law(read_campaigns([first], ["alcohols", "acids"]))
    predictor = LawPredictor(entry, subject_of("molecule"))
    asked = [("CCCCCC(=O)O", 0), ("CCCCCC(=O)[O-]", -1), ("CCC[C@H](C)O", 0)]
    known, charged, plain = (
        each.quantities[0] for each in predictor.predict([AskedStructure(*each) for each in asked])
    )
    assert known.caveat is None and plain.caveat is None
    [thiol] = predictor.predict([AskedStructure("CCCCCS", 0)])
    assert thiol.quantities[0].caveat == "fewer than 5 measured structures have S"
    assert charged.caveat == "fewer than 5 measured structures have the charge -1" and charged.held is None
    chiral = [
        replace(row, notation="CCC[C@H](C)O") if row.notation == "CCCCCO" else row for row in entry.quantities[0].rows
    ]
    law = replace(entry.quantities[0], rows=tuple(chiral))
    of_other = LawPredictor(replace(entry, quantities=(law,)), subject_of("molecule"))
    [mirrored] = of_other.predict([AskedStructure("CCC[C@@H](C)O", 0)])
    assert mirrored.quantities[0].caveat == "the law cannot tell it from CCC[C@H](C)O, as it sees no stereo"
