"""Rank correlation and its interval against SciPy; and a judge in a campaign."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from scipy.stats import spearmanr

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import observation_schema
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.errors import SpecError
from sciagent.report.page.html_page import page
from sciagent.report.parts.rung_and_judge_agreement import agreement, interval, judge_agreements, spearman
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import sciagent
from tests.support.chat_server import ChatServer, answer


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_scipys_with_ties(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(0, 6, 40).astype(float)
    y = x + random.integers(0, 4, 40)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_what_does_not_vary_has_no_rank_correlation() -> None:
    assert spearman(np.ones(6), np.arange(6.0)) is None


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Bivariate normal, r = 0.7, whose rho is 6/pi asin(r/2) (Kruskal 1958); 95 % within the noise of 600 draws."""
    random, r, n = np.random.default_rng(1), 0.7, 25
    truth = 6 / np.pi * np.arcsin(r / 2)
    covered = 0
    for _ in range(600):
        x = random.standard_normal(n)
        y = r * x + np.sqrt(1 - r * r) * random.standard_normal(n)
        low, high = interval(float(spearman(x, y) or 0.0), n) or (1.0, 1.0)
        covered += low <= truth <= high
    assert 0.92 <= covered / 600 <= 0.98


def test_ranks_that_agree_fully_have_no_interval_of_width_zero() -> None:
    found = agreement(np.arange(6.0), np.arange(6.0) ** 3, shared_scale=False)
    assert (found.spearman, found.low, found.high) == (pytest.approx(1.0), None, None)


def test_errors_are_given_only_where_the_scale_is_shared() -> None:
    x, y = np.array([1.0, 2, 3, 4, 5]), np.array([1.5, 2.5, 2.5, 4.5, 5.5])
    shared, own = agreement(x, y, True), agreement(x, y, False)
    assert shared.mae == pytest.approx(0.5) and shared.bias == pytest.approx(0.3)
    assert own.mae is None and own.bias is None and own.spearman == shared.spearman


def test_too_few_pairs_say_nothing() -> None:
    assert agreement(np.arange(4.0), np.arange(4.0), True).spearman is None


RUBRIC = """\
name: light
criteria:
  - name: small
    question: Is it small?
    scale: {0: "no", 1: "rather", 2: "yes"}
  - name: carbon
    question: Does it hold carbon?
    scale: {0: "no", 1: "yes"}
    gate: 1
"""
JUDGE = """\
  - rung: judge
    verifier: lm.judge
    settings: {{rubric: rubric.yml, model: m-1, endpoint: "{url}", votes: 3}}
"""
XTB = """\
  - rung: xtb
    verifier: xtb.singlepoint
    settings: {geometry: {conformers: 1}}
"""
REST = """\
goal: {kind: best, count: 3}
budget: {proposals: 20, llm_tokens: 5000}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
workers: 2
"""
JUDGED = "  - property: judged_score\n    min: 0.5\n"
GAP = "  - property: homo_lumo_gap\n    maximise: [2.0, 20.0]\n    unit: eV\n"
MOLECULES = ("C", "CCCCCC", "O", "CC", "CCO", "C=C", "C#C", "c1ccccc1")
FEW = MOLECULES[:3]


def text(url: str, objectives: str, ladder: str, name: str = "opinions", rest: str = REST) -> str:
    rungs = ladder.replace("JUDGE", JUDGE.format(url=url)).replace("XTB", XTB)
    return f"campaign: {name}\nsubject: molecule\nobjectives:\n{objectives}ladder:\n{rungs}{rest}"


def grade(body: dict[str, Any], number: int) -> tuple[int, Any]:
    """By the figures that the judge is shown, so that molecules differ; votes of one differ by their seed."""
    shown = body["messages"][1]["content"]
    weight = float(re.search(r"molecular weight: ([\d.]+)", shown)[1])  # type: ignore[index]
    small = 2 if weight < 28 else 1 if weight < 60 else 0
    if body["seed"] % 3 == 0:
        small = max(small - 1, 0)
    carbon = int("C" in re.search(r"formula: (\S+)", shown)[1])  # type: ignore[index]
    said = {"small": {"reason": "its weight", "grade": small}, "carbon": {"reason": "its formula", "grade": carbon}}
    return 200, answer(json.dumps(said))


@pytest.fixture(name="server")
def make_server() -> Iterator[ChatServer]:
    server = ChatServer()
    server.respond = grade
    yield server
    server.close()


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Path:
    (tmp_path / "rubric.yml").write_text(RUBRIC)
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES) + "\n")
    return tmp_path


URL = "http://localhost:1/v1"


@pytest.mark.parametrize(
    ("objectives", "ladder", "terminal", "said"),
    [
        (GAP, "XTBJUDGE", "xtb", 'is an opinion and comes after "xtb"'),
        (JUDGED, "XTBJUDGE", "", 'is an opinion and comes after "xtb"'),
        (JUDGED, "JUDGEXTB", "judge", "is an opinion and is the terminal rung"),
    ],
)
def test_it_does_not_outrank_a_calculation(
    folder: Path, objectives: str, ladder: str, terminal: str, said: str
) -> None:
    rest = (f"terminal: {terminal}\n" if terminal else "") + REST
    with pytest.raises(SpecError) as found:
        parse_spec(text(URL, objectives, ladder, rest=rest), base=folder)
    assert re.search(rf"campaign.yaml:\d+:\d+: ladder\[\d\].verifier: .*{said}", str(found.value))
    assert 'let "xtb" decide' in str(found.value)


def test_below_a_calculation_or_alone_it_is_taken(folder: Path) -> None:
    assert parse_spec(text(URL, GAP, "JUDGEXTB"), base=folder).terminal == "xtb"
    alone = parse_spec(text(URL, JUDGED, "JUDGE"), base=folder)
    assert alone.terminal == "judge"
    assert alone.canonical()["ladder"][-1]["gate"] == {"judged_margin": [0.0, None]}  # the rubric's own
    mine = text(URL, JUDGED, "JUDGE").replace("votes: 3}", "votes: 3}\n    gate: {judged_margin: {min: -0.5}}")
    assert parse_spec(mine, base=folder).canonical()["ladder"][-1]["gate"] == {"judged_margin": [-0.5, None]}


def test_what_is_wrong_in_the_rubric_is_said_with_the_place_of_its_name(folder: Path) -> None:
    (folder / "rubric.yml").write_text(RUBRIC.replace("gate: 1", "gate: 5"))
    with pytest.raises(SpecError, match=r"settings\.rubric.*the gate of carbon is 5; its scale ends at 1"):
        parse_spec(text(URL, JUDGED, "JUDGE"), base=folder)
    (folder / "rubric.yml").unlink()
    with pytest.raises(SpecError, match=r"does not exist"):
        parse_spec(text(URL, JUDGED, "JUDGE"), base=folder)


def test_its_content_and_not_its_place_is_what_the_campaign_is(folder: Path) -> None:
    one = parse_spec(text(URL, JUDGED, "JUDGE"), base=folder).identity_hash
    assert parse_spec(text("http://elsewhere:2/v1", JUDGED, "JUDGE"), base=folder).identity_hash == one
    (folder / "rubric.yml").write_text(RUBRIC.replace("Is it small?", "Is it light?"))
    assert parse_spec(text(URL, JUDGED, "JUDGE"), base=folder).identity_hash != one


def test_the_law_reads_the_score_and_not_the_gate(folder: Path) -> None:
    source = text(URL, GAP, "JUDGEXTB").replace("exhaustive", "priced")
    ledger = Ledger(str(folder / "sciagent.db"))
    found = observation_schema(create_or_open(ledger, parse_spec(source, base=folder), source, "me").built)
    assert found is not None
    assert [(c.at, c.property) for c in found.columns] == [
        (0, "judged_margin"),
        (0, "judged_score"),
        (1, "homo_lumo_gap"),
    ]
    assert found.aims.aims[0].columns == (0, 1, 2)
    assert found.trusted == frozenset()


def test_alone_it_decides_and_the_report_says_so(folder: Path, server: ChatServer) -> None:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(FEW) + "\n")
    (folder / "c.yaml").write_text(text(server.url, JUDGED, "JUDGE"))
    status = sciagent("run", "c.yaml", "--quiet", "--no-report", "--json", cwd=folder, expect=None)
    assert status["state"] == "finished"
    rung = status["rungs"][-1]
    assert (rung["rung"], rung["done"]) == ("judge", len(FEW))
    # small and carbon count alike: water fails its gate, hexane scores 0.5 at the limit
    assert status["hits"] == status["hits_by_tier"]["simulation"] == 2
    tokens = status["spent"]["llm_tokens"]
    assert tokens == 10 * len(server.bodies) == 10 * 3 * len(FEW)  # as the server counted, not as declared
    assert status["opinions"] == []
    ledger = Ledger(str(folder / "sciagent.db"))
    with ledger.read() as connection:
        row = campaigns.get(connection, "opinions")
        assert "A language model has judged, by a rubric" in page(connection, row, ledger.artifacts)
        held = connection.execute(
            sa.select(t.cost_observation.c.amount, t.cost_observation.c.declared).where(
                t.cost_observation.c.resource == "llm_tokens"
            )
        ).all()
        assert all(amount == 30 < declared for amount, declared in held) and len(held) == len(FEW)
        stored = connection.execute(sa.select(t.rung.c.settings).where(t.rung.c.name == "judge")).scalar_one()
        assert stored["rubric"]["criteria"][1]["question"] == "Does it hold carbon?" and "endpoint" not in stored
    # another campaign asks again, for an opinion is not reused; the same one does not
    asked = len(server.bodies)
    sciagent("resume", "opinions", "--quiet", "--no-report", cwd=folder, expect=None)
    assert len(server.bodies) == asked
    (folder / "d.yaml").write_text(text(server.url, JUDGED, "JUDGE", name="others"))
    other = sciagent("run", "d.yaml", "--quiet", "--no-report", "--json", cwd=folder, expect=None)
    assert other["reused"] > 0 and other["rungs"][-1]["jobs"] == len(FEW)  # what was computed is reused
    assert len(server.bodies) == 2 * asked


def test_under_a_calculation_its_agreement_is_told(folder: Path, server: ChatServer) -> None:
    (folder / "c.yaml").write_text(text(server.url, GAP, "JUDGEXTB"))
    status = sciagent("run", "c.yaml", "--quiet", "--no-report", "--json", cwd=folder, expect=None)
    [one] = status["opinions"]
    assert (one["rung"], one["against"], one["n"]) == ("judge", "xtb", 7)  # water missed the gate
    assert one["spearman"] > 0.4  # the gap of small molecules is wide
    assert -1 < one["bias"] < 1 and one["low"] < one["spearman"] < one["high"]
    ledger = Ledger(str(folder / "sciagent.db"))
    with ledger.read() as connection:
        row = campaigns.get(connection, "opinions")
        assert plain(judge_agreements(connection, row)) == [one]
        shown = page(connection, row, ledger.artifacts)
    assert f"ranks candidates as xtb does with Spearman {one['spearman']:.2f}" in shown
    assert "A language model has judged" not in shown


def test_a_server_that_is_away_leaves_no_evidence_and_no_score(folder: Path, server: ChatServer) -> None:
    server.respond = lambda body, n: (404, {"error": {"message": "no such model"}})
    (folder / "molecules.csv").write_text("smiles\nC\n")
    (folder / "c.yaml").write_text(text(server.url, JUDGED, "JUDGE"))
    status = sciagent("run", "c.yaml", "--quiet", "--no-report", "--json", cwd=folder, expect=None)
    assert (status["rungs"][-1]["errors"], status["hits"]) == (1, 0)
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        of_judges = t.evidence.c.verifier == "lm.judge"
        assert connection.execute(sa.select(sa.func.count()).where(of_judges)).scalar_one() == 0
        reasons = connection.execute(
            sa.select(t.attempt.c.reason, t.attempt.c.detail).where(t.attempt.c.reason.is_not(None))
        ).all()
    assert status["spent"].get("llm_tokens", 0) == 0  # nobody answered
    assert {reason for reason, _ in reasons} == {"model_unreachable"}
    assert all("404" in detail for _, detail in reasons)
