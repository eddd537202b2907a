"""A data set of verified answers, on which training runs are tried."""

from __future__ import annotations

from pathlib import Path

from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.settings import DatasetSettings
from tests.support.conversing import conversing


def six_answers(ledger: Ledger, folder: Path) -> Path:
    """Builds the data set of six verified answers in one episode; returns its folder."""
    made = conversing(ledger, folder / "campaign")
    texts = ["CCO", "CCN", "CCS", "CCF", "c1ccccc1O", "c1ccccc1N"]
    made.talk(1, texts)
    for number, smiles in enumerate(texts):
        made.verify(smiles, 4.0 + number / 2)
    build(ledger, DatasetSettings(kind="sft", campaigns=["small"]), folder / "sft")
    return folder / "sft"
