"""Writes the comparison of `law` and `evolve` in the campaigns that the project ships, with their own ladders:

    python -m benchmarks.law.templates FOLDER
    cd FOLDER && sciagent evaluate uv_absorbers.eval.yaml

Each campaign has a file of its own, as the number of its verifications differs: about twenty minutes of one core for a
run. The seeds of the campaign are verified first, which all runs share and none is charged for.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"
VERIFICATIONS = {"uv_absorbers": 8, "redox_anolytes": 8, "perovskite_gap": 2}
"""Verifications by the dearest rung of each run, besides the seeds."""
EVALUATE = """evaluate:
  tasks: [{name}.yaml]
  verifications: {verifications}
  seeds: [1, 2, 3, 4, 5]
  arms:
    evolve: {{proposer: {{kind: evolve, batch: 8}}}}
    law: {{proposer: {{kind: law, batch: 8}}}}
"""


def write(folder: Path) -> None:
    """Writes the campaigns with their seeds, and a recipe for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, verifications in VERIFICATIONS.items():
        for file in (f"{name}.yaml", f"{name}_seeds.csv"):
            shutil.copy(CAMPAIGNS / file, folder / file)
        recipe = EVALUATE.format(name=name, verifications=verifications)
        (folder / f"{name}.eval.yaml").write_text(recipe, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
