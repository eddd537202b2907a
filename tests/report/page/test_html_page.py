"""What the report says, and that nothing anybody wrote can act in it."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.report.page.html_page import environment
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.pages import Parsed, rendered
from tests.support.reported import GFN2, Maker, dyes, gap, spec
from tests.support.rows import new_evidence

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><b onclick=alert(3)>$x$ --> ]]>"


def test_an_orbital_gap_is_compared_by_rank_alone(parsed: Parsed) -> None:
    assert "Spearman 1.00, too few pairs for an interval. No MAE: the scale belongs to the method." in parsed.text


def test_computed_values_stand_against_imported_ones(own_ledger: Ledger, tmp_path: Path) -> None:
    """Solvation free energies share a scale whatever their level: mean absolute and mean difference are given."""
    made = Maker(own_ledger, tmp_path)
    made.enter(("CO", "CCO", "CCCO", "CCCCO", "CC(C)O"))
    measured, computed = (-0.22, -0.217, -0.21, -0.205, -0.206), (-0.2, -0.21, -0.2, -0.195, -0.196)
    for i, (x, y) in enumerate(zip(measured, computed, strict=True)):
        made.answer(i, 2, Measured("solvation_free_energy", Level("SMD", phase="water"), Quantity(y, "eV", 0.01)))
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, expected=0.5)
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


def hostile_elements(parsed: Parsed) -> list[Any]:
    acting = [
        (tag, a)
        for tag, a in parsed.elements
        if tag in ("img", "iframe", "object", "b") or any(name.startswith("on") for name in a)
    ]
    return acting + [a for a, text in parsed.scripts if text.lstrip().startswith("alert")]


def test_what_people_and_models_wrote_cannot_act(own_ledger: Any, tmp_path: Path) -> None:
    made = dyes(
        own_ledger,
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
        expected=0.99,
        utility=0.99,
        is_hit=True,
    )
    with made.ledger.begin() as connection:
        made.propose(connection, HOSTILE, "refused", reason="unparsable", detail=HOSTILE)
    found = Parsed(rendered(made))
    assert hostile_elements(found) == []
    assert found.text.count("alert(2)") > 8  # it is all shown, as text


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = environment().from_string("{{ value|tojson }}").render(value=[HOSTILE, "\u2028"])
    assert "<" not in text and "\u2028" not in text and json.loads(text) == [HOSTILE, "\u2028"]


def test_a_campaign_that_has_not_begun(own_ledger: Ledger, tmp_path: Path) -> None:
    text = Parsed(rendered(Maker(own_ledger, tmp_path))).text
    for needed in (
        "no hit yet",
        "No candidate has been proposed yet.",
        "Nothing has been measured",
        "No candidates yet.",
    ):
        assert needed in text, needed
