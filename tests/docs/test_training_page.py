"""docs/training.md: a random tiny model learns from demonstrations, then from its own rewards, as the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.docs.pages import ROOT
from tests.support.typed import data, told

PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
FILE = re.compile(r"`([\w-]+\.(?:yaml|csv))`[^`]*:\n\n```(?:yaml|csv)\n(.*?)```", re.DOTALL)
"""A file of the reader: a sentence that ends with its name and a colon, then what is in it."""
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
ELSEWHERE = ("campaigns/", "--endpoint", "serve-model", "--actors", "accelerate launch")
"""Commands that need the repository, a server, another extra or several processes, as the page says beside them."""
OTHER_EXTRAS = (
    *("argon2", "botorch", "celery", "chgnet", "dimorphite_dl", "fastapi", "gguf", "gpytorch", "jsonschema", "mcp"),
    *("llama_cpp", "openai", "prometheus_client", "psycopg", "pymatgen", "ray", "redis", "segno", "sevenn", "sklearn"),
    *("so3krates_torch", "starlette", "tensorboard", "uvicorn", "vllm"),
)
"""Packages that `pip install 'sciagent[train]'` does not bring."""
WITHOUT_OTHER_EXTRAS = f"""
import importlib.machinery

found = importlib.machinery.PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {OTHER_EXTRAS!r} else found(name, path, target)


importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page and nothing else."""
    place = tmp_path / "folder"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    for name, text in FILE.findall(PAGE):
        (place / name).write_text(text)
    return place


@pytest.fixture
def only_train(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a process that finds no package of other extras."""
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(WITHOUT_OTHER_EXTRAS)
    paths = (str(tmp_path / "blocked"), str(ROOT), *sys.path)
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "ignore::FutureWarning",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


def typed(line: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a line in a shell, as it stands on the page."""
    done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done


def without_numbers(text: str) -> list[str]:
    """The lines that are printed on any machine: numbers, hashes and what few rows leave out differ."""
    text = re.sub(r"@[0-9a-f]{12}", "@HASH", text)
    text = re.sub(r"\S*/models/", "MODELS/", text)
    text = re.sub(r"-?\b\d+(\.\d+)?(e-?\d+)?%?", "N", text)
    text = text.replace("  masked N", "")
    return [
        re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.startswith(("turns: ", "rows: "))
    ]


def test_the_page_has_every_file_that_its_commands_name() -> None:
    shown = {name: text for name, text in FILE.findall(PAGE)}
    made = set(re.findall(r" > (\S+)", "\n".join(SESSION.findall(PAGE))))
    lines = [line for session in SESSION.findall(PAGE) for line in session.splitlines() if line.startswith("$ ")]
    used = set(re.findall(r"[\w-]+\.(?:yaml|csv)", "\n".join([*lines, *shown.values()])))
    assert len(lines) >= 6 and len(used) >= 3
    assert used <= {*shown, *made}


def test_a_package_of_another_extra_is_not_found(only_train: Mapping[str, str], tmp_path: Path) -> None:
    """Or the next test would show nothing."""
    (tmp_path / "look.py").write_text(
        "from importlib.util import find_spec\nprint(find_spec('gguf'), find_spec('mcp'))"
    )
    assert typed(f"python {tmp_path / 'look.py'}", only_train).stdout.split() == ["None", "None"]


@pytest.mark.long
def test_the_page_shows_what_is_printed(folder: Path, only_train: Mapping[str, str]) -> None:
    lines = [line for session in SESSION.findall(PAGE) for line in session.splitlines()]
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        line = lines[begin].removeprefix("$ ")
        words = line.split()
        done = typed(line, only_train)
        printed = done.stderr + done.stdout if words[1] == "train" else done.stdout
        found, shown = without_numbers(printed), without_numbers("\n".join(lines[begin + 1 : end]))
        if words[:3] == ["sciagent", "train", "grpo"]:  # its steps depend on what the model proposed
            found, shown = ([line for line in each if not line.startswith("step ")] for each in (found, shown))
        assert found == shown
    metrics = [data_line for data_line in (folder / "better" / "metrics.jsonl").read_text().splitlines()]
    assert '"masked": 0.0' in metrics[0], "the first step is taken by the policy that drew the tokens"
    parents = {row.name.split("@")[0]: row.parent_id for row in _policies()}
    assert parents["tiny"] is None and parents["taught"] and parents["better"] and parents["valued"]
    for line in (line for block in SHELL.findall(PAGE) for line in block.splitlines()):
        if not any(word in line for word in ELSEWHERE):
            typed(line.replace("--steps 20", "--steps 1"), only_train)
    told("rollout", "practice.yaml", "--policy", "better", "--siblings", "2", "--turns", "1", "--quiet")
    [last] = [
        row for row in data("trace", "practice") if row["number"] == max(r["number"] for r in data("trace", "practice"))
    ]
    assert last["turns"] == 1 and last["proposer"].startswith("better")


def _policies() -> list[sa.Row[tuple[object, ...]]]:
    with Ledger("sciagent.db").read() as connection:
        return list(connection.execute(sa.select(t.policy)).all())
