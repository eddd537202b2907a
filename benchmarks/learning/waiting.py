"""How long sampling waits for verification: the same run three ways, in turn. Writes waiting.json after each.

    python -m benchmarks.learning.waiting tasks/train*.yaml --model hindsight --rewards rewards.yaml --out waiting.json

`synchronous` verifies when all groups have sampled, `parts` while other groups sample, `ahead` also gathers the next
step while one is trained. Each run has a ledger of its own, so that none finds what another has verified. The first
step of a run is left out: processes start, and nothing is ahead yet.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from sciagent.agent import install_and_find_models
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import TrainedStep
from sciagent.training.live.live_run import train_live
from sciagent.training.settings import LiveSettings, TaskShare

PARTS = LiveSettings.model_fields["parts"].default
WAYS: Mapping[str, Mapping[str, int]] = {
    "synchronous": {"parts": 1},
    "parts": {"parts": PARTS},
    "ahead": {"parts": PARTS, "ahead": 1},
}
PHASES = ("sample", "verify", "wait", "update")


def run(tasks: Sequence[Path], rewards: Path, model: str, folder: Path, name: str, **more: Any) -> list[Any]:
    """Trains, and returns the moment and the result of each step. more: settings."""
    found: list[tuple[float, TrainedStep]] = []
    given: dict[str, Any] = {"begins": "seeds:8", "credit": "rtg", "further": 0, "guards": {}, "threads": 1, "seed": 1}
    given |= {"learning_rate": 1e-3, "save_every": 1000} | more
    run_settings = LiveSettings(
        tasks=[TaskShare(file=task) for task in tasks],
        model=model,
        out=folder / name,
        name=name,
        rewards=rewards,
        **given,
    )
    ledger = Ledger(str(folder / f"{name}.db"))
    try:
        train_live(run_settings, ledger, lambda step, of: found.append((time.monotonic(), step)))
        install_and_find_models.remove(name)
    finally:
        ledger.close()
    return found


def shares(steps: Sequence[tuple[float, TrainedStep]]) -> dict[str, float]:
    """Returns the seconds of a step after the first one, and the share of each phase in them."""
    wall = steps[-1][0] - steps[0][0]
    later = [step for _, step in steps[1:]]
    sums = {phase: sum(getattr(step.seconds, phase) for step in later) for phase in PHASES}
    told = {phase: round(spent / wall, 3) for phase, spent in sums.items()}
    return {"seconds": round(wall / len(later), 2), **told}


def measure(tasks: Sequence[Path], rewards: Path, model: str, rounds: int, out: Path, **more: Any) -> None:
    """Writes the shares of all rounds by way. more: settings."""
    found: dict[str, list[Any]] = {way: [] for way in WAYS}
    about = {"cores": os.cpu_count(), "torch": version("torch"), "tasks": len(tasks), "model": model, **more}
    with tempfile.TemporaryDirectory(prefix="sciagent-waiting-") as folder:
        for number in range(rounds):
            for way, how in WAYS.items():
                name = f"waiting-{os.getpid()}-{way}-{number}"
                busy = os.getloadavg()[0]
                steps = run(tasks, rewards, model, Path(folder), name, **how, **more)
                found[way].append(shares(steps) | {"load_before": round(busy, 1)})
                out.write_text(json.dumps(about | found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="How long sampling waits for verification.")
    parser.add_argument("tasks", type=Path, nargs="+", metavar="CAMPAIGN.yaml")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rewards", type=Path, required=True)
    for name, default in (("rounds", 3), ("steps", 5), ("groups", 8), ("siblings", 6), ("turns", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, required=True)
    measure(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
