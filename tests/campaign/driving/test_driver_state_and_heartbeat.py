"""How a campaign ends, and how it goes on after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.api.best_table import best_of
from sciagent.api.campaign import LedgerView
from sciagent.api.displayed_answers import budget_line
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing.briefing_and_workbench import digest
from sciagent.domain.answers.explanation import Explanation
from sciagent.domain.states_and_needs import CampaignState
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.report.prometheus_metrics import LedgerCollector
from sciagent.store.campaign_state import campaigns
from sciagent.store.views import campaign_counts_and_remarks
from tests.campaign.driving.test_driver import last_rung, opened
from tests.support.campaigns import write_campaign


@pytest.mark.long
def test_the_last_places_of_a_budget_by_count_survive_an_interruption(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C=C", "C=O"), scheduler="thresholds", dft=2, workers=2)
    file.write_text(file.read_text().replace("grid: 0", "grid: 5"))  # long enough to be interrupted
    with Driver(opened(tmp_path, file)) as driver:
        while len([k for k in driver.session.crews[0].by_id.values() if k.rung.rules.is_terminal]) < 2:
            assert driver.step() is None
        driver.abort()
        assert driver.run() is CampaignState.INTERRUPTED
    built = opened(tmp_path, file)
    assert last_rung(built).model_dump() | {"core_seconds": 0, "spent": {}} == {
        "rung": "dft",
        "tier": "high_fidelity",
        "done": 0,
        "passed": 0,
        "failed": 0,
        "inconclusive": 0,
        "errors": 0,
        "core_seconds": 0,
        "jobs": 2,
        "running": 2,
        "spent": {},
    }
    with Driver(built) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    assert last_rung(built).done == 2


PYRIDONES = """
campaign: pyridones
subject: molecule
objectives:
  - {property: homo_lumo_gap, window: [0.5, 20], unit: eV}
ladder:
  - rung: checks
    verifier: molecule.checks
  - rung: xtb
    verifier: xtb.singlepoint
    settings: {geometry: {conformers: 1}}
goal: {kind: hits, count: 2}
budget: {core_seconds: 600}
proposer: {kind: screen, file: molecules.csv, batch: 1}
scheduler: {kind: exhaustive}
workers: 1
"""


MOLECULES = ("smiles,name", "Oc1ccccn1,hydroxy", "O=c1cccc[nH]1,oxo", "C=O,third", "C=C,fourth")


@pytest.fixture(scope="module")
def pyridones(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The campaign after its end."""
    folder = tmp_path_factory.mktemp("pyridones")
    file = folder / "pyridones.yaml"
    file.write_text(PYRIDONES.lstrip())
    (folder / "molecules.csv").write_text("\n".join(MOLECULES))
    with Driver(opened(folder, file)) as driver:
        assert driver.run() is CampaignState.FINISHED
    return opened(folder, file)


def test_two_tautomers_are_two_hits_and_one_of_the_compounds_that_were_asked_for(pyridones: Built) -> None:
    """2-hydroxypyridine and 2-pyridone have one standard InChIKey: the campaign goes on until a second compound is a
    hit, and does not look at the fourth molecule."""
    with pyridones.ledger.read() as connection:
        row = campaigns.get(connection, "pyridones")
        counts = campaign_counts_and_remarks.counts(connection, row)
        best = best_of(connection, row, 10)
    assert (counts.hits, counts.distinct_hits, last_rung(pyridones).jobs) == (3, 2, 3)
    assert counts.stop_reason == "3 hits, 2 distinct; 2 were asked for"
    others = {candidate.name: [other.name for other in candidate.same_compound] for candidate in best}
    assert others | {"fourth": []} == {"hydroxy": ["oxo"], "oxo": ["hydroxy"], "third": [], "fourth": []}
    pair = "Oc1ccccn1 (hydroxy): tautomer of O=c1cccc[nH]1 (oxo), which counts once with it"
    assert pair in list(best.notes())
    explanation = explain_named(pyridones.ledger, "hydroxy", "pyridones")
    assert isinstance(explanation, Explanation)
    lines = [paragraph.text for paragraph in paragraphs(explanation)]
    assert "It is a tautomer of O=c1cccc[nH]1 (oxo), which counts once with it." in lines


def test_whoever_states_the_hits_states_how_many_are_distinct(pyridones: Built, tmp_path: Path) -> None:
    ledger = LedgerView(pyridones.ledger.url.database)
    campaign = ledger.campaign("pyridones")
    with pyridones.ledger.read() as connection:
        told = digest(connection, pyridones)
        metrics = {metric.name: metric for metric in LedgerCollector(pyridones.ledger).collect()}
    assert "3 hits, 2 distinct" in repr(campaign) and "3 hits, 2 distinct" in budget_line(campaign.status())
    assert "3, 2 distinct" in repr(ledger.campaigns()) and ledger.campaigns()[0].distinct_hits == 2
    assert "Hits so far: 3, 2 distinct; tautomers of one compound count once." in told.splitlines()
    assert [metrics[f"sciagent_campaign_{name}"].samples[0].value for name in ("hits", "distinct_hits")] == [3, 2]
    page = campaign.report(tmp_path / "report.html").path.read_text()
    assert "3 hits, 2 distinct" in page
    assert "A tautomer of O=c1cccc[nH]1 (oxo), which counts once with it." in page
