"""Trains a chat model by the recipe of this folder on a GPU: demonstrations, SFT, PPO on the live ladder, and episodes
on the held-out tasks before and after, in a stated time.

    python -m benchmarks.learning.gpu_recipe all --model smollm2 --folder FOLDER --seconds 400
    python -m benchmarks.learning.gpu_recipe all --model hindsight --folder FOLDER --sft_steps 0 --rank 0 --rate 1e-3

Every stage is a process of its own with a time limit. PPO is killed (SIGKILL) after its second step and started again,
so that the run shows that it goes on; it then takes as many steps as there is time for. Demonstrations are made unless
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
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Event, Timer
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from sqlalchemy import func, select

from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.spec.load import load_spec
from sciagent.domain.answers.training import TrainedStep
from sciagent.settings import user
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import metadata
from sciagent.training.evaluation.measuring import measure
from sciagent.training.evaluation.planning import PlannedCampaign
from sciagent.training.guards.settings import guard_settings
from sciagent.training.learner.running import train
from sciagent.training.learner.settings import CriticSettings, LossSettings, StepSettings, TrainingWish
from sciagent.training.live.running import train_live
from sciagent.training.live.wish import LiveWish, TaskShare

HERE = Path(__file__).parent
SIZES = {"groups": 16, "siblings": 8, "turns": 8, "demonstrations": 6, "sft_steps": 60, "held_groups": 2, "tasks": 16}
SIZES |= {"rank": 16, "workers": 2}
SMALL = {"groups": 2, "siblings": 4, "turns": 2, "demonstrations": 1, "sft_steps": 2, "held_groups": 1, "tasks": 2}
MOST_TOKENS, SFT_RATE, PASSES = 16384, 5e-4, 4
CONTEXT = 4096
SHARE = 0.8  # of the time that is left, for which the next steps of PPO are planned
GUARDS = guard_settings(["off"]).model_dump()
PUBLISHING = 25  # seconds, for the step that is under way when the time of PPO ends, and for its weights
VERSIONS = {name: version(name) for name in ("torch", "transformers")}
SCIAGENT = (sys.executable, "-m", "sciagent")


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
    settings = StepSettings(SFT_RATE, most_tokens=MOST_TOKENS)
    more: dict[str, Any] = {"rank": sizes["rank"], "steps": sizes["sft_steps"], "save_every": 1000}
    more |= {"rows_per_step": 32, "settings": settings}
    train(TrainingWish("sft", folder / "sft_rows", model, folder / "taught", f"{model}-taught", **more), None, tell)


def ppo(folder: Path, given: argparse.Namespace, sizes: Mapping[str, int]) -> None:
    """Trains to the stated step, then as far as the time allows. The policy is published at the end of each part."""
    end = time.monotonic() + given.seconds
    tasks = tuple(TaskShare(folder / "tasks" / f"train{number:02}.yaml") for number in range(sizes["tasks"]))
    settings = StepSettings(
        given.rate, most_tokens=MOST_TOKENS, loss=LossSettings(entropy=0.01), critic=CriticSettings(passes=PASSES)
    )
    more: dict[str, Any] = {name: sizes[name] for name in ("groups", "siblings", "turns", "workers", "rank")}
    more |= {"begins": "seeds:8", "credit": "rtg", "further": 0, "guards": GUARDS, "seed": 1, "parts": 2}
    more |= {"training": "ppo", "settings": settings, "save_every": 1, "threads": 4}
    begin = f"{given.model}-taught" if sizes["sft_steps"] else given.model
    wish = LiveWish(tasks, begin, folder / "better", f"{given.model}-better", folder / "rewards.yaml", **more)
    ledger, stop = Ledger(str(folder / "ppo.db")), Event()
    timer = Timer(given.seconds, stop.set)
    timer.daemon = True
    timer.start()
    steps = given.steps
    while not stop.is_set():
        begun, before = time.monotonic(), len(steps_of(wish.out))
        train_live(replace(wish, steps=steps), ledger, tell, stop=stop)
        per_step = (time.monotonic() - begun) / max(1, len(steps_of(wish.out)) - before)
        more_steps = int(SHARE * (end - time.monotonic()) / per_step)
        if more_steps < 1:
            break
        steps += more_steps
    timer.cancel()


def steps_of(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def killed_after(command: Sequence[str], folder: Path, steps: int, limit: float) -> bool:
    """Runs PPO and kills it in the step after so many; returns whether it came so far."""
    end = time.monotonic() + limit
    with (folder / "ppo.log").open("ab") as stream:
        process = subprocess.Popen(command, cwd=folder, stdout=stream, stderr=stream, start_new_session=True)
        while process.poll() is None and time.monotonic() < end and len(steps_of(folder / "better")) < steps:
            time.sleep(0.2)
        time.sleep(2)  # so that turns of the next step are in the ledger
        came = process.poll() is None and time.monotonic() < end
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return came


def held_out(folder: Path, arm: str, model: str, sizes: Mapping[str, int], limit: float) -> dict[str, Any]:
    """Returns what episodes of a model found on each held-out task. All tasks are rolled out at once."""
    names = sorted(path.stem for path in (folder / "tasks").glob("held*.yaml"))[: sizes["tasks"]]
    given = ["--policy", model, "--purpose", "evaluation", "--groups", str(sizes["held_groups"]), "--from", "seeds"]
    given += ["--siblings", str(sizes["siblings"]), "--turns", str(sizes["turns"]), "--quiet", "--workers", "2"]

    def one(name: str) -> dict[str, Any]:
        ledger = f"{arm}_{name}.db"
        code = run([*SCIAGENT, "rollout", f"tasks/{name}.yaml", *given, "--ledger", ledger], folder, ledger, limit)
        if code:
            return {"task": name, "code": code}
        file = folder / "tasks" / f"{name}.yaml"
        opened = Ledger(str(folder / ledger))
        built, _ = create_or_open(opened, load_spec(file), file.read_text(encoding="utf-8"), user())
        with opened.read() as connection:
            found = measure(connection, built, PlannedCampaign(arm, name, 1, name, "", folder))
        return {"task": name} | found.model_dump(include={"verifications", "hits", "scaffolds", "calls", "valid_calls"})

    with ThreadPoolExecutor(8) as pool:
        return {"arm": arm, "tasks": list(pool.map(one, names))}


def ledger_counts(path: Path) -> dict[str, int]:
    """Returns the number of rows of each table that has any."""
    with Ledger(str(path)).read() as connection:
        counts = {
            table.name: connection.scalar(select(func.count()).select_from(table)) for table in metadata.sorted_tables
        }
    return {name: count for name, count in counts.items() if count}


def everything(folder: Path, given: argparse.Namespace, sizes: Mapping[str, int]) -> None:
    """Runs all stages."""
    end, found, model = time.monotonic() + given.seconds, dict[str, Any](), given.model
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"train{number:02}" for number in range(sizes["tasks"])]

    def note(name: str, value: Any) -> None:
        found[name] = value
        (folder / "result.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        say(f"{end - time.monotonic():.0f} s left: {name} {str(value)[:1500]}")

    def left(share: float = 1.0) -> float:
        return (end - time.monotonic()) * share

    def stage(name: str, *more: str) -> list[str]:
        about = ["--folder", ".", "--model", model, "--rate", str(given.rate)]
        about += [part for size, value in sizes.items() for part in (f"--{size}", str(value))]
        return [sys.executable, "-m", "benchmarks.learning.gpu_recipe", name, *about, *more]

    note("settings", {"model": model, "rate": given.rate, "versions": VERSIONS, **sizes})
    write_tasks(folder)
    if sizes["sft_steps"] and not (folder / "sft_rows").exists():
        note("demonstrations", demonstrations(folder, names, sizes, left(0.3)))
    if sizes["sft_steps"]:
        begun = time.monotonic()
        code = run(stage("sft"), folder, "sft", left(0.4))
        note("sft", {"code": code, "seconds": round(time.monotonic() - begun, 1), "steps": steps_of(folder / "taught")})
        if code:
            return
    begun = time.monotonic()
    more = ("--steps", "3", "--seconds", str(left()))
    came = killed_after(stage("ppo", *more), folder, 2, left() - given.held)
    note(
        "killed",
        {"in_step_3": came, "seconds": round(time.monotonic() - begun, 1), "steps": steps_of(folder / "better")},
    )
    begun, room = time.monotonic(), left() - given.held
    code = run(stage("ppo", "--steps", "3", "--seconds", str(room - PUBLISHING)), folder, "ppo", room)
    took = round(time.monotonic() - begun, 1)
    note("ppo", {"code": code, "seconds": took, "steps": steps_of(folder / "better")})
    note("ledger", ledger_counts(folder / "ppo.db"))
    arms = {"ppo": f"{model}-better"} if (folder / "better" / "policy").exists() else {}
    arms |= {"sft": f"{model}-taught"} if sizes["sft_steps"] else {}
    for arm, name in {**arms, "untrained": model, **{name: name for name in given.beside}}.items():
        note(f"held out {arm}", held_out(folder, arm, name, sizes, left()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("all", "demonstrations", "sft", "ppo"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=400.0, help="time of the stage")
    parser.add_argument("--held", type=float, default=120.0, help="seconds that are left for the held-out tasks")
    parser.add_argument("--steps", type=int, default=3, help="steps of PPO before it looks at the time")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate of PPO")
    parser.add_argument("--beside", nargs="*", default=[], help="other models that are asked the held-out tasks")
    parser.add_argument("--small", action="store_true")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int)
    given = parser.parse_args()
    usual = {**SIZES, **SMALL} if given.small else SIZES
    sizes = {name: usual[name] if getattr(given, name) is None else getattr(given, name) for name in SIZES}
    folder = given.folder.resolve()
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
        ppo(folder, given, sizes)


if __name__ == "__main__":
    main()
