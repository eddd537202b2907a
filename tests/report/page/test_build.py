"""What the report says, and that nothing anybody wrote can act in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states import Standing
from sciagent.report.page.build import as_json, page
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.reported import GFN2, Maker, dyes, gap, spec
from tests.support.rows import new_evidence

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><b onclick=alert(3)>$x$ --> ]]>"


class Parsed(HTMLParser):
    """Elements with their attributes, text by element, scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._script: dict[str, str | None] | None = None
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._style = tag == "style"
        if tag == "script":
            self._script = dict(attrs)
            self.scripts.append((self._script, ""))

    def handle_endtag(self, tag: str) -> None:
        self._script, self._style = None, False

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[-1] = (self._script, self.scripts[-1][1] + data)
        elif not self._style:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def rendered(made: Maker) -> str:
    with made.ledger.read() as connection:
        return page(connection, made.row, made.ledger.artifacts)


@pytest.fixture(scope="module")
def html(told: Maker) -> str:
    return rendered(told)


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def test_a_chemists_questions_are_answered(parsed: Parsed) -> None:
    for needed in (
        "2 hits",
        "12 candidates from 14 proposals; 5 verified.",
        "Best: c1ccccc1 with HOMO-LUMO gap 4.30 ± 0.03 eV.",
        "2 of 2 clear of the limits",
        "PBE0/def2-SVP",
        "orbital gap, not optical",
        "6.3 core-minutes",
        "13% was wasted",
        "3.15 core-minutes a hit",
        "9 candidates",
        "1 proposal could not be read or taken.",
        "what is left of the budget holds no further job",
        "Gaps of small molecules.",
    ):
        assert needed in parsed.text, needed


def test_values_have_unit_level_and_uncertainty_or_say_that_nobody_knows_it(parsed: Parsed) -> None:
    assert "4.30 ± 0.03 eV r2 · PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10" in parsed.text
    assert "4.55 eV (± ?)" in parsed.text


def test_lineage_and_provenance_stand_with_the_number(parsed: Parsed) -> None:
    assert "add atom of CCO , by evolve, turn 3" in parsed.text
    assert "conjugation lowers the gap" in parsed.text
    assert re.search(
        r"Evidence \d+ \([0-9a-f]{12}\), revision 0, replicate 0; \d{4}-\d\d-\d\d .* engine 1\.2", parsed.text
    )


def test_losses_reuse_imports_blocks_and_words_of_people_are_told(parsed: Parsed) -> None:
    for needed in (
        "HOMO-LUMO gap above window 2",
        "scf not converged",
        "wall limit",
        "kills workers",
        "unparsable",
        "C1CC",
        "explosive",
        "this campaign, earlier",
        "4.4 ± 0.1 eV",
        "lab.csv",
        "ask Grace first",
        "hold Oc1ccccc1",
    ):
        assert needed in parsed.text, needed


def test_an_orbital_gap_is_compared_by_rank_alone(parsed: Parsed) -> None:
    assert "Spearman 1.00, too few pairs for an interval. No MAE: the scale belongs to the method." in parsed.text


def test_computed_values_stand_against_imported_ones(ledger_of: Ledger, tmp_path: Path) -> None:
    """Solvation free energies share a scale whatever their level: mean absolute and mean difference are given."""
    made = Maker(ledger_of, tmp_path)
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O"))
    measured, computed = (-0.22, -0.217, -0.21, -0.205, -0.206), (-0.2, -0.21, -0.2, -0.195, -0.196)
    for i, (x, y) in enumerate(zip(measured, computed, strict=True)):
        made.answer(i, 2, Measured("solvation_free_energy", Level("SMD", phase="water"), Quantity(y, "eV", 0.01)))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, score=0.5)
        known = Measured("solvation_free_energy", Level("experiment", phase="water"), Quantity(x, "eV", 0.01))
        with made.ledger.begin() as connection:
            new = new_evidence(made.ids[i], known, verifier="import", subject=str(i), source="freesolv.csv")
            evidence.record(connection, [new])
    text = Parsed(rendered(made)).text
    assert "solvation free energy: imported values against r2 , n = 5." in text
    assert "MAE 0.0114 eV, mean difference +0.0114 eV." in text


def test_every_section_that_is_linked_is_there(parsed: Parsed) -> None:
    ids = [a["id"] for _, a in parsed.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    links = [a["href"] for tag, a in parsed.elements if tag == "a"]
    assert links and {link for link in links if (link or "")[1:] not in ids} == set()


def test_nothing_is_fetched_from_anywhere(parsed: Parsed) -> None:
    for tag, attributes in parsed.elements:
        for name in ("src", "href", "data", "action", "poster", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)


def test_only_the_scripts_that_the_policy_names_run(parsed: Parsed) -> None:
    [policy] = [a["content"] or "" for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy
    script_part = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe-inline" not in script_part and "'self'" not in script_part
    active = [text for attributes, text in parsed.scripts if attributes.get("type") != "application/json"]
    assert len(active) == 2
    for text in active:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in script_part


def test_the_file_is_small(html: str) -> None:
    assert len(html.encode()) < 1_500_000


def test_the_data_of_the_table_is_what_the_ledger_has(parsed: Parsed) -> None:
    data = json.loads(next(text for attributes, text in parsed.scripts if attributes.get("id") == "data"))
    assert len(data["rows"]) == 12 and len(data["geometries"]) == 6
    assert data["rows"][0][1] == "c1ccccc1" and data["rows"][0][9] == [4.3, "4.30 ± 0.03"]


def hostile_elements(parsed: Parsed) -> list[Any]:
    acting = [
        (tag, a)
        for tag, a in parsed.elements
        if tag in ("img", "iframe", "object", "b") or any(name.startswith("on") for name in a)
    ]
    return acting + [a for a, text in parsed.scripts if text.lstrip().startswith("alert")]


def test_what_people_and_models_wrote_cannot_act(ledger_of: Any, tmp_path: Path) -> None:
    made = dyes(
        ledger_of,
        tmp_path,
        description=HOSTILE,
        proposer={"kind": HOSTILE},
        ladder=[one | {"settings": {HOSTILE: HOSTILE}} for one in spec()["ladder"]],
    )
    made.enter(("CCCC",), rationale=HOSTILE, predicted={HOSTILE: HOSTILE})
    level = type(GFN2)(method=HOSTILE)
    made.answer(12, 1, gap(2.2, level), seconds=1.0)
    made.answer(12, 2, gap(4.2, level), seconds=1.0)
    made.place(
        12,
        Standing.SETTLED,
        2,
        verdict="pass",
        reason=HOSTILE[:60],
        detail=HOSTILE,
        depth=2,
        score=0.99,
        utility=0.99,
        is_hit=True,
    )
    with made.ledger.begin() as connection:
        made.propose(connection, HOSTILE, "refused", reason="unparsable", detail=HOSTILE)
    found = Parsed(rendered(made))
    assert hostile_elements(found) == []
    assert found.text.count("alert(2)") > 8  # it is all shown, as text


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = as_json([HOSTILE, "\u2028"])
    assert "<" not in text and "\u2028" not in text and json.loads(text) == [HOSTILE, "\u2028"]


@pytest.fixture
def ledger_of(migrated_sqlite: Path, tmp_path: Path) -> Any:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    opened = Ledger(str(path), artifacts=tmp_path / "artifacts")
    yield opened
    opened.close()


def test_a_campaign_that_has_not_begun(ledger_of: Ledger, tmp_path: Path) -> None:
    text = Parsed(rendered(Maker(ledger_of, tmp_path))).text
    for needed in (
        "no hit yet",
        "No candidate has been proposed yet.",
        "Nothing has been measured",
        "No candidates yet.",
    ):
        assert needed in text, needed


def test_a_campaign_of_failures_only(ledger_of: Ledger, tmp_path: Path) -> None:
    made = Maker(ledger_of, tmp_path)
    made.enter(("C", "CC"))
    for i in range(2):
        made.place(i, Standing.DROPPED, 0, verdict="fail", reason="too_small", detail="1 heavy atom")
    text = Parsed(rendered(made)).text
    assert "2 at r0: too small." in text and "Nothing has been measured at a paid rung yet." in text


def test_a_campaign_for_the_best_shows_utility_and_no_hits(ledger_of: Ledger, tmp_path: Path) -> None:
    ramp = {
        "property": "homo_lumo_gap",
        "direction": "maximise",
        "unit": "eV",
        "accept": None,
        "ramp": [2, 6],
        "weight": 1,
    }
    made = Maker(ledger_of, tmp_path, objectives=[ramp], goal={"kind": "best", "count": 3})
    made.enter(("C", "CC", "CCC"))
    for i in range(3):
        made.answer(i, 2, gap(3.0 + i, GFN2), seconds=10)
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, score=0.3 + i / 10, utility=0.25 * (i + 1))
    found = Parsed(rendered(made))
    assert "3 verified" in found.text and "Its utility is 0.75 of 1." in found.text
    assert "maximise HOMO-LUMO gap, from 2 (worst) to 6 eV (best)" in found.text
    assert "Best utility so far against the cost" in found.text and "hit" not in found.text.split("What was asked")[0]


def test_an_artifact_that_is_gone_leaves_the_rest_of_the_report(ledger_of: Ledger, tmp_path: Path) -> None:
    made = dyes(ledger_of, tmp_path)
    for path in made.ledger.artifacts.root.rglob("*"):
        if path.is_file():
            path.unlink()
    found = Parsed(rendered(made))
    assert "2 hits" in found.text
    assert not any("view3d" in (a.get("class") or "") for _, a in found.elements)
