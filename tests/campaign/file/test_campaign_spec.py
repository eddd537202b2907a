from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.campaign.file.campaign_spec import AMENDABLE, CampaignSpec, cores, load_spec, parse_spec
from sciagent.campaign.file.rungs import LimitsSpec
from sciagent.domain.evidence import canonical_json
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


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (("seed: 1", "seed: 2"), "seed: 1 -> 2"),
        (("4.6]", "4.7]"), "objectives[homo_lumo_gap].window: [4.0, 4.6] -> [4.0, 4.7]"),
        (("B3LYP", "PBE"), 'ladder[dft].settings.functional: "B3LYP" -> "PBE"'),
        (("conformers: 3", "conformers: 4"), "ladder[dft].settings.geometry.conformers: 3 -> 4"),
        (("{max: 4}", "{max: 5}"), "ladder[checks].gate.sa_score: [null, 4.0] -> [null, 5.0]"),
        (("kind: thresholds", "kind: exhaustive"), 'scheduler.kind: "thresholds" -> "exhaustive"'),
    ],
)
def test_a_difference_reads_as_path_old_and_new(
    edit: tuple[str, str], line: str, spec: CampaignSpec, folder: Path
) -> None:
    other = changed(folder, edit)
    assert other.diff(spec.canonical()) == [line]
    assert other.identity_diff(spec.canonical()) == line
    assert other.identity_hash != spec.identity_hash


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (("core_seconds: 3600", "core_seconds: 7200"), "budget.core_seconds: 3600.0 -> 7200.0"),
        (("core_seconds: 3600", "proposals: 5"), "budget.core_seconds: 3600.0 -> nothing"),
        (("rungs: {dft: 12}", "rungs: {dft: 13}"), "budget.rungs.dft: 12 -> 13"),
        (("count: 5", "count: 6"), "goal.count: 5 -> 6"),
        (("workers: 2", "workers: 3"), "workers: 2 -> 3"),
        (("workers: 2\n", ""), "workers: 2 -> null"),
        (
            ("[4.0, 4.6]\n    unit: eV\n    scale: 0.5", "[4000, 4600]\n    unit: meV\n    scale: 500"),
            'units: nothing -> {"homo_lumo_gap": "meV"}',
        ),
        (("description: gaps", "description: Gaps"), 'description: "gaps" -> "Gaps"'),
        (("wall_seconds: 120", "wall_seconds: 60"), "ladder[dft].limits.wall_seconds: 120.0 -> 60.0"),
    ],
)
def test_an_amendment_changes_the_hash_but_not_the_identity(
    edit: tuple[str, str], line: str, spec: CampaignSpec, folder: Path
) -> None:
    other = changed(folder, edit)
    assert line in other.diff(spec.canonical())
    assert line.startswith((*AMENDABLE, "ladder[dft].limits"))
    assert other.identity_diff(spec.canonical()) == ""
    assert (other.identity_hash == spec.identity_hash) and other.hash != spec.hash


def test_no_difference_to_oneself_even_through_json(spec: CampaignSpec) -> None:
    assert spec.diff(json.loads(json.dumps(spec.canonical()))) == []


def test_another_seed_file_is_another_spec(spec: CampaignSpec, folder: Path) -> None:
    (folder / "seeds.csv").write_text("smiles\nCCN\n")
    other = parse_spec(CAMPAIGN, base=folder)
    assert [line.split(":")[0] for line in other.diff(spec.canonical())] == ["proposer.seeds.sha256"]
    assert other.identity_hash != spec.identity_hash


def test_a_rung_more_and_another_order_are_told(spec: CampaignSpec) -> None:
    def edit(change: Any) -> list[str]:
        stored = copy.deepcopy(spec.canonical())
        change(stored["ladder"])
        return spec.diff(stored)

    assert edit(lambda ladder: ladder.reverse()) == ["ladder, order: dft, checks -> checks, dft"]
    (line,) = edit(lambda ladder: ladder.pop())
    assert line.startswith('ladder[dft]: nothing -> {"')


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
