"""The safety screen in a campaign: it is there unasked, its blocks are on record, it goes off only with a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.campaign.file.subject_and_safety import is_reason
from sciagent.campaign.people.verify_calculate_and_add import verify_one
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import SpecError, UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

TEXT = """\
campaign: screened
subject: molecule
seed: 1
objectives:
  - property: sa_score
    max: 5
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {descriptors: [sa_score]}
goal: {kind: hits}
budget: {proposals: 50}
proposer: {kind: screen, file: molecules.csv}
workers: 1
"""
TNT, PHOSGENE, TEA = "Cc1c(cc(cc1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]", "ClC(Cl)=O", "OCCN(CCO)CCO"
WHY = "solvents of the wash station are looked at"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "molecules.csv").write_text(f"smiles\nCCO\n{TNT}\n{PHOSGENE}\nc1ccccc1\n{TEA}\n")
    return tmp_path


def spec_of(folder: Path, more: str = "", text: str = TEXT) -> CampaignSpec:
    return parse_spec(text + more, base=folder)


def labels(spec: CampaignSpec) -> list[str]:
    return [rung.rung for rung in spec.ladder]


def mistake(folder: Path, more: str, text: str = TEXT) -> str:
    with pytest.raises(SpecError) as caught:
        parse_spec(text + more, "a.yaml", folder)
    return str(caught.value)


def run(built: Built) -> CampaignState:
    with Driver(built, workers=1) as driver:
        return driver.run()


def events(ledger: Ledger, kind: str) -> list[dict[str, Any]]:
    with ledger.read() as connection:
        rows = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == kind).order_by(t.event.c.id))
        return [dict(row[0]) for row in rows]


def test_the_screen_is_the_first_rung_though_the_file_does_not_name_it(folder: Path) -> None:
    spec = spec_of(folder)
    assert labels(spec) == ["molecule_safety", "checks"]
    assert (spec.terminal, spec.terminal_position) == ("checks", 1)
    assert spec.ladder[0].on_refusal == "drop"
    assert spec.safety_note == ""
    assert spec.canonical()["safety"] == {"screen": True, "allow": [], "extra_smarts": [], "reason": ""}


def test_naming_it_makes_the_same_campaign(folder: Path) -> None:
    named = TEXT.replace("ladder:\n", "ladder:\n  - verifier: molecule.safety\n")
    assert spec_of(folder, text=named).identity_hash == spec_of(folder).identity_hash


def test_places_of_mistakes_are_those_of_the_file(folder: Path) -> None:
    assert "a.yaml:10:16: ladder[0].settings.descriptor" in mistake(
        folder, "", TEXT.replace("{descriptors", "{descriptor")
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("safety: {screen: false}\n", "safety.reason: turning the safety screen off needs a reason"),
        ('safety: {screen: false, reason: "because"}\n', "turning the safety screen off needs a reason"),
        ('safety: {screen: false, reason: "x x x x x x x x x x"}\n', "turning the safety screen off needs a reason"),
        ("safety: {allow: [polynitro]}\n", "safety.reason: exempting safety rules needs a reason"),
        (f"safety: {{allow: [polynitr], reason: {WHY}}}\n", 'allow[0]: no safety rule is named "polynitr"; did you'),
        (f"safety: {{allow: [arsenic], reason: {WHY}}}\n", "is a safety rule for crystals, not for molecules"),
        (
            "safety: {extra_elements: [{name: a, elements: [Pb], reason: no lead in here}]}\n",
            "it takes allow, extra_smarts",
        ),
        (f"safety: {{scren: false, reason: {WHY}}}\n", 'unknown key; did you mean "screen"?'),
        (f"safety: {{screen: false, allow: [azide], reason: {WHY}}}\n", "would have no effect"),
        ("safety: {extra_smarts: [{name: a, smarts: 'C(', reason: no pattern at all}]}\n", "extra_smarts[0].smarts"),
    ],
)
def test_it_is_softened_only_with_a_reason_and_by_names_there_are(folder: Path, more: str, said: str) -> None:
    assert said in mistake(folder, more)


CRYSTALS = """\
campaign: screened
subject: crystal
objectives: [{property: density, min: 5, unit: g/mL}]
ladder: [{rung: checks, verifier: crystal.checks}]
goal: {kind: hits}
budget: {proposals: 50}
proposer: {kind: screen, file: molecules.csv}
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "allow: [cwc-3b17-triethanolamine]",
            "is a safety rule for molecules, not for crystals; docs/crystal_safety.md",
        ),
        ("extra_smarts: [{name: a, smarts: CC, reason: not in here}]", "it takes allow, extra_elements"),
        ("extra_elements: [{name: a, elements: [Xx], reason: not in here}]", "Xx"),
    ],
)
def test_rules_of_molecules_are_refused_for_crystals(folder: Path, more: str, said: str) -> None:
    assert said in mistake(folder, f"safety: {{{more}, reason: {WHY}}}\n", CRYSTALS)


def test_elements_of_ones_own_are_refused(folder: Path) -> None:
    more = "safety: {extra_elements: [{name: house-lead, elements: [Pb], reason: our laboratory takes no lead}]}\n"
    [rule] = spec_of(folder, more, CRYSTALS).ladder[0].settings["extra_elements"]
    assert rule["name"] == "house-lead" and rule["group"] == "acute_hazard"


def in_ladder(rungs: str) -> str:
    return TEXT.replace("goal:", f"{rungs}goal:")


def first(rung: str) -> str:
    return TEXT.replace("ladder:\n", f"ladder:\n  - {rung}\n")


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (in_ladder("  - verifier: molecule.safety\n"), "", "puts the safety screen first"),
        (first("{verifier: molecule.safety, on_refusal: skip}"), "", "leave this rung out"),
        (first("{verifier: molecule.safety, settings: {allow: [azide]}}"), "", "leave this rung out"),
        (first("verifier: molecule.safety"), f"safety: {{screen: false, reason: {WHY}}}\n", "leave this rung out"),
        (TEXT.replace("rung: checks", "rung: molecule_safety"), "", "is the label of the safety screen"),
    ],
)
def test_a_ladder_that_names_it_cannot_get_round_it(folder: Path, text: str, more: str, message: str) -> None:
    assert message in mistake(folder, more, text)


def test_off_with_a_reason_it_is_gone_and_the_reason_is_kept(folder: Path) -> None:
    spec = spec_of(folder, f"safety: {{screen: false, reason: {WHY}}}\n")
    assert labels(spec) == ["checks"]
    assert spec.canonical()["safety"]["reason"] == WHY
    assert spec.safety_note == f"the safety screen is off: {WHY}"
    assert spec.identity_hash != spec_of(folder).identity_hash


def test_a_single_rule_is_exempted_with_a_reason(folder: Path) -> None:
    spec = spec_of(folder, f"safety: {{allow: [cwc-3b17-triethanolamine], reason: {WHY}}}\n")
    assert spec.ladder[0].settings == {"allow": ["cwc-3b17-triethanolamine"]}
    assert spec.safety_note == f"exempt from the safety screen: cwc-3b17-triethanolamine: {WHY}"


@pytest.mark.parametrize(
    ("text", "good"), [(WHY, True), ("", False), ("none needed", False), ("a b c d e f g h i j", False)]
)
def test_a_reason_says_something(text: str, good: bool) -> None:
    assert is_reason(text) is good


def test_what_is_blocked_is_evidence_and_an_event(folder: Path, ledger: Ledger) -> None:
    built = create_or_open(ledger, spec_of(folder), TEXT, "ann").built
    run(built)
    blocked = events(ledger, "safety_blocked")
    assert [(b["rule"], b["reason"], b["text"]) for b in blocked] == [
        ("polynitro", "explosive", TNT),
        ("cwc-3a01-phosgene", "chemical_weapon", PHOSGENE),
        ("cwc-3b17-triethanolamine", "chemical_weapon", TEA),
    ]
    assert all(re.fullmatch("[0-9a-f]{64}", b["key"]) for b in blocked)
    with ledger.read() as connection:
        e = t.evidence.c
        query = sa.select(e.verifier, e.outcome, sa.func.count()).group_by(e.verifier, e.outcome)
        kept = {tuple(row) for row in connection.execute(query)}
    assert kept == {("molecule.safety", "refused", 3), ("molecule.safety", "ok", 2), ("molecule.checks", "ok", 2)}
    assert events(ledger, "driver_started")[0]["safety"] == "on"


def test_an_exemption_lets_its_rule_pass_and_nothing_else(folder: Path, ledger: Ledger) -> None:
    more = f"safety: {{allow: [cwc-3b17-triethanolamine], reason: {WHY}}}\n"
    run(create_or_open(ledger, spec_of(folder, more), TEXT + more, "ann").built)
    assert [b["rule"] for b in events(ledger, "safety_blocked")] == ["polynitro", "cwc-3a01-phosgene"]


def test_a_campaign_does_not_change_its_screen_on_the_way(folder: Path, ledger: Ledger) -> None:
    create_or_open(ledger, spec_of(folder), TEXT, "ann")
    more = f"safety: {{screen: false, reason: {WHY}}}\n"
    with pytest.raises(UsageError, match=r"safety\.screen: true -> false"):
        create_or_open(ledger, spec_of(folder, more), TEXT + more, "ann")
    with ledger.read() as connection:
        assert "safety" in campaigns.get(connection, "screened").spec


def test_one_molecule_is_refused_and_logged_or_verified_with_a_reason(folder: Path, ledger: Ledger) -> None:
    spec = spec_of(folder)
    found = verify_one(ledger, spec, PHOSGENE, "ann")
    assert (found.verdict, found.reason, len(found.rungs)) == ("fail", "chemical_weapon", 1)
    assert [(b["rule"], b["operation"]) for b in events(ledger, "safety_blocked")] == [("cwc-3a01-phosgene", "verify")]
    found = verify_one(ledger, spec.without_screen(WHY), PHOSGENE, "ann")
    assert [rung.rung for rung in found.rungs] == ["checks"]
    assert [(b["reason"], b["who"]) for b in events(ledger, "safety_off")] == [(WHY, "ann")]
