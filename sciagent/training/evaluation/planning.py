"""The campaigns of an evaluation: the file of a task, with the proposer of an arm, a seed and one budget for all."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sciagent.campaign.spec.load import load_spec
from sciagent.domain.evidence import content_hash
from sciagent.errors import UsageError
from sciagent.inputs.document import read, read_text
from sciagent.training.evaluation.spec import SCRIPTED, ArmSpec, EvaluateSpec

PROPOSALS = 50  # most proposals for each verification; an arm that needs more ends before its verifications are used
FILES = ("seeds", "file")
OF_OTHER_MODELS = ("endpoint", "api_key_env", "logprobs", "grammar", "strict", "tool_choice")
"""Keys of a task's proposer that are about its own model."""


@dataclass(frozen=True)
class PlannedCampaign:
    """One campaign of an evaluation."""

    arm: str
    task: str
    """Name of the task's campaign."""
    seed: int
    name: str
    """Name of the campaign, which tells arm, task and seed, and ends with a hash of all that decides its results."""
    text: str
    """Its campaign file."""
    base: Path
    """Folder from which relative paths in the text start."""


def planned(
    spec: EvaluateSpec, folder: Path, arm: str, stated: ArmSpec, version: str = ""
) -> Iterator[PlannedCampaign]:
    """Yields the campaigns of an arm.

    folder: of the file with the evaluation. stated: the arm, with a model in place of the role of a policy. version:
    hash of its weights.

    Raises UsageError or SpecError for a task or an arm that makes no campaign.
    """
    for task in spec.tasks:
        path = folder / task
        load_spec(path)  # raises all mistakes of the file
        data = read(read_text(path)).data
        proposer = _proposer(stated, data["proposer"], path, folder)
        for seed in spec.seeds:
            yield _campaign(data, path, arm, proposer, version, seed, spec.verifications)


def _campaign(
    task: Mapping[str, Any],
    path: Path,
    arm: str,
    proposer: Mapping[str, Any],
    version: str,
    seed: int,
    verifications: int,
) -> PlannedCampaign:
    keys = dict(task) | {"seed": seed, "proposer": dict(proposer)}
    keys |= {"goal": {"kind": task["goal"]["kind"]}}  # `count` would end it before its verifications are used
    keys |= {"budget": {"verifications": verifications, "proposals": PROPOSALS * verifications}}
    keys.setdefault("workers", 1)
    digest = content_hash([keys, version])[:8]
    keys["campaign"] = name = _name(arm, task["campaign"], seed, digest)
    stream = io.StringIO()
    YAML(pure=True).dump(keys, stream)
    return PlannedCampaign(arm, task["campaign"], seed, name, stream.getvalue(), path.resolve().parent)


def _name(arm: str, task: str, seed: int, digest: str) -> str:
    end = f"-{seed}-{digest}"
    return re.sub(r"[^a-z0-9_-]", "-", f"{arm}-{task}".lower())[: 64 - len(end)] + end


def _proposer(arm: ArmSpec, of_task: Mapping[str, Any], path: Path, folder: Path) -> Mapping[str, Any]:
    """Returns the proposer of an arm on a task. path: the task's file."""
    seeds = next(({"seeds": of_task[key]} for key in FILES if key in of_task), {})
    if seeds and "column" in of_task:
        seeds["column"] = of_task["column"]
    if arm.proposer is not None:
        return _stated(arm.proposer, seeds, folder)
    model = arm.model or arm.policy
    here = {"model": model, "structured": False} if model == SCRIPTED else {"model": model}
    if of_task["kind"] == "llm":
        return {**{key: value for key, value in of_task.items() if key not in OF_OTHER_MODELS}, **here}
    if model == SCRIPTED:
        return {"kind": "llm", **seeds, **here, "tools": ["modify"]}
    raise UsageError(
        f"{path}: its proposer is {of_task['kind']}, so that it does not say how a model proposes; write "
        "proposer: {kind: llm, model: NAME, …} in the task, or in the arm"
    )


def _stated(proposer: Mapping[str, Any], seeds: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Returns the proposer that an arm states, with the seeds of the task if it states none."""
    stated = {key: str((folder / value).resolve()) if key in FILES else value for key, value in proposer.items()}
    if stated.get("kind") in ("evolve", "plugin", "llm") and "seeds" not in stated:
        return {**stated, **seeds}
    return stated
