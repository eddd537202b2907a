"""Rollouts of a whole campaign: seeds, groups and ladder, within the budget, and what Python and the command answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent import Campaign
from sciagent.errors import UsageError
from tests.support.campaigns import sciagent
from tests.training.rollouts.rolled import TEXT


def written(folder: Path, **changed: str) -> Path:
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\nc1ccccc1O\n", encoding="utf-8")
    text = TEXT
    for old, new in changed.items():
        text = text.replace(old, new)
    path = folder / "rolled.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_command_rolls_out_and_the_same_command_begins_new_groups(tmp_path: Path) -> None:
    path = written(tmp_path)
    first = sciagent("rollout", str(path), "--groups", "2", "--siblings", "3", "--turns", "2", "--json", cwd=tmp_path)
    assert first["state"] == "finished" and first["stopped"] is None and first["policy"] == "scripted@2"
    assert [(row["group"], row["state"], row["turns"]) for row in first["groups"]] == [
        (1, "complete", 6),
        (2, "complete", 6),
    ]
    assert first["turns"] == 12 and 0 < sum(row["new"] for row in first["groups"]) <= 12
    again = sciagent("rollout", str(path), "--siblings", "2", "--turns", "1", "--json", cwd=tmp_path)
    assert [(row["group"], row["siblings"], row["turns"]) for row in again["groups"]] == [(3, 2, 2)]
    assert again["groups"][0]["snapshot"] > first["groups"][0]["snapshot"]


def test_a_spent_budget_leaves_groups_open_and_more_of_it_continues_them(tmp_path: Path) -> None:
    path = written(tmp_path, **{"proposals: 1000": "proposals: 4"})
    answer = Campaign.from_yaml(path, tmp_path / "sciagent.db").rollout(1, 4, 3)
    assert answer.stopped == "the budget of 4 proposals is used"
    [left] = answer.groups
    assert left.state == "open" and left.turns == 4
    path = written(tmp_path)
    done = Campaign.from_yaml(path, tmp_path / "sciagent.db").rollout(1, 4, 3)
    assert [(row.group, row.state, row.turns) for row in done.groups] == [(1, "complete", 12)]


def test_verifications_end_rollouts_after_the_step_that_reaches_them(tmp_path: Path) -> None:
    path = written(tmp_path, **{"proposals: 1000": "verifications: 5"})  # three of them for the molecules of the file
    answer = Campaign.from_yaml(path, tmp_path / "sciagent.db").rollout(1, 4, 3)
    assert answer.stopped == "the budget of 5 verifications is used" and answer.groups[0].turns == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("kind: evolve, seeds: molecules.csv", "write proposer: {kind: llm, model: NAME, seeds: FILE}"),
        (
            "kind: enumerate, scaffold: 'c1ccccc1[*:1]', groups: {1: [F, Cl]}",
            "rollouts begin from the molecules of a file, and this campaign's proposer is enumerate",
        ),
        (
            "kind: several, proposers: {a: {kind: screen, file: molecules.csv}, "
            "b: {kind: evolve, seeds: molecules.csv}}",
            "this campaign's proposer is screen and evolve",
        ),
        ("kind: llm, model: gone, seeds: molecules.csv", "sciagent models"),
    ],
)
def test_a_campaign_without_a_policy_is_told_what_to_write(tmp_path: Path, changed: str, message: str) -> None:
    path = written(tmp_path, **{"kind: screen, file: molecules.csv": changed})
    with pytest.raises(UsageError, match=message.replace("{", r"\{")):
        Campaign.from_yaml(path, tmp_path / "sciagent.db").rollout()


def test_a_wrong_number_or_purpose_is_refused_before_anything_runs(tmp_path: Path) -> None:
    campaign = Campaign.from_yaml(written(tmp_path), tmp_path / "sciagent.db")
    with pytest.raises(UsageError, match="siblings: 0 is not from 1 to 1000"):
        campaign.rollout(1, 0)
    with pytest.raises(UsageError, match='did you mean "evaluation"'):
        campaign.rollout(purpose="evalution")  # type: ignore[arg-type]
    assert campaign.state == "created"
