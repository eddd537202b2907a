from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.file.campaign_spec import AMENDABLE, CampaignSpec, parse_spec
from tests.campaign.fake_verifiers import CAMPAIGN, Scf, changed, make_folder  # noqa: F401


@pytest.fixture
def spec(folder: Path) -> CampaignSpec:
    return parse_spec(CAMPAIGN, base=folder)


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
