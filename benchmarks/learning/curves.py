"""Draws the learning curves of training runs: mean reward of an episode and entropy, by step.

    python -m benchmarks.learning.curves RUN.jsonl... --out benchmarks/learning/curves.png

Each file holds the steps of a run as `sciagent train grpo --json` prints them, and is named in the chart by its stem.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

WINDOW = 8  # steps of the running mean


def steps_of(path: Path) -> list[tuple[int, float, float]]:
    """Returns (step, reward, entropy) of each step that a run printed; steps without a known reward are left out."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return [(row["step"], row["reward"], row["entropy"]) for row in rows if row.get("reward") is not None]


def running_means(values: Sequence[float], window: int = WINDOW) -> list[float]:
    """Returns the mean of each value with those before it, at most `window` of them."""
    parts = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in parts]


def draw(paths: Sequence[Path], out: Path) -> None:
    """Draws a curve for each run, with its steps as dots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for path in paths:
        steps, rewards, entropies = zip(*steps_of(path), strict=True)
        [line] = left.plot(steps, running_means(rewards), label=path.stem)
        left.plot(steps, rewards, ".", color=line.get_color(), alpha=0.35)
        right.plot(steps, entropies, color=line.get_color(), label=path.stem)
    left.set(xlabel="step", ylabel="reward of an episode, in hits")
    right.set(xlabel="step", ylabel="entropy of a token, in nats")
    left.legend(frameon=False)
    figure.savefig(out, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    draw(given.runs, given.out)
