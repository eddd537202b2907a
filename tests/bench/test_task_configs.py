"""Descriptions of tasks are validated, and five of them are put right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent_bench.pmo.task_configs import GaussMetric, TaskConfig, as_in_tdc
from sciagent_bench.pmo.task_runs import task_names

CONFIGS = Path(__file__).parent / "molscore" / "molscore" / "configs" / "MolOpt"
RIGHTED = {"Deco_hop", "Fexofenadine_MPO", "Osimertinib_MPO", "Scaffold_hop", "Valsartan_smarts"}


def described(task: str) -> TaskConfig:
    return TaskConfig.model_validate_json((CONFIGS / f"{task}.json").read_bytes())


def changed(**more: Any) -> str:
    """Returns the description of QED with other keys."""
    return json.dumps(json.loads((CONFIGS / "QED.json").read_text(encoding="utf-8")) | more)


def test_all_23_tasks_are_read_and_five_differ_in_tdc() -> None:
    assert len(task_names()) == 23 == len(list(CONFIGS.glob("*.json")))
    assert {task for task in task_names() if as_in_tdc(described(task)) != described(task)} == RIGHTED


def test_the_gaussians_of_osimertinib_are_narrower_in_tdc() -> None:
    metrics = as_in_tdc(described("Osimertinib_MPO")).scoring.metrics
    sigmas = {each.name: each.parameters.sigma for each in metrics if isinstance(each, GaussMetric)}
    assert sigmas == {"Osimertinib_ECFC6_Sim": 0.1, "desc_TPSA": 10.0, "desc_CLogP": 1.0}


SINGLE = {"method": "single", "metrics": [{"name": "desc_QED", "weight": 1, "modifier": "raw", "parameters": {}}]}


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"scoring_functions": [{"name": "Vina", "parameters": {}}]}, "Vina"),
        ({"scoring": SINGLE | {"method": "pareto_front"}}, "method"),
        ({"scoring": SINGLE | {"metrics": SINGLE["metrics"] * 2}}, "takes one value, not 2"),
        ({"scoring": SINGLE | {"metrics": [{**SINGLE["metrics"][0], "name": "desc_Weight"}]}}, "no function computes"),
        ({"scoring": SINGLE | {"metrics": [{**SINGLE["metrics"][0], "modifier": "step"}]}}, "modifier"),
        ({"scoring": SINGLE | {"metrics": [{**SINGLE["metrics"][0], "weight": 2}]}}, "weight"),
    ],
)
def test_what_no_task_of_pmo_uses_is_refused(keys: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        TaskConfig.model_validate_json(changed(**keys))
