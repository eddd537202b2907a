"""What can be bought, what can be made of it, and who says so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.sandbox.host import Limits, Request, Worker
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.fast.molecule_descriptor_functions import sa_score
from sciagent_verifiers.fast.molecule_synthesis import MoleculeSynthesis
from tests.verifiers.references import plugin, shelf
from tests.verifiers.synthesised import PARACETAMOL, values, verify

__all__ = ["plugin", "shelf"]


def test_without_files_it_is_the_sa_score_alone(tmp_path):
    [finding] = MoleculeSynthesis().verify([parse_molecule(PARACETAMOL)], Context(tmp_path, tmp_path))
    assert values(finding) == {"sa_score": sa_score(parse_molecule(PARACETAMOL).mol)}
    assert values(finding)["sa_score"] == pytest.approx(1.41, abs=0.05)  # Ertl's scale: easy


@pytest.mark.parametrize(
    ("smiles", "bought"),
    [
        ("CC(O)=O", True),
        ("Oc1ccc(N)cc1", True),
        ("CN", True),  # its salt is on the shelf
        ("N[C@@H](C)C(=O)O", True),
        ("N[C@H](C)C(=O)O", False),  # the other enantiomer
        ("CCO", False),
    ],
)
def test_what_is_on_the_shelf_is_purchasable_however_it_is_written(shelf, smiles, bought):
    finding = verify(shelf, smiles)
    assert values(finding)["purchasable"] == bought
    assert ("building_block" in finding.diagnostics) == bought


def test_by_connectivity_the_other_enantiomer_will_do(shelf):
    assert values(verify(shelf, "N[C@H](C)C(=O)O", match="connectivity"))["purchasable"] == 1


def test_no_route_is_refused_or_left_out_as_the_campaign_wishes(shelf):
    refused = verify(shelf, "C1CCCCC1", routes="brics")
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.NO_ROUTE)
    assert refused.detail == "brics finds no way to it from 9 building blocks"
    allowed = verify(shelf, "C1CCCCC1", routes="brics", no_route="allow")
    assert set(values(allowed)) == {"sa_score", "purchasable"}


def test_what_identifies_a_result_holds_the_finder_its_version_and_all_its_settings(shelf):
    def hash_of(**settings: Any) -> str:
        return MoleculeSynthesis({"building_blocks": ["blocks.csv"], **settings}, shelf).settings_hash

    whole = {"finder": "brics", "version": "1", "settings": {"max_steps": 3, "max_cuts": 200}}
    assert hash_of(routes="brics") == hash_of(routes=whole)
    assert hash_of(routes="brics") != hash_of(routes={"finder": "brics", "settings": {"max_steps": 2}})
    assert hash_of() != hash_of(match="connectivity")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"building_blocks": [], "routes": "brics"}, "routes need building_blocks"),
        ({"routes": "bricks"}, 'unknown route finder "bricks"; did you mean "brics"'),
        ({"routes": {"finder": "brics", "version": "0"}}, "version 1 of brics is installed, not 0"),
        ({"routes": {"finder": "brics", "settings": {"max_steps": 50}}}, "from 1 to 5"),
        ({"routes": {"finder": "brics", "settings": {"depth": 2}}}, "unknown: depth; takes: max_steps, max_cuts"),
        ({"building_blocks": ["blocks.csv", "blocks.csv"]}, "two files have one name"),
        ({"building_blocks": ["missing.csv"]}, "does not exist"),
    ],
)
def test_wrong_settings_are_refused(shelf, settings, message):
    with pytest.raises(ValidationError, match=message):
        MoleculeSynthesis({"building_blocks": ["blocks.csv"], **settings}, shelf)


def test_a_file_without_the_column_is_a_bad_environment_that_says_so(shelf):
    (shelf / "blocks.csv").write_text("structure\nCCO\n")
    finding = verify(shelf, "CCO")
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE)
    assert 'no column "smiles"' in finding.detail


def test_a_third_party_s_finder_runs_in_the_host(shelf, plugin, tmp_path):
    settings = {"building_blocks": ["blocks.csv"], "routes": "recap"}
    verifier = MoleculeSynthesis(settings, shelf)
    assert [one.level.label for one in verifier.measures][-1] == "recap 3 into blocks.csv"
    molecules = tuple(map(parse_molecule, ("CC(=O)N1CCOCC1", "CC(=O)NC1CCCCC1")))
    with Worker(tmp_path / "scratch") as worker:
        made, none = worker.run(Request(verifier.name, verifier.request_settings, molecules))
        assert values(made.finding)["synthesis_steps"] == 1
        assert made.finding.diagnostics["route"][0]["name"] == "RECAP"
        assert none.finding.reason is Reason.NO_ROUTE
        for finder, expected in (("liar", Reason.BAD_RESULT), ("endless", Reason.WALL_LIMIT)):
            settings = MoleculeSynthesis({**settings, "routes": finder}, shelf).request_settings
            limits = Limits(wall_seconds=1.0)
            [result] = worker.run(Request(verifier.name, settings, molecules[:1], limits))
            assert result.finding.reason is expected
            assert not result.finding.outcome.rule.is_evidence


@pytest.mark.parametrize(("name", "message"), [("nameless", "is no RouteFinder"), ("absent", "does not load")])
def test_what_is_no_finder_is_refused_with_the_campaign(shelf, plugin, name, message):
    with pytest.raises(ValidationError, match=message):
        MoleculeSynthesis({"building_blocks": ["blocks.csv"], "routes": name}, shelf)
