"""A campaign whose candidates are protonation states at a pH: names, origins, remarks, look-up by the parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import CampaignSpec, load_spec, parse_spec
from sciagent.campaign.people.import_values import import_file
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.explanation import Explanation, RefusedText
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.errors import SpecError
from sciagent.report.explain_candidate import explain_named
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.campaign_counts_and_remarks import counts
from sciagent.verification.sandbox.host import Worker

SPEC = """
campaign: blood
subject: molecule
standardise: {ph: 7.4}
objectives:
  - {property: logp, max: 2}
ladder:
  - verifier: molecule.checks
    settings: {charges: [-1, 0, 1]}
goal: {kind: hits}
budget: {proposals: 50}
proposer: {kind: screen, file: acids.csv}
scheduler: {kind: exhaustive}
"""
ACIDS = """name,smiles
acetic acid,CC(=O)O
glycine,NCC(=O)O
phenol,Oc1ccccc1
sodium benzoate,[Na+].O=C([O-])c1ccccc1
benzoic acid,O=C(O)c1ccccc1
deuterated,[2H]OC(C)=O
broken one,C1CC
"""


@pytest.fixture
def built(tmp_path: Path) -> Built:
    (tmp_path / "acids.csv").write_text(ACIDS)
    file = tmp_path / "blood.yaml"
    file.write_text(SPEC)
    return create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), SPEC, "test").built


def test_states_keep_names_and_tell_their_origin(built: Built, tmp_path: Path) -> None:
    with Driver(built, workers=1) as driver:
        driver.run()
    (tmp_path / "measured.csv").write_text("smiles,logp\nCC(=O)O,-3.0\n")
    at_ph = {"columns": [Column("logp", "logp")], "level": Level("experiment"), "ph": 7.4}
    import_file(built.ledger, tmp_path / "measured.csv", **at_ph)
    with built.ledger.read() as connection:
        row = campaigns.get(connection, "blood")
        found = {candidate.smiles: candidate for candidate in best(connection, row, 20)}
        notes = counts(connection, row).notes
    story = explain_named(built.ledger, "CC(=O)O", "blood")
    names = {smiles: list(c.names["name"]) for smiles, c in found.items()}
    [remark, none] = found["O=C([O-])c1ccccc1"].names["standardised"]
    assert remark.startswith("sodium removed") and none == "n/a"
    assert names == {
        "CC(=O)[O-]": ["acetic acid"],
        "[NH3+]CC(=O)[O-]": ["glycine"],
        "Oc1ccccc1": ["phenol"],
        "O=C([O-])c1ccccc1": ["sodium benzoate", "benzoic acid"],
        "[2H]OC(C)=O": ["deuterated"],
    }
    assert notes == (
        "pH 7.4: 1 candidate has more than one protonation state within the spread of the pKa; the dominant one was "
        "taken (see sciagent explain): [NH3+]CC(=O)[O-]",
        "pH 7.4: 1 candidate has no protonation state that was found; the structure was left as it is (see sciagent "
        "explain): [2H]OC(C)=O",
        "not read: C1CC: unclosed ring for input: 'C1CC'; name broken one",
    )
    assert (
        isinstance(story, Explanation)
        and story.smiles == "CC(=O)[O-]"
        and story.key == parse_molecule("CC(=O)[O-]").key
    )
    [campaign] = story.campaigns
    assert campaign.proposed[0].detail == "protonated at pH 7.4 from CC(=O)O"
    assert [value.value for value in found["CC(=O)[O-]"].imported] == [-3.0]
    refused = explain_named(built.ledger, "broken one", "blood")
    assert isinstance(refused, RefusedText) and [each.text for each in refused.refused] == ["C1CC"]
    with Worker(tmp_path) as worker:
        bench = CampaignWorkbench(built, worker)
        assert bench.known(parse_molecule("CC(=O)O")) and not bench.known(parse_molecule("CCC(=O)O"))


def parsed(text: str) -> CampaignSpec:
    return parse_spec(text, name="blood.yaml", base=Path(), candidates=False)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("{pH: 7.4}", 'standardise.pH: unknown key; did you mean "ph"'),
        ("{ph: 17}", "standardise.ph: must be at most 14, not 17"),
        ("7.4", "standardise: must be refuse, parent or a mapping, not the number 7.4"),
        ("parrent", '"parrent" is not known here; did you mean "parent"'),
    ],
)
def test_mistakes_in_the_file_are_named(stated: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        parsed(SPEC.replace("{ph: 7.4}", stated))
    assert message in str(refused.value)


def test_a_rung_that_would_drop_every_ion_by_default_is_a_mistake() -> None:
    with pytest.raises(SpecError, match=r"standardise\.ph makes ions, and molecule\.checks allows net charge 0"):
        parsed(SPEC.replace("    settings: {charges: [-1, 0, 1]}\n", ""))


def test_without_a_ph_the_spec_and_its_hash_stay_as_they_were() -> None:
    plain = parsed(SPEC.replace("{ph: 7.4}", "parent"))
    assert plain.canonical()["standardise"] == "parent"
    assert parsed(SPEC.replace("{ph: 7.4}", "{fragments: parent}")).hash == plain.hash
    assert parsed(SPEC).canonical()["standardise"] == {"fragments": "parent", "ph": 7.4}
