"""A rung is read once: its verifier is constructed when the file is read, and everything else derives from it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.errors import SpecError, UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.verification.verifier_contract import Verifier

TEXT = """
campaign: once
subject: molecule
objectives: [{property: logp, min: 0}]
ladder:
  - {verifier: molecule.checks}
  - {verifier: bad.noop, gate: {logp: {min: 0}}}
goal: {kind: hits, count: 1}
budget: {proposals: 1}
proposer: {kind: screen, file: molecules.smi}
workers: 1
"""


def test_each_verifier_is_constructed_once_from_the_file_to_the_first_step(
    misbehaving: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constructed: Counter[str] = Counter()
    construct = Verifier.__init__

    def counting(self: Verifier[Any], *arguments: Any, **named: Any) -> None:
        constructed[self.name] += 1
        construct(self, *arguments, **named)

    monkeypatch.setattr(Verifier, "__init__", counting)
    (tmp_path / "molecules.smi").write_text("C\n")
    spec = parse_spec(TEXT, base=tmp_path)
    built = create_or_open(Ledger(str(tmp_path / "once.db")), spec, TEXT, "me").built
    with Driver(built) as driver:
        driver.step()
    assert constructed == {"molecule.safety": 1, "molecule.checks": 1, "bad.noop": 1}


@pytest.mark.parametrize(
    ("charges", "stated", "basis"),
    [
        ("[0]", "", "def2-SVP"),
        ("[-1, 0]", "", "def2-SVPD"),
        ("[-1, 0]", "basis: def2-TZVP", "def2-TZVP"),
        ("[-1, 0]", "functional: r2SCAN-3c", ""),
    ],
)
def test_where_anions_are_allowed_a_basis_that_is_not_stated_is_diffuse(
    charges: str, stated: str, basis: str, tmp_path: Path
) -> None:
    (tmp_path / "molecules.smi").write_text("C\n")
    text = TEXT.replace(
        "{verifier: molecule.checks}", f"{{verifier: molecule.checks, settings: {{charges: {charges}}}}}"
    )
    spec = parse_spec(
        text.replace(
            "{verifier: bad.noop, gate: {logp: {min: 0}}}", f"{{verifier: pyscf.scf, settings: {{{stated}}}}}"
        ),
        base=tmp_path,
    )
    assert spec.ladder[-1].configured.settings.basis == basis
    assert spec.canonical()["ladder"][-1]["settings"]["basis"] == basis


def test_a_changed_default_ends_no_campaign(tmp_path: Path) -> None:
    """A campaign goes on with the basis set that it began with, although a later version has another default."""
    (tmp_path / "molecules.smi").write_text("C\n")
    rung = "{verifier: pyscf.solvation, settings: {grid: 1}}"
    text = TEXT.replace("{verifier: bad.noop, gate: {logp: {min: 0}}}", rung)
    before = parse_spec(text.replace("grid: 1", "grid: 1, basis: def2-SVP"), base=tmp_path)
    ledger = Ledger(str(tmp_path / "a.db"))
    create_or_open(ledger, before, text, "me")
    now = parse_spec(text, base=tmp_path)
    assert now.ladder[-1].configured.settings.basis == "def2-SVPD"
    for built in (
        open_stored(ledger, "once", "me").built,
        open_campaign_for_people(ledger, "once"),
        create_or_open(ledger, now, text, "me").built,
    ):
        assert built.spec.ladder[-1].configured.settings_hash == before.ladder[-1].configured.settings_hash
    for stated, change in (("grid: 1, basis: def2-SVPD", "def2-SVPD"), ("basis: def2-SVP", "grid")):
        edited = text.replace("grid: 1", stated)
        with pytest.raises(UsageError, match=rf"another spec:\n .*{change}"):
            create_or_open(ledger, parse_spec(edited, base=tmp_path), edited, "me")


def test_a_rung_given_to_two_campaigns_has_a_verifier_of_its_own_in_each(tmp_path: Path) -> None:
    (tmp_path / "molecules.smi").write_text("C\n")
    parts = parse_spec(TEXT.replace("  - {verifier: bad.noop, gate: {logp: {min: 0}}}\n", ""), base=tmp_path)
    given = {name: getattr(parts, name) for name in CampaignSpec.model_fields if name in parts.model_fields_set}
    other = CampaignSpec.model_validate(given | {"campaign": "twice"})
    assert [spec.ladder[1].configured.scope for spec in (parts, other)] == ["once", "twice"]


def test_a_setting_that_is_needed_is_asked_for_where_the_file_gives_no_settings(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"ladder\[0\]\.settings\.references: required, and missing"):
        parse_spec(TEXT.replace("{verifier: molecule.checks}", "{verifier: molecule.novelty}"), base=tmp_path)


def test_a_gate_names_the_setting_that_hides_its_property(tmp_path: Path) -> None:
    settings = "{fmax: 0.01, known_phases: none}"
    rung = f"{{verifier: mlff.relax, settings: {settings}, gate: {{energy_above_known_phases: {{max: 0}}}}}}"
    text = TEXT.replace("{verifier: bad.noop, gate: {logp: {min: 0}}}", rung).replace(": molecule\n", ": crystal\n")
    with pytest.raises(SpecError, match=r"does not measure .*\n +it does without `known_phases: none`"):
        parse_spec(text.replace("molecule.checks", "crystal.checks"), base=tmp_path)
    asked = text.replace(", gate: {energy_above_known_phases: {max: 0}}", "").replace(
        "property: logp, min: 0", "property: energy_above_known_phases, max: 0, unit: eV/atom"
    )
    (tmp_path / "salt.csv").write_text("structure\nrocksalt Na Cl\n")
    asked = asked.replace("molecules.smi", "salt.csv")
    with pytest.raises(SpecError, match=r'no rung .*\n +rung "mlff_relax" measures it without `known_phases: none`'):
        parse_spec(asked.replace("molecule.checks", "crystal.checks"), base=tmp_path)


def test_inline_counts_in_the_hash_only_where_it_is_set(misbehaving: Path, tmp_path: Path) -> None:
    (tmp_path / "molecules.smi").write_text("C\n")

    def read(inline: str) -> CampaignSpec:
        rung = f"{{rung: quick, verifier: bad.quick{inline}}}"
        return parse_spec(TEXT.replace("{verifier: bad.noop, gate: {logp: {min: 0}}}", rung), base=tmp_path)

    unset, off, on = read(""), read(", inline: false"), read(", inline: true")
    assert unset.identity_hash == off.identity_hash != on.identity_hash
    assert "inline" not in unset.canonical()["ladder"][-1]
    assert [spec.ladder[-1].limits.wall_seconds for spec in (unset, on)] == [600, 60]
