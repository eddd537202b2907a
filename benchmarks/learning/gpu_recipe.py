"""Trains a chat model by the recipe of this folder on a GPU: demonstrations, SFT, PPO on the live ladder, and episodes
on the held-out tasks before and after, in a stated time.

    python -m benchmarks.learning.gpu_recipe all --model smollm2 --folder FOLDER --seconds 500

Arms of PPO run at the same time, each in a process of its own: `--arm NAME=RANK:RATE` has the rank of its LoRA adapter
(0: all weights) and its learning rate. Each takes as many steps as there is time for. Demonstrations are made unless
FOLDER/sft_rows has them. `result.json` is written after each stage.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from sqlalchemy import func, select

from sciagent.agent.policies import batch_decoding
from sciagent.agent.policies.batched_policies import InProcessPolicy
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.inputs.environment_variables import user
from sciagent.rewards.reward_spec import load_rewards
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import metadata
from sciagent.training.command_answers import TrainedStep
from sciagent.training.evaluation.campaign_runs import PlannedCampaign, measure
from sciagent.training.learner.training_run import train
from sciagent.training.live import ray_rollout_actors
from sciagent.training.live.live_run import train_live
from sciagent.training.settings import CriticSettings, LiveSettings, TaskShare, TrainingSettings, read_guards

HERE = Path(__file__).parent
SIZES = {"groups": 16, "siblings": 8, "turns": 8, "demonstrations": 6, "sft_steps": 60, "held_groups": 2, "tasks": 16}
SIZES |= {"rank": 16, "workers": 2, "parts": 2, "passes": 4}
SMALL = {"groups": 2, "siblings": 4, "turns": 2, "demonstrations": 1, "sft_steps": 2, "held_groups": 1, "tasks": 2}
ARMS = ("lora=16:5e-4", "full=0:5e-5")
MOST_TOKENS = 16384
SFT_RATE = 5e-4
CONTEXT = 4096
SHARE = 0.9  # of the time that is left, for which the next steps of PPO are planned
GUARDS = read_guards(["off"])
PUBLISHING = 25  # seconds, for the step that is under way when the time of PPO ends, and for its weights
VERSIONS = {name: version(name) for name in ("torch", "transformers")}
SCIAGENT = (sys.executable, "-m", "sciagent")


class Arm(NamedTuple):
    """An arm of PPO."""

    name: str
    rank: int
    """Rank of its LoRA adapter; 0 trains all weights."""
    rate: float
    """Learning rate."""

    @classmethod
    def read(cls, text: str) -> Arm:
        """Returns the arm that a text names, as in lora=16:5e-4. Raises ValueError for another text."""
        name, numbers = text.split("=")
        rank, rate = numbers.split(":")
        return cls(name, int(rank), float(rate))

    @property
    def text(self) -> str:
        return f"{self.name}={self.rank}:{self.rate}"


def taught_by(model: str) -> str:
    """Returns the name of a model after SFT."""
    return f"{model}-taught"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell(step: TrainedStep, of: int) -> None:
    say(step.model_dump_json())


def write_tasks(folder: Path) -> None:
    from benchmarks.learning import tasks

    tasks.write(folder / "tasks", "learner")
    for path in (folder / "tasks").glob("*.yaml"):
        text = path.read_text(encoding="utf-8").replace("context: 2048", f"context: {CONTEXT}")
        path.write_text(text, encoding="utf-8")
    (folder / "rewards.yaml").write_text((HERE / "rewards.yaml").read_text(encoding="utf-8"), encoding="utf-8")


def run(command: Sequence[str], folder: Path, log: str, limit: float) -> int:
    """Runs a command in a folder; returns its exit code, 124 if it was ended for its time."""
    with (folder / f"{log}.log").open("ab") as stream:
        process = subprocess.Popen(command, cwd=folder, stdout=stream, stderr=stream, start_new_session=True)
        try:
            return process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 124


def demonstrated(folder: Path, name: str, groups: int, turns: int, limit: float) -> None:
    rollout = ["rollout", f"tasks/{name}.yaml", "--policy", "scripted", "--purpose", "demonstration", "--quiet"]
    rollout += ["--groups", str(groups), "--siblings", "4", "--turns", str(turns), "--from", "seeds:8"]
    if not run([*SCIAGENT, *rollout, "--ledger", f"demo_{name}.db"], folder, f"demo_{name}", limit):
        build = ["dataset", "build", "sft", "--campaign", name, "--at-least", "-1", "--per-scaffold", "100000"]
        more = ["--test-share", "0", "--out", f"sft_{name}", "--ledger", f"demo_{name}.db"]
        run([*SCIAGENT, *build, *more], folder, f"demo_{name}", limit)


def demonstrations(folder: Path, names: Sequence[str], sizes: Mapping[str, int], limit: float) -> dict[str, Any]:
    """Lets a script make valid calls in all tasks at once, each with its own ledger, and makes one data set of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(demonstrated, folder, name, sizes["demonstrations"], sizes["turns"], limit) for name in names
        ]
        for job in jobs:
            job.result()
    tables = [pq.read_table(path) for name in names for path in folder.glob(f"sft_{name}/train.parquet")]
    (folder / "sft_rows").mkdir(exist_ok=True)
    whole = pa.concat_tables(tables)
    pq.write_table(whole, folder / "sft_rows" / "train.parquet", row_group_size=256)
    return {"tasks": len(tables), "rows": whole.num_rows}


def sft(folder: Path, model: str, sizes: Mapping[str, int]) -> None:
    more: dict[str, Any] = {
        "learning_rate": SFT_RATE,
        "most_tokens": MOST_TOKENS,
        "lora": sizes["rank"],
        "steps": sizes["sft_steps"],
        "save_every": 1000,
    }
    more |= {"rows_per_step": 32}
    train(
        TrainingSettings(
            training="sft", rows=folder / "sft_rows", model=model, out=folder / "taught", name=taught_by(model), **more
        ),
        None,
        tell,
    )


def settings_for(
    folder: Path, arm: Arm, tasks: Sequence[str], begin: str, sizes: Mapping[str, int], **more: Any
) -> LiveSettings:
    """Returns the settings to train a model on the live ladder of some tasks."""
    named: dict[str, Any] = {name: sizes[name] for name in ("groups", "siblings", "turns", "workers", "parts")}
    named |= {"begins": "seeds:8", "further": 0, "guards": GUARDS, "seed": 1, "lora": arm.rank}
    named |= {"training": "ppo", "save_every": 1000, "threads": 4}
    named |= {"learning_rate": arm.rate, "most_tokens": MOST_TOKENS, "entropy": 0.01}
    named |= {"critic": CriticSettings(passes=sizes["passes"])}
    shares = tuple(TaskShare(file=folder / "tasks" / f"{name}.yaml") for name in tasks)
    return LiveSettings(
        tasks=shares, model=begin, out=folder / arm.name, name=arm.name, rewards=folder / "rewards.yaml", **named | more
    )


def ppo(folder: Path, given: argparse.Namespace, sizes: Mapping[str, int]) -> None:
    """Trains an arm for some steps, then for as many as the time allows. The policy is published after each part."""
    end = time.monotonic() + given.seconds
    [arm] = given.arm
    tasks = [f"train{number:02}" for number in range(sizes["tasks"])]
    begin = taught_by(given.model) if sizes["sft_steps"] else given.model
    run_settings = settings_for(folder, arm, tasks, begin, sizes)
    ledger = Ledger(str(folder / f"{arm.name}.db"))
    steps = given.steps
    while True:
        begun = time.monotonic()
        before = len(steps_of(run_settings.out))
        train_live(run_settings.with_changes(steps=steps), ledger, tell)
        per_step = (time.monotonic() - begun) / max(1, len(steps_of(run_settings.out)) - before)
        more_steps = int(SHARE * (end - time.monotonic()) / per_step)
        if more_steps < 1:
            return
        steps += more_steps


def held_out(folder: Path, given: argparse.Namespace, sizes: Mapping[str, int]) -> None:
    """Writes what episodes of a model found on the held-out tasks, all of which are rolled out together."""
    names = sorted(path.stem for path in (folder / "tasks").glob("held*.yaml"))[: sizes["tasks"]]
    arm = Arm(f"held_{given.model}", 0, 0.0)
    groups = sizes["held_groups"]
    run_settings = settings_for(folder, arm, names, given.model, sizes, begins="seeds", groups=groups * len(names))
    ledger = Ledger(str(folder / f"{arm.name}.db"))
    policy = InProcessPolicy(LocalPolicy(given.model))
    spec = load_rewards(run_settings.rewards)
    with ray_rollout_actors.started(run_settings, ledger, spec, CONTEXT, arm.name, None, None) as (_, waves):
        places = {name: range(place * groups, (place + 1) * groups) for place, name in enumerate(names)}
        waves.wave(1, policy, places)
    found = []
    for name in names:
        file = folder / "tasks" / f"{name}.yaml"
        built = create_or_open(ledger, load_spec(file), file.read_text(encoding="utf-8"), user()).built
        with ledger.read() as connection:
            told = measure(connection, built, PlannedCampaign(arm.name, name, 1, name, "", folder))
        told_of = {"verifications", "hits", "scaffolds", "calls", "valid_calls"}
        found.append({"task": name} | told.model_dump(include=told_of))
    (folder / f"{arm.name}.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


def steps_of(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def at_once(commands: Mapping[str, Sequence[str]], folder: Path, limit: float) -> dict[str, int]:
    """Runs commands beside each other; returns their exit codes."""
    with ThreadPoolExecutor(len(commands)) as pool:
        jobs = {name: pool.submit(run, command, folder, name, limit) for name, command in commands.items()}
        return {name: job.result() for name, job in jobs.items()}


def ledger_counts(path: Path) -> dict[str, int]:
    """Returns the number of rows of each table that has any."""
    with Ledger(str(path)).read() as connection:
        counts = {
            table.name: connection.scalar(select(func.count()).select_from(table)) for table in metadata.sorted_tables
        }
    return {name: count for name, count in counts.items() if count}


def everything(folder: Path, given: argparse.Namespace, sizes: Mapping[str, int]) -> None:
    """Runs all stages."""
    end = time.monotonic() + given.seconds
    found = dict[str, Any]()
    model = given.model
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"train{number:02}" for number in range(sizes["tasks"])]

    def note(name: str, value: Any) -> None:
        found[name] = value
        (folder / "result.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        say(f"{end - time.monotonic():.0f} s left: {name} {str(value)[:1500]}")

    def left(share: float = 1.0) -> float:
        return (end - time.monotonic()) * share

    def stage(name: str, model: str, *more: str) -> list[str]:
        about = ["--folder", ".", "--model", model, *(["--no_graph"] if given.no_graph else [])]
        about += [part for size, value in sizes.items() for part in (f"--{size}", str(value))]
        return [sys.executable, "-m", "benchmarks.learning.gpu_recipe", name, *about, *more]

    note("settings", {"model": model, "arms": given.arm, "versions": VERSIONS, **sizes})
    write_tasks(folder)
    if sizes["sft_steps"] and not (folder / "sft_rows").exists():
        note("demonstrations", demonstrations(folder, names, sizes, left(0.3)))
    begin = taught_by(model) if sizes["sft_steps"] else model
    if sizes["sft_steps"]:
        begun = time.monotonic()
        code = run(stage("sft", model), folder, "sft", left(0.4))
        note("sft", {"code": code, "seconds": round(time.monotonic() - begun, 1), "steps": steps_of(folder / "taught")})
        if code:
            return
    begun = time.monotonic()
    room = left() - given.held
    more = ("--steps", "2", "--seconds", str(room - PUBLISHING))
    commands = {arm.name: stage("ppo", model, "--arm", arm.text, *more) for arm in given.arm}
    codes = at_once(commands, folder, room)
    note("ppo seconds", round(time.monotonic() - begun, 1))
    for arm in given.arm:
        note(f"ppo {arm.name}", {"code": codes[arm.name], "steps": steps_of(folder / arm.name)})
        note(f"ledger {arm.name}", ledger_counts(folder / f"{arm.name}.db"))
    models = [begin, *(arm.name for arm in given.arm if (folder / arm.name / "policy").exists()), *given.beside]
    codes = at_once({f"held_{name}": stage("held", name) for name in models}, folder, left())
    for name in models:
        path = folder / f"held_{name}.json"
        note(f"held out {name}", json.loads(path.read_text("utf-8")) if path.is_file() else codes[f"held_{name}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("all", "demonstrations", "sft", "ppo", "held"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=400.0, help="time of the stage")
    parser.add_argument("--arm", type=Arm.read, action="append", help="NAME=RANK:RATE of an arm of PPO")
    parser.add_argument("--held", type=float, default=75.0, help="seconds that are left for the held-out tasks")
    parser.add_argument("--steps", type=int, default=3, help="steps of PPO before it looks at the time")
    parser.add_argument("--beside", nargs="*", default=[], help="other models that are asked the held-out tasks")
    parser.add_argument("--no_graph", action="store_true", help="sample without CUDA graphs")
    parser.add_argument("--small", action="store_true")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int)
    given = parser.parse_args()
    usual = {**SIZES, **SMALL} if given.small else SIZES
    sizes = {name: usual[name] if getattr(given, name) is None else getattr(given, name) for name in SIZES}
    if given.no_graph:
        batch_decoding.can_graph = lambda cache, device: False
    folder = given.folder.resolve()
    given.arm = given.arm or [Arm.read(text) for text in ARMS]
    if given.stage == "all":
        everything(folder, given, sizes)
    elif given.stage == "demonstrations":
        folder.mkdir(parents=True, exist_ok=True)
        write_tasks(folder)
        names = [f"train{number:02}" for number in range(sizes["tasks"])]
        say(str(demonstrations(folder, names, sizes, given.seconds)))
    elif given.stage == "sft":
        sft(folder, given.model, sizes)
    else:
        {"ppo": ppo, "held": held_out}[given.stage](folder, given, sizes)


if __name__ == "__main__":
    main()
