"""Nothing stuck: the same campaign on each pair of servers, under kills and cut connections, then audited.

    python -m benchmarks.doors.chaos --jobs 600 --out benchmarks/doors/results/chaos.json

Each campaign is driven as in `benchmarks.orchestration.chaos`. Beside the kills there, the database server cuts
connections at random moments. At the end each job is done and each number of the audit is 0: done jobs without
evidence, evidence twice, attempts billed twice or otherwise than their cost, attempts left running, live reservations.
Otherwise it ends with an error, and the file holds the pairs that came before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.orchestration import chaos

PAIRS = (("postgresql", "redis"), ("postgresql", "rabbitmq"), ("sqlite", "none"))
"""(ledger, broker)"""
CUTS = 6
"""Weight of cut connections among the acts; that of killing a worker is 4."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two acts, on average")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--lease", type=float, default=6.0, help="seconds")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most, for each pair")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--databases", type=int, default=1, help="weight of killing the database among the acts")
    parser.add_argument("--seconds", type=float, default=0.3, help="duration of a job")
    parser.add_argument("--most", type=int, help="kills of the database after which nothing is killed; default: no end")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the pairs, from 0; default: all")
    parser.add_argument("--keep", type=Path, help="a folder for ledgers and logs; default: removed at the end")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    results: list[dict[str, Any]] = []
    for number, (ledger, broker) in enumerate(PAIRS):
        if given.only and number not in given.only:
            continue
        say(f"{ledger}, {broker}")
        with tempfile.TemporaryDirectory(prefix="sciagent-doors-") as temporary:
            folder = Path(temporary) if given.keep is None else given.keep / f"{ledger}-{broker}"
            folder.mkdir(parents=True, exist_ok=True)
            result = chaos.run(
                given.jobs,
                ledger,
                broker,
                folder,
                lease=given.lease,
                every=given.every,
                n_workers=given.workers,
                seed=given.seed + number,
                minutes=given.minutes,
                say=say,
                cuts=CUTS,
                databases=given.databases,
                most=given.most,
                seconds=given.seconds,
            )
        results.append(result)
        if given.out:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))  # noqa: T201
    acts = sum(sum(result["did"].values()) for result in results)
    say(f"{acts} acts in all; nothing lost, nothing twice, nothing left")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
