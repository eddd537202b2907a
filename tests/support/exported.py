"""Data sets of every kind from a campaign in which a model talked, for exports."""

from __future__ import annotations

import shutil
from pathlib import Path

from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.settings import DATASET_KINDS, DatasetSettings
from tests.support.conversing import Conversing, conversing


def four_siblings(empty: Path, folder: Path) -> Conversing:
    """Four siblings answered one prompt, all decided: two hits and a further one, a miss, and a text that is no
    molecule. empty: a ledger in a file, which is copied."""
    shutil.copy(empty, folder / "sciagent.db")
    made = conversing(Ledger(str(folder / "sciagent.db"), artifacts=folder / "sciagent-artifacts"), folder, "gaps")
    group = made.group(0, 4)
    for sibling, texts in enumerate((["Oc1ccccc1", "CC#N"], ["CC=O"], ["CCO"], ["C1CC"])):
        made.talk(sibling + 1, texts, group=group, sibling=sibling)
    for smiles, gap in (("Oc1ccccc1", 5.1), ("CC=O", 6.0), ("CCO", 12.0), ("CC#N", 4.0)):
        made.verify(smiles, gap)
    publish(made.ledger, "gaps", RewardSpec(prices={"core_seconds": 1e-4}, unsettled="settled"))
    return made


def write_datasets(made: Conversing, folder: Path, licence: str | None = "CC-BY-4.0") -> Path:
    """Builds a data set of each kind in a folder named after it; returns the folder with all of them."""
    for kind in DATASET_KINDS:
        build(made.ledger, DatasetSettings(kind=kind, campaigns=["gaps"], license=licence), folder / kind)
    return folder
