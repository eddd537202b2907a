"""Runs of lead optimisations are campaigns; only molecules that stay similar count."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent_bench.leads import lead_runs
from sciagent_bench.leads.lead_runs import PROPOSERS, LeadRun, LeadRuns, ScoredMolecule, figures, leads, success_score
from sciagent_bench.leads.lead_verifier import oracle
from sciagent_bench.pmo.scoring_functions import molecule


def test_the_leads_are_what_their_inchikeys_say_and_no_success_as_they_stand() -> None:
    qed = oracle("QED", None)
    assert len(leads()) == 8
    for lead in leads().values():
        assert parse_molecule(lead.smiles).inchikey == lead.inchikey
        assert 0.7 < qed(molecule(lead.smiles)) < 0.8


def run_of(*scored: tuple[float, float], oracle_name: lead_runs.OracleName = "DRD2", seed: int = 1) -> LeadRun:
    """scored: score and similarity of each call."""
    molecules = tuple(ScoredMolecule(f"C{number}", *each) for number, each in enumerate(scored))
    return LeadRun("zolpidem", oracle_name, "law", seed, "name", 0.4, 0.1, molecules)


def test_the_best_molecule_and_the_first_success_are_similar_enough() -> None:
    run = run_of((0.1, 1.0), (0.9, 0.3), (0.5, 0.4), (0.7, 0.6))
    assert run.best == ScoredMolecule("C3", 0.7, 0.6)
    assert run.best_within(2) == ScoredMolecule("C0", 0.1, 1.0)
    assert run.calls_to_success == 3
    assert run_of((0.1, 1.0), (0.9, 0.3), (0.49, 0.5)).calls_to_success is None
    assert run_of((0.9, 0.3)).best is None


def test_a_success_is_a_score_or_a_rise_of_the_penalised_logp() -> None:
    assert success_score("QED", 0.7) == 0.9
    assert success_score("plogP", -1.0) == 2.0
    assert run_of((0.1, 1.0), (3.0, 0.5), (3.2, 0.5), oracle_name="plogP").calls_to_success == 3


def test_figures_are_means_over_seeds_and_curves_have_a_point_after_fifty_calls() -> None:
    first = run_of(*[(0.1, 1.0)] * 60, (0.6, 0.5), *[(0.2, 0.5)] * 39)
    second = run_of(*[(0.2, 1.0)] * 100, seed=2)
    [found] = figures([first, second])["law"]
    assert (found.best, found.best_spread) == (pytest.approx(0.4), pytest.approx(0.2828, abs=1e-3))
    assert (found.successes, found.success_score) == (1, 0.5)
    assert [seed.curve for seed in found.seeds] == [(0.1, 0.6), (0.2, 0.2)]
    assert (found.seeds[0].molecule, found.seeds[0].calls_to_success) == ("C60", 61)
    [alone] = figures([run_of((0.9, 0.3))])["law"]
    assert (alone.best, alone.best_spread, alone.seeds[0].molecule) == (0.1, None, "")


def test_a_run_begins_with_its_lead_stays_similar_and_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = leads()["zolpidem"]
    few = LeadRuns(tmp_path, None, 0.5, 6).run(lead, "QED", "law", PROPOSERS["law"], 1)
    assert few.scored[0] == ScoredMolecule(lead.smiles, few.lead_score, 1.0)
    assert len(few.scored) == 6
    longer = LeadRuns(tmp_path, None, 0.5, 12)
    more = longer.run(lead, "QED", "law", PROPOSERS["law"], 1)
    assert more.scored[:6] == few.scored
    assert len(more.scored) == 12
    assert all(each.similarity >= 0.5 for each in more.scored)
    monkeypatch.setattr("sciagent.api.campaign.Campaign.run", lambda *_, **__: pytest.fail("it has ended"))
    assert longer.run(lead, "QED", "law", PROPOSERS["law"], 1) == more
