"""The card of a data set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import COLUMNS, build
from sciagent.training.settings import DATASET_KINDS, DatasetKind, DatasetSettings
from tests.support.conversing import conversing


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.mark.parametrize("kind", sorted({*DATASET_KINDS} - {"skill"}))  # `test_skills` has a campaign with skills
def test_each_kind_has_a_card_whose_head_names_the_files(ledger: Ledger, tmp_path: Path, kind: DatasetKind) -> None:
    made = conversing(ledger, tmp_path / "campaign")
    group = made.group(0, 2)
    for sibling, text in enumerate(("CCO", "CCN")):
        made.talk(sibling + 1, [text], group=group, sibling=sibling)
    made.verify("CCO", 5.0)
    made.verify("CCN", 20.0)
    built = build(
        ledger,
        DatasetSettings(kind=kind, campaigns=["small"], command=f"sciagent dataset build {kind}"),
        tmp_path / "set",
    )
    card = (tmp_path / "set" / "README.md").read_text(encoding="utf-8")
    head, body = card.removeprefix("---\n").split("---\n", 1)
    found = YAML(typ="safe").load(head)
    assert found["license"] == "unknown" and "no licence was stated" in body
    [split] = found["configs"][0]["data_files"]
    assert split == {"split": "train", "path": "train.parquet"} and built.rows["train"] > 0
    assert f"sciagent dataset build {kind}" in body and f"| train | 1 | {built.rows['train']} |" in body
    columns = set(re.findall(r"^\| `(\w+)` \| .+ \|$", body, re.MULTILINE))
    assert columns == {column.name for column in COLUMNS[kind]}
    for verifier in ("molecule.safety", "molecule.checks", "xtb.singlepoint", "pyscf.scf"):
        assert f"| {verifier} | " in body
    for why, n in built.left_out.items():
        assert f"| {why} | {n} |" in body
