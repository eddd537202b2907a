"""A campaign is created from a spec, and opened again only by the same spec or an amended one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.cost_and_budget import Cost
from sciagent.store.database.ledger import Ledger
from sciagent.verification.cost_models import CostModel
from sciagent.verification.sandbox.host import Limits
from tests.support.campaigns import write_campaign


def opened(folder: Path, *edits: tuple[str, str]) -> Built:
    text = write_campaign(folder, evolve=True).read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    spec = parse_spec(text, name="small.yaml", base=folder)
    return create_or_open(Ledger(str(folder / "sciagent.db")), spec, text, "ann").built


def test_children_are_limited_by_the_checks_and_by_the_proposer(tmp_path: Path) -> None:
    checks = "elements: [H, C, O], min_heavy_atoms: 2, max_heavy_atoms: 30, max_rings: 1, max_ring_size: 6, "
    checks += 'charges: [0, 1], undefined_stereo: refuse, forbid_smarts: ["OO"]'
    made = opened(tmp_path, ("settings: {descriptors: [heavy_atoms, logp]}", f"settings: {{{checks}}}"))
    limits = made.make_script(made.spec.proposers[0][1])._limits
    assert limits.elements == ("H", "C", "O") and limits.forbidden == ("OO",)
    assert (limits.min_heavy_atoms, limits.max_heavy_atoms) == (2, 4), "the proposer of this campaign says 4"
    assert (limits.max_rings, limits.min_ring_size, limits.max_ring_size) == (1, 3, 6)
    assert limits.charges == (0, 1) and limits.defined_stereo


# What a job reserves


@pytest.fixture(scope="module")
def rung(tmp_path_factory: pytest.TempPathFactory) -> BuiltRung:
    return opened(tmp_path_factory.mktemp("rung")).paid[-1]


@settings(deadline=None, max_examples=200)
@given(
    declared=st.floats(0.01, 1e6),
    gpu=st.floats(0, 1e6),
    wall=st.floats(0.1, 1e4),
    cores=st.integers(1, 16),
    ratios=st.lists(st.floats(0.01, 100), max_size=8),
)
def test_no_job_reserves_more_than_its_own_limits_allow(
    rung: BuiltRung, declared: float, gpu: float, wall: float, cores: int, ratios: list[float]
) -> None:
    holding = rung.spec.model_copy(update={"resources": {"cores": cores, "gpu": 2}})
    limited = replace(rung, spec=holding, limits=Limits(wall, 1000, threads=cores), cost_model=CostModel())
    cost = Cost(core_seconds=declared, gpu_seconds=gpu, money=declared)
    for ratio in ratios:
        limited.cost_model.observe(cost, Cost(core_seconds=ratio * declared), wall_seconds=ratio * declared)
    expected, reservation = limited.cost_model.reservation(cost), limited.reservation(cost)
    assert reservation["core_seconds"] == min(expected["core_seconds"], wall * cores)
    assert reservation.get("gpu_seconds", 0.0) == min(gpu, 2 * wall), "a GPU's time is not measured, so not scaled"
    assert reservation["money"] == declared, "no limit of a job holds it"
    assert limited.lasts(cost) <= wall
    assert limited.reservation(None) == Cost() and limited.lasts(None) == 0
