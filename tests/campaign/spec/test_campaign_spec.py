from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.campaign.spec.campaign_spec import CampaignSpec, cores
from sciagent.campaign.spec.diff import AMENDABLE
from sciagent.campaign.spec.goals import BudgetSpec
from sciagent.campaign.spec.load import load_spec, parse_spec
from sciagent.campaign.spec.rungs import LimitsSpec
from sciagent.campaign.spec.sources import file_hash
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.evidence import canonical_json
from sciagent.domain.objectives import Direction, Window
from sciagent.errors import SpecError
from tests.campaign.fake_verifiers import CAMPAIGN, Scf, make_folder  # noqa: F401

WISH = "    window: [4.0, 4.6]\n    unit: eV\n    scale: 0.5\n"


@pytest.fixture
def spec(folder: Path) -> CampaignSpec:
    return parse_spec(CAMPAIGN, base=folder)


def changed(folder: Path, *edits: tuple[str, str]) -> CampaignSpec:
    text = CAMPAIGN
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse_spec(text, base=folder)


def test_what_the_file_says_is_what_the_spec_holds(spec: CampaignSpec, folder: Path) -> None:
    assert (spec.campaign, spec.subject, spec.seed, spec.standardise) == ("dyes", "molecule", 1, "refuse")
    assert [rung.label for rung in spec.ladder] == ["checks", "dft"]
    assert (spec.terminal, spec.terminal_position, spec.workers) == ("dft", 1, 2)
    assert spec.budget.resources() == {"core_seconds": 3600}
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
    assert spec.ladder[0].label == "fake_checks"
    assert (spec.terminal, spec.scheduler.kind, spec.workers, spec.seed) == ("dft", "priced", cores(), 0)


def test_the_terminal_rung_is_by_default_the_last_that_is_not_of_the_world(folder: Path) -> None:
    spec = changed(folder, ("terminal: dft", "  - verifier: fake.bench"))
    assert (spec.terminal, len(spec.ladder)) == ("dft", 3)


def test_gates_are_windows_in_canonical_units(folder: Path) -> None:
    limits = ("limits: {wall_seconds: 120}", "gate: {homo_lumo_gap: {min: 3500, max: 5000, unit: meV}}")
    spec = changed(folder, limits)
    assert spec.ladder[0].window_gates() == {"sa_score": Window(None, 4.0)}
    assert spec.ladder[1].window_gates() == {"homo_lumo_gap": Window(3.5, 5.0)}


@pytest.mark.parametrize(
    ("wish", "direction", "accept", "ramp", "scale"),
    [
        ("window: [4.0, 4.6], unit: eV", Direction.WINDOW, Window(4.0, 4.6), None, 0.3),
        ("window: [4000, 4600], unit: meV, scale: 500", Direction.WINDOW, Window(4.0, 4.6), None, 0.5),
        ("window: [4.0, 4.0], unit: eV", Direction.WINDOW, Window(4.0, 4.0), None, 0.4),
        ("min: 4, unit: eV", Direction.LIMIT, Window(4.0, None), None, 0.4),
        ("max: 2000, unit: meV", Direction.LIMIT, Window(None, 2.0), None, 0.2),
        ("max: 0, unit: meV", Direction.LIMIT, Window(None, 0.0), None, 1.0),
        ("min: 1, max: 3, unit: eV", Direction.LIMIT, Window(1.0, 3.0), None, 1.0),
        ("maximise: [1, 3], min: 2, unit: eV", Direction.MAXIMISE, Window(2.0, None), (1.0, 3.0), None),
        ("minimise: [3000, 1000], max: 2000, unit: meV", Direction.MINIMISE, Window(None, 2.0), (3.0, 1.0), None),
    ],
)
def test_objectives_in_canonical_units(
    wish: str, direction: Direction, accept: Window, ramp: tuple[float, float] | None, scale: float | None, folder: Path
) -> None:
    spec = changed(folder, (f"  - property: homo_lumo_gap\n{WISH}", f"  - {{property: homo_lumo_gap, {wish}}}\n"))
    (objective,) = spec.domain_objectives()
    assert (objective.direction, objective.accept, objective.ramp) == (direction, accept, ramp)
    assert scale is None or objective.scale == pytest.approx(scale)
    inside = (accept.low if accept.low is not None else accept.high) or 0.0
    assert accept.distance(inside) == 0


def test_best_needs_no_limits(folder: Path) -> None:
    spec = changed(folder, (WISH, "    maximise: [1, 3]\n    unit: eV\n"), ("kind: hits", "kind: best"))
    assert spec.domain_objectives()[0].accept is None


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
        ("[4.0, 4.6]\n    unit: eV\n    scale: 0.5", "[4000, 4600]\n    unit: meV\n    scale: 500"),
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
        (("4.6]", "4.7]"), "objectives[homo_lumo_gap].accept: [4.0, 4.6] -> [4.0, 4.7]"),
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
    assert other.diff(spec.canonical(), identity_only=True) == [line]
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
    assert other.diff(spec.canonical(), identity_only=True) == []
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


def test_the_budget_knows_every_resource() -> None:
    assert set(RESOURCE_UNITS) < set(BudgetSpec.model_fields)


@pytest.mark.parametrize("size", [0, 1, (1 << 18) + 1])
def test_file_hash_reads_the_whole_file(size: int, tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "f").write_bytes(b"x" * size)
    assert file_hash(tmp_path / "f") == hashlib.sha256(b"x" * size).hexdigest()


@pytest.mark.parametrize("name", ["a.csv", "a.smi", "a.SDF", "a.csv.gz", "deep/a.smi.gz"])
def test_a_screen_takes_tables_of_molecules(name: str, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / name).write_text("smiles\nC\n")
    spec = changed(folder, ("kind: evolve\n  seeds: seeds.csv", f"kind: screen\n  file: {name}"))
    assert spec.proposer.files() == {("file",): name}


def test_crystals_have_no_proposer_yet(folder: Path) -> None:
    with pytest.raises(SpecError, match="for molecules"):
        changed(folder, ("subject: molecule", "subject: crystal"))


@pytest.mark.parametrize(
    ("proposer", "wrong"),
    [
        ("{kind: llm, model: m, tool_choice: required}", "tool_choice"),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', structured: true, tool_choice: required}", "tool_choice"),
        ("{kind: llm, model: m, logprobs: raw}", "logprobs"),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', tool_choice: required, logprobs: raw}", None),
        ("{kind: llm, model: m, endpoint: 'http://[a/v1'}", "endpoint"),
    ],
)
def test_what_a_server_is_asked_for_needs_a_server(folder: Path, proposer: str, wrong: str | None) -> None:
    before, _, after = CAMPAIGN.partition("proposer:")
    text = f"{before}proposer: {proposer}\n" + after[after.index("scheduler:") :]
    if wrong is None:
        assert parse_spec(text, base=folder).proposer.kind == "llm"
        return
    with pytest.raises(SpecError, match=rf"proposer(\.llm)?\.{wrong}: "):
        parse_spec(text, base=folder)
