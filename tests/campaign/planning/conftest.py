"""Plans of a ladder of verifiers that compute nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.planning.expected_hits_and_rung_worth import plan
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.verification import verifier_registry
from tests.campaign.fake_verifiers import Point
from tests.campaign.planning.fake_ladder import LADDER, Fake, Maker


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """`plan` of a ladder: (verifier, seconds) in order; the rest as in YAML."""
    monkeypatch.setattr(verifier_registry, "_points", lambda: {one.name: Point(one) for one in LADDER})

    def make(
        *rungs: tuple[type[Fake], float], budget: str, n: int = 1000, objectives: str = "", goal: str = "{kind: hits}"
    ) -> dict[str, Any]:
        (tmp_path / "all.csv").write_text("smiles\n" + "".join(f"{'C' * (1 + i % 30)}O\n" for i in range(n)))
        ladder = "".join(
            f"  - {{rung: {one.name.split('.')[1]}, verifier: {one.name}, settings: {{seconds: {cost}}}}}\n"
            for one, cost in rungs
        )
        text = (
            "campaign: made\nsubject: molecule\nobjectives:\n"
            "  - {property: homo_lumo_gap, min: 4, unit: eV}\n"
            f"{objectives}ladder:\n{ladder}goal: {goal}\nbudget: {budget}\n"
            "proposer: {kind: screen, file: all.csv}\nworkers: 2\n"
            "safety: {screen: false, reason: the fake verifiers stand alone in these tests}\n"
        )
        (tmp_path / "made.yaml").write_text(text)
        found: dict[str, Any] = plain(plan(load_spec(tmp_path / "made.yaml")))
        return found

    return make
