"""The verifier `bench.lead` gives the score of an oracle, and the similarity to the lead without a call."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import UsageError
from sciagent.verification.verifier_contract import Context, Finding
from sciagent.verification.verifier_registry import check_measures, provider, verifier_class
from sciagent_bench.leads.lead_verifier import BenchLead, oracle, similarity
from sciagent_bench.pmo.scoring_functions import molecule

UNPACKED = Path(__file__).parent / "molscore"
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def verifier(**settings: Any) -> BenchLead:
    return BenchLead({"lead": ASPIRIN, "oracle": "QED", **settings}, UNPACKED.parent)


def found(chosen: BenchLead, smiles: str, folder: Path) -> Finding:
    [finding] = chosen.verify([parse_molecule(smiles)], Context(folder, folder))
    return finding


def test_it_is_installed_under_its_name_and_measures_registered_properties() -> None:
    assert verifier_class("bench.lead") is BenchLead
    check_measures(verifier(), provider("bench.lead"))


@pytest.mark.parametrize(
    ("smiles", "published"),
    [
        # the best three of Jin, Barzilay, Jaakkola, ICML 2018, table 2
        ("ClC1=CC=C2C(C=C(C(C)=O)C(C(NC3=CC(NC(NC4=CC(C5=C(C)C=CC=C5)=CC=C4)=O)=CC=C3)=O)=C2)=C1", 5.30),
        ("ClC(C(Cl)=C1)=CC=C1NC2=CC=CC=C2C(NC(NC3=C(C(NC4=C(Cl)C=CC=C4)=S)C=CC=C3)=O)=O", 4.93),
        ("CC(NC1=CC(C2=CC=CC(NC(NC3=CC=CC(C4=CC(F)=CC=C4)=C3)=O)=C2)=CC=C1)=O", 4.49),
    ],
)
def test_the_penalised_logp_is_the_published_one(smiles: str, published: float) -> None:
    assert oracle("plogP", None)(molecule(smiles)) == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize(
    ("first", "second", "alike", "rise"),
    [
        # diff_vae/results/results.logp04 of github.com/wengong-jin/iclr19-graph2graph
        ("COc1cc2c(cc1OC)CC([NH3+])C2", "COc1cc2c(cc1OC)C([NH3+])c1cc(OC)c(OC)cc1-2", 0.464285714286, 1.47072148768),
        ("OC[C@@H](Br)C(F)(F)Br", "OCC(C(Br)C1CCCC1)C(F)(F)Br", 0.4, 1.39213454941),
        (
            "C[NH+](C)CCS[C@@H]1C[C@H](C(C)(C)C)CC[C@@H]1C#N",
            "C[NH+](C)CCCSC1CC(C(C)(C)C)CCC1C#N",
            0.846153846154,
            0.331246934401,
        ),
    ],
)
def test_similarity_and_rise_are_those_of_the_code_of_jin(first: str, second: str, alike: float, rise: float) -> None:
    score = oracle("plogP", None)
    assert similarity(first, second) == pytest.approx(alike, abs=1e-9)
    assert score(molecule(second)) - score(molecule(first)) == pytest.approx(rise, abs=1e-9)


def test_a_large_ring_is_penalised_by_its_excess() -> None:
    score = oracle("plogP", None)
    rings = {n: score(molecule("C1" + "C" * (n - 2) + "C1")) for n in (6, 8)}
    # two atoms beyond six are 2 / 0.286 less; two more carbon atoms of Crippen's 0.39 and the SA score change the rest
    assert rings[6] - rings[8] == pytest.approx(2 / 0.2860212110245455, abs=1.5)


def test_a_finding_has_score_and_similarity_and_a_glance_the_similarity_alone(tmp_path: Path) -> None:
    chosen = verifier()
    [score, alike] = found(chosen, "CC(=O)Oc1ccccc1C(=O)OC", tmp_path).measured
    assert (score.property, score.level.label, alike.property) == ("lead_score", "RDKit QED", "lead_similarity")
    assert alike.level.label == f"ECFP4/2048 to {ASPIRIN}"
    assert 0.4 < alike.quantity.value < 1
    glanced = chosen.glance(parse_molecule("CC(=O)Oc1ccccc1C(=O)OC"), ("lead_score", "lead_similarity"))
    assert glanced.measured == (alike,)
    assert chosen.glance(parse_molecule("CCO"), ("lead_score",)).measured == ()


def test_the_lead_is_similar_to_itself_whatever_its_stereo(tmp_path: Path) -> None:
    [_, alike] = found(verifier(lead="C[C@H](N)C(=O)O"), "C[C@@H](N)C(=O)O", tmp_path).measured
    assert alike.quantity.value == 1.0


def test_files_that_are_gone_are_a_bad_environment(tmp_path: Path) -> None:
    copied = shutil.copytree(UNPACKED, tmp_path / "copy")
    chosen = verifier(oracle="DRD2", data=str(copied))
    shutil.rmtree(copied)
    finding = found(chosen, "CCO", tmp_path)
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE)
    with pytest.raises(UsageError, match="JNK3 needs MolScore's files"):
        oracle("JNK3", None)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"lead": "not a molecule"}, "RDKit cannot read the SMILES"),
        ({"oracle": "logP"}, "plogP"),
        ({"oracle": "DRD2"}, "DRD2 needs data"),
        ({"data": "molscore"}, "QED reads no data"),
        ({"oracle": "JNK3", "data": "nowhere.whl"}, "neither a wheel of MolScore nor a folder"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        verifier(**settings)
