"""docs/training.md: a random tiny model learns from demonstrations, then from its own rewards, as the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.docs.pages import ROOT
from tests.support.typed import call, data, told

PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
CAMPAIGN = re.compile(r"```yaml\n(campaign: .*?)```", re.DOTALL)
REWARDS = re.compile(r"```yaml\n(prices: .*?)```", re.DOTALL)
COMPARE = re.compile(r"```yaml\n(evaluate:\n  tasks: \[wider.*?)```", re.DOTALL)
MOLECULES = "smiles\nCCO\nc1ccccc1O\nCCN\nCCC=O\nc1ccccc1\nCC(C)O\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    [campaign], [rewards], [compare] = (block.findall(PAGE) for block in (CAMPAIGN, REWARDS, COMPARE))
    (tmp_path / "practice.yaml").write_text(campaign)
    (tmp_path / "wider.yaml").write_text(campaign.replace("practice", "wider").replace("[1, 2]", "[2, 3]"))
    (tmp_path / "rewards.yaml").write_text(rewards)
    (tmp_path / "compare.yaml").write_text(compare)
    (tmp_path / "molecules.csv").write_text(MOLECULES)
    return tmp_path


def without_numbers(text: str) -> list[str]:
    """The lines that are printed on any machine: numbers, hashes and what few rows leave out differ."""
    text = re.sub(r"@[0-9a-f]{12}", "@HASH", text)
    text = re.sub(r"\S*/models/", "MODELS/", text)
    text = re.sub(r"-?\b\d+(\.\d+)?(e-?\d+)?%?", "N", text)
    text = text.replace("  masked N", "")
    return [
        re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.startswith(("turns: ", "rows: "))
    ]


@pytest.mark.long
def test_the_page_shows_what_is_printed(folder: Path) -> None:
    lines = [line for session in SESSION.findall(PAGE) for line in session.splitlines()]
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        words = lines[begin].removeprefix("$ sciagent ").split()
        threads = ("--threads", "1") if words[0] == "train" else ()
        done = call(*words, *threads)
        assert done.exit_code == 0, done.output
        printed = done.stderr + done.stdout if words[0] == "train" else done.stdout
        found, shown = without_numbers(printed), without_numbers("\n".join(lines[begin + 1 : end]))
        if words[:2] == ["train", "grpo"]:  # how many steps its rows make depends on what the model proposed
            found, shown = ([line for line in each if not line.startswith("step ")] for each in (found, shown))
        assert found == shown
    metrics = [data_line for data_line in (folder / "better" / "metrics.jsonl").read_text().splitlines()]
    assert '"masked": 0.0' in metrics[0], "the first step is taken by the policy that drew the tokens"
    parents = {row.name.split("@")[0]: row.parent_id for row in _policies()}
    assert parents["tiny"] is None and parents["taught"] and parents["better"]
    told("rollout", "practice.yaml", "--policy", "better", "--siblings", "2", "--turns", "1", "--quiet")
    [last] = [
        row for row in data("trace", "practice") if row["number"] == max(r["number"] for r in data("trace", "practice"))
    ]
    assert last["turns"] == 1 and last["proposer"].startswith("better")


def _policies() -> list[sa.Row[tuple[object, ...]]]:
    with Ledger("sciagent.db").read() as connection:
        return list(connection.execute(sa.select(t.policy)).all())
