"""Campaigns whose ladder is served to clients in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sciagent import Campaign
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import Environment
from tests.training.environment.served import FAST, REWARDS

Serve = Callable[..., Environment]


@pytest.fixture
def serve(ledger: Ledger, tmp_path: Path) -> Serve:
    """Makes an environment of a campaign. text: its YAML."""

    def made(text: str = FAST, rewards: RewardSpec = REWARDS, **limits: object) -> Environment:
        (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
        path = tmp_path / "campaign.yaml"
        path.write_text(text, encoding="utf-8")
        return Campaign.from_yaml(path, ledger).environment(rewards, **limits)  # type: ignore[arg-type]

    return made
