"""What a job costs by itself: `run.py [--big FILE] [-o results.json]`; README.md says what is measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

VERIFIERS = ("noop.together", "noop.nothing", "noop.rdkit")


def measure(folder: Path, jobs: int, repeats: int, gfn2: int, big: Path | None, alone: bool) -> dict[str, Any]:
    import baselines
    from big_ledger import NAME, join
    from measure import alcohols, median, open_campaign, prioritise, run

    from sciagent.store.database.ledger import Ledger

    found: dict[str, Any] = {"machine": machine(), "jobs": jobs, "repeats": repeats, "alone": alone}
    ledgers = {"fresh": Ledger(str(folder / "fresh.db"))} | ({"crowded": Ledger(str(big))} if big else {})
    molecules = alcohols(jobs)
    rounds: list[dict[str, Any]] = []
    for number in range(repeats):
        prioritise(alone)
        one: dict[str, Any] = {
            "load": os.getloadavg()[0],
            "sqlite_queue_ms": baselines.sqlite_queue(folder / "queue.db", jobs),
            "process_pool_ms": baselines.process_pool(jobs),
            "bare_forks_ms": baselines.bare_forks(min(jobs, 200)),
        }
        prioritise(False)
        for where, ledger in ledgers.items():
            for verifier in VERIFIERS:
                name = f"{verifier.replace('.', '-')}-{os.getpid()}-{number}"
                settings = f"{{salt: {os.getpid() * 1000 + number}}}"
                built = open_campaign(ledger, name, folder, verifier=verifier, molecules=molecules, settings=settings)
                one[f"{where}.{verifier}"] = run(built, alone)
        rounds.append(one)
        sys.stderr.write(f"{json.dumps(one)}\n")
    found["rounds"] = rounds
    found["median"] = {
        key: median(one[key] for one in rounds) if isinstance(rounds[0][key], float) else _medians(rounds, key)
        for key in rounds[0]
    }
    if big:
        built = open_campaign(
            ledgers["crowded"],
            f"{NAME}-{os.getpid()}",
            folder,
            verifier="noop.together",
            molecules=molecules,
            settings=f"{{salt: {os.getpid() * 1000 + 998}}}",
        )
        join(big, built.row.id)
        found["in_a_crowded_campaign"] = run(built, alone)
        sys.stderr.write(f"{json.dumps(found['in_a_crowded_campaign'])}\n")
    for where, ledger in ledgers.items() if gfn2 else ():
        built = open_campaign(
            ledger,
            f"gfn2-{os.getpid()}",
            folder,
            verifier="xtb.singlepoint",
            molecules=alcohols(gfn2),
            objective="homo_lumo_gap, unit: eV",
            settings=f"{{geometry: {{conformers: 1}}, max_atoms: {400 + os.getpid() % 500}}}",
        )
        found[f"gfn2.{where}"] = run(built, alone)
        sys.stderr.write(f"{json.dumps(found[f'gfn2.{where}'])}\n")
    built = open_campaign(
        ledgers["fresh"],
        f"profile-{os.getpid()}",
        folder,
        verifier="noop.together",
        molecules=molecules,
        settings=f"{{salt: {os.getpid() * 1000 + 999}}}",
    )
    found["profiled"] = run(built, alone, folder / "profile.txt")
    found["profile"] = (folder / "profile.txt").read_text(encoding="utf-8").splitlines()[:40]
    return found


def _medians(rounds: list[dict[str, Any]], key: str) -> dict[str, Any]:
    from measure import median

    cpu = {who: median(one[key]["cpu_ms"][who] for one in rounds) for who in rounds[0][key]["cpu_ms"]}
    return {"ms": median(one[key]["ms"] for one in rounds), "cpu_ms": cpu}


def machine() -> dict[str, Any]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=600, help="no-op jobs in each run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gfn2", type=int, default=200, help="live GFN2 jobs; 0: none")
    parser.add_argument("--big", type=Path, help="a ledger that big_ledger.py has filled")
    parser.add_argument("--alone", action="store_true", help="real-time priority for what is measured (takes root)")
    parser.add_argument("-o", "--output", type=Path, help="where the JSON goes; default: the terminal")
    given = parser.parse_args()
    from measure import plugin

    with tempfile.TemporaryDirectory(prefix="sciagent-bench-") as name, plugin():
        found = measure(Path(name), given.jobs, given.repeats, given.gfn2, given.big, given.alone)
    text = json.dumps(found, indent=1) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
