from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.campaign.file.campaign_spec import CampaignSpec, cores, load_spec, parse_spec
from sciagent.campaign.file.rungs import LimitsSpec
from sciagent.domain.evidence_keys_and_pooled_replicates import canonical_json
from sciagent.errors import SpecError
from sciagent.inputs.yaml_validation import file_hash
from tests.campaign.fake_verifiers import CAMPAIGN, Scf, changed, make_folder  # noqa: F401


@pytest.fixture
def spec(folder: Path) -> CampaignSpec:
    return parse_spec(CAMPAIGN, base=folder)


def test_what_the_file_says_is_what_the_spec_holds(spec: CampaignSpec, folder: Path) -> None:
    assert (spec.campaign, spec.subject, spec.seed, spec.standardise) == ("dyes", "molecule", 1, "refuse")
    assert [rung.rung for rung in spec.ladder] == ["checks", "dft"]
    assert (spec.terminal, spec.terminal_position, spec.workers) == ("dft", 1, 2)
    assert spec.budget.stocks() == {"core_seconds": 3600}
    assert spec.budget.rungs == {"dft": 12}
    assert spec.base == folder
    assert spec.base / "seeds.csv" == folder / "seeds.csv"


def test_the_spec_is_frozen(spec: CampaignSpec) -> None:
    with pytest.raises(ValidationError):
        spec.seed = 2
    with pytest.raises(ValidationError):
        spec.ladder[0].rung = "other"


def test_a_rung_makes_its_verifier(spec: CampaignSpec) -> None:
    verifier = spec.ladder[1].configured
    assert isinstance(verifier, Scf)
    assert (verifier.settings.functional, verifier.settings.geometry.conformers) == ("B3LYP", 3)


def test_null_is_a_value_among_settings(folder: Path) -> None:
    spec = changed(folder, ("functional: B3LYP", "dispersion: null"))
    assert spec.ladder[1].configured.settings.dispersion is None


def test_limits_and_refusals_default_by_tier(spec: CampaignSpec, folder: Path) -> None:
    checks, dft = spec.ladder
    assert checks.limits == LimitsSpec(wall_seconds=10, memory_mb=2000)
    assert dft.limits == LimitsSpec(wall_seconds=120, memory_mb=8000)
    assert (checks.on_refusal, dft.on_refusal) == ("drop", "skip")
    assert changed(folder, ("limits: {wall_seconds: 120}", "on_refusal: drop")).ladder[1].on_refusal == "drop"


def test_labels_terminal_scheduler_and_workers_have_defaults(folder: Path) -> None:
    spec = changed(
        folder,
        ("rung: checks\n    ", ""),
        ("terminal: dft\n", ""),
        ("scheduler: {kind: thresholds}\n", ""),
        ("workers: 2\n", ""),
        ("seed: 1\n", ""),
    )
    assert spec.ladder[0].rung == "fake_checks"
    assert (spec.terminal, spec.scheduler.kind, spec.workers, spec.seed) == ("dft", "priced", cores(), 0)


def test_a_rung_of_people_is_terminal_only_if_the_file_says_so(folder: Path) -> None:
    with pytest.raises(SpecError, match=r'"dft" and would never run\n +write terminal: fake_bench, or leave it out'):
        changed(folder, ("terminal: dft", "  - verifier: fake.bench"))
    spec = changed(folder, ("terminal: dft", "  - verifier: fake.bench\nterminal: fake_bench"))
    assert (spec.terminal, len(spec.ladder)) == ("fake_bench", 3)
    assert spec.ladder[2].lab is not None and spec.ladder[1].lab is None


def test_the_canonical_form_is_json_without_a_trace_of_the_machine(spec: CampaignSpec, folder: Path) -> None:
    canonical = spec.canonical()
    text = canonical_json(canonical)
    assert json.loads(text) == canonical
    assert str(folder) not in text
    assert canonical["proposer"]["seeds"] == {"name": "seeds.csv", "sha256": file_hash(folder / "seeds.csv")}
    assert canonical["ladder"][1]["settings"] == Scf(spec.ladder[1].settings).settings.model_dump(mode="json")


def test_the_same_campaign_elsewhere_has_the_same_hash(spec: CampaignSpec, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "seeds.csv").write_bytes((spec.base / "seeds.csv").read_bytes())
    (other / "c.yaml").write_text("# a comment\n" + CAMPAIGN)
    assert load_spec(other / "c.yaml").hash == spec.hash


@pytest.mark.parametrize(
    "edit",
    [
        ("sa_score: {max: 4}", "sa_score: {max: 4.0, unit: '1'}"),
        ("seed: 1", "seed: 1\nstandardise: refuse"),
        ("functional: B3LYP", "functional: B3LYP\n      basis: def2-SVP"),
        ("limits: {wall_seconds: 120}", "limits: {wall_seconds: 120.0, memory_mb: 8000}"),
        ("terminal: dft\n", ""),
    ],
)
def test_another_way_to_say_the_same_has_the_same_hash(edit: tuple[str, str], spec: CampaignSpec, folder: Path) -> None:
    assert changed(folder, edit).hash == spec.hash


def test_a_spec_without_a_folder_names_its_files_and_does_not_look_for_them(spec: CampaignSpec) -> None:
    again = CampaignSpec.model_validate(spec.model_dump(exclude_unset=True))
    assert again.canonical()["proposer"]["seeds"] == {"name": "seeds.csv", "sha256": None}


def test_weekly_slots_of_people_need_an_end_under_the_priced_scheduler(folder: Path) -> None:
    people = ("terminal: dft", "  - verifier: fake.bench\nterminal: fake_bench")
    weekly = ("  core_seconds: 3600\n", "  core_seconds: 3600\n  lab_slots: {amount: 5, per: week}\n")
    priced = ("scheduler: {kind: thresholds}", "scheduler: {kind: priced}")
    changed(folder, people, weekly)
    with pytest.raises(SpecError, match="nothing says for how many weeks"):
        changed(folder, people, weekly, priced)
    changed(folder, people, (weekly[0], weekly[1] + "  until: '2027-03-31'\n"), priced)
