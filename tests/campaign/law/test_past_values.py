"""A proposer reads the values of its own campaign and of others, and a law begins from a past."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import QED

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.law import fit_law as fitting
from sciagent.campaign.law import law_commands
from sciagent.campaign.law import past_values as past_module
from sciagent.campaign.law.fit_law import campaign_values
from sciagent.campaign.law.past_values import past_values, values_of_law
from sciagent.campaign.planning.expected_hits_and_rung_worth import plan
from sciagent.campaign.proposing import proposal_novelty
from sciagent.campaign.proposing.proposal_novelty import measured_candidates
from sciagent.errors import SpecError, UnknownNameError, UsageError
from sciagent.scheduling.law.similarity import order_of, smallest_hashes
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.campaign.law.conftest import TEXT, driven

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
MOLECULES = tuple(f"{'C' * n}{end}" for n in range(2, 10) for end in ("O", "N", "C(=O)O", "c1ccccc1"))


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Files of the proposers."""
    (tmp_path / "molecules.csv").write_text("\n".join(("smiles", *MOLECULES, "")), encoding="utf-8")
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nCCN\n", encoding="utf-8")


def test_the_past_is_what_the_same_rung_had_measured_before_the_campaign_was_made(
    ledger: Ledger, tmp_path: Path
) -> None:
    earlier = driven(ledger, tmp_path, "earlier", "{kind: screen, file: molecules.csv}")
    law = "{kind: law, seeds: seeds.csv, pool: 32, from: [earlier], only_new: true}"
    built = driven(ledger, tmp_path, "later", law, proposals=20)
    driven(ledger, tmp_path, "after", "{kind: screen, file: seeds.csv}")
    with ledger.read() as connection:
        past = past_values(connection, built, ["earlier"])
        measured = measured_candidates(connection, built)
        assert past_values(connection, earlier, ["later"]) == {}, "it came later"
        with pytest.raises(UnknownNameError):
            past_values(connection, built, ["nowhere"])
        counts = campaign_counts_and_remarks.counts(connection, built.row)
    assert set(past) == {"qed"} and set(past["qed"].values) == set(MOLECULES) and past["qed"].fitted is None
    for text in MOLECULES[::5]:
        assert past["qed"].values[text] == pytest.approx(QED.qed(Chem.MolFromSmiles(text)), abs=1e-6)
    children = {each.text for each in measured} - {"CCO", "CCN"}
    assert counts.candidates == 20 and len(children) > 10 and not children & set(MOLECULES)


def test_of_many_the_smallest_hashes_are_remembered_and_misses_as_well_as_hits(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = driven(ledger, tmp_path, "earlier", "{kind: screen, file: molecules.csv}")
    with ledger.read() as connection:
        whole = campaign_values(connection, built).values["qed"]
        monkeypatch.setattr(past_module, "MAX_PAST", 8)
        monkeypatch.setattr(fitting, "MAX_PAST", 8)
        monkeypatch.setattr(past_module, "READ_AT_ONCE", 3)
        few = campaign_values(connection, built).values["qed"]
        later = dataclasses.replace(built.row, created_at=datetime(2100, 1, 1, tzinfo=UTC))
        built.row = later
        past = past_values(connection, built, ["earlier"])["qed"]
        monkeypatch.setattr(proposal_novelty, "MAX_MEASURED", 4)
        shown = measured_candidates(connection, built)
    smallest = [sorted(whole)[place] for place in smallest_hashes(order_of(sorted(whole)), 8)]
    assert len(whole) == len(MOLECULES) and set(few) == set(smallest)
    assert set(past.values) == {whole[key][0] for key in smallest}
    assert {each.key for each in shown} == set(whole), "the best four and the latest, which are misses"
    orders = [each.worth.order for each in shown]
    assert orders == sorted(orders, reverse=True), "best first"


def test_a_campaign_without_values_of_the_same_level_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    driven(ledger, tmp_path, "earlier", "{kind: screen, file: molecules.csv}")
    with pytest.raises(UsageError, match='campaign "earlier" has no values of checks: a law remembers'):
        driven(ledger, tmp_path, "other", "{kind: law, seeds: seeds.csv, from: [earlier]}", elements="[H, C, N, O, S]")
    with pytest.raises(UnknownNameError):
        driven(ledger, tmp_path, "other", "{kind: law, seeds: seeds.csv, from: [nowhere]}")


def test_a_campaign_remembers_the_version_of_a_law_with_which_it_began(ledger: Ledger, tmp_path: Path) -> None:
    driven(ledger, tmp_path, "earlier", "{kind: screen, file: molecules.csv}")
    first = law_commands.fit(ledger, "qeds", ["earlier"], who="anna")
    law = "{kind: law, seeds: seeds.csv, pool: 32, law: qeds, only_new: true}"
    built = driven(ledger, tmp_path, "later", law, proposals=20)
    newer = law_commands.fit(ledger, "qeds", ["earlier", "later"], who="anna")
    with ledger.read() as connection:
        past = values_of_law(connection, built, "qeds")
        measured = measured_candidates(connection, built)
    quantity = first.quantities[0]
    assert set(past["qed"].values) == set(MOLECULES) and newer.hash != first.hash
    held = past["qed"].fitted
    assert held is not None and held.transform == quantity.transform
    assert math.exp(held.log_hyper[2]) == pytest.approx(quantity.noise)
    children = {each.text for each in measured} - {"CCO", "CCN"}
    assert len(children) > 10 and not children & set(MOLECULES)
    assert law_commands.show(ledger, first.law).used_by == ("later",)
    with pytest.raises(UsageError, match="is used by later"):
        law_commands.delete(ledger, first.law)


def test_a_law_of_another_level_property_or_name_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    driven(ledger, tmp_path, "earlier", "{kind: screen, file: molecules.csv}")
    law_commands.fit(ledger, "qeds", ["earlier"], who="anna")
    law = "{kind: law, seeds: seeds.csv, law: qeds}"
    with pytest.raises(UsageError, match=r"has its qed by molecule\.checks with other settings, unlike qeds@"):
        driven(ledger, tmp_path, "other", law, elements="[H, C, N, O, S]")
    text = TEXT.format(name="other", proposer=law, proposals=9, elements="[H, C, N, O, S]")
    with pytest.raises(UsageError, match=r"with other settings, unlike qeds@"):
        plan(parse_spec(text, base=tmp_path), ledger)
    with pytest.raises(UnknownNameError, match="qedss"):
        driven(ledger, tmp_path, "other", "{kind: law, seeds: seeds.csv, law: qedss}")
    both = "{kind: screen, file: seeds.csv, filter: {from: [earlier], law: qeds}}"
    with pytest.raises(SpecError, match="either campaigns or a law"):
        driven(ledger, tmp_path, "other", both)
