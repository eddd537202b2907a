"""Molecules per second per core of the fast tier, against a plain RDKit loop that does the same, in one run.

    python -m benchmarks.fast_tier.run --smiles zinc250k.csv.gz --out result.json

The loop and sciagent take turns, chunk by chunk, so that what else the machine does strikes both alike. Wall and CPU
seconds are both kept; CPU is that of every process that works for the side in question.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from benchmarks.fast_tier.ours import HostPipeline, LedgerPipeline, clocks  # noqa: E402
from benchmarks.fast_tier.plain import PlainLoop  # noqa: E402
from sciagent.chemistry.molecule import _parsed  # noqa: E402
from sciagent.chemistry.molecule_files import read_structures  # noqa: E402

CHUNK = 500
BROKEN = 0.05  # of all texts
TARGETS = {"cold": 0.87, "repeats": 20.0, "two_processes": 0.85}
COMPARED = (
    "molecular_weight", "logp", "tpsa", "hydrogen_bond_donors", "hydrogen_bond_acceptors", "rotatable_bonds", "rings",
    "aromatic_rings", "largest_ring", "stereocentres", "fraction_sp3", "heavy_atoms", "net_charge", "qed", "sa_score",
)  # fmt: skip


def texts_of(path: Path, column: str, n: int, seed: int) -> list[str]:
    """n structures of the file, drawn at random, and as many broken ones as make BROKEN of the whole, shuffled."""
    from rdkit import Chem, rdBase

    rng = random.Random(seed)
    whole = [record.text for record in read_structures(path, column) if not record.fault]
    chosen = rng.sample(whole, n)
    broken: list[str] = []
    while len(broken) < round(n * BROKEN / (1 - BROKEN)):
        text = rng.choice(whole)
        place = rng.randrange(1, len(text))
        damaged = rng.choice(
            [text[:place], f"{text[:place]}({text[place:]}", f"{text[:place]}F{text[place + 1 :]}", ""]
        )
        with rdBase.BlockLogs():
            if damaged and Chem.MolFromSmiles(damaged) is None:
                broken.append(damaged)
    mixed = chosen + broken
    rng.shuffle(mixed)
    return mixed


def _timed(work: Callable[[], Any], pipeline: Any = None) -> tuple[Any, float, float]:
    wall, cpu = clocks(pipeline)
    done = work()
    wall_after, cpu_after = clocks(pipeline)
    return done, wall_after - wall, cpu_after - cpu


def _chunks(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[i : i + CHUNK] for i in range(0, len(texts), CHUNK)]


def _rates(n: int, wall: float, cpu: float) -> dict[str, float]:
    cpu = max(cpu, 0.01)  # the clock of other processes ticks so coarsely
    return {
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "per_second": round(n / wall, 1),
        "per_cpu_second": round(n / cpu, 1),
    }


class PlainProcess:
    """The loop in a process of its own, where nothing of sciagent has touched RDKit's logging."""

    def __init__(self, catalogues: tuple[str, ...]) -> None:
        self._pipe, other = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve_plain, args=(other, catalogues))
        process.start()
        self._process = process

    def __enter__(self) -> PlainProcess:
        self.run(["CCO", "c1ccccc1"])
        return self

    def __exit__(self, *error: object) -> None:
        self._pipe.send(None)
        self._process.join()

    def run(self, texts: Sequence[str]) -> tuple[list[dict[str, Any]], float, float]:
        """Answers, wall and CPU seconds of the loop itself."""
        self._pipe.send(list(texts))
        answer: tuple[list[dict[str, Any]], float, float] = self._pipe.recv()
        return answer


def _serve_plain(pipe: Any, catalogues: tuple[str, ...]) -> None:
    loop = PlainLoop(catalogues)
    while (texts := pipe.recv()) is not None:
        pipe.send(_timed(lambda texts=texts: [loop(text) for text in texts]))


def cold(texts: Sequence[str], batch: int, catalogues: tuple[str, ...]) -> dict[str, Any]:
    """Plain loop, host, and host with ledger, in turns, then the same texts once more through the ledger."""
    settings = {"refuse_alerts": list(catalogues)}
    sums: dict[str, list[float]] = {name: [0.0, 0.0] for name in ("plain", "host", "ledger", "repeats")}

    def add(name: str, wall: float, cpu: float) -> None:
        sums[name][0] += wall
        sums[name][1] += cpu

    different = 0
    with (
        PlainProcess(catalogues) as loop,
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        HostPipeline(Path(one), settings, batch) as host,
        LedgerPipeline(Path(other), settings, batch) as ledger,
    ):
        for number, chunk in enumerate(_chunks(texts)):
            for side in ("plain", "host", "ledger") if number % 2 else ("ledger", "host", "plain"):
                _parsed.cache_clear()
                if side == "plain":
                    expected, wall, cpu = loop.run(chunk)
                elif side == "host":
                    found, wall, cpu = _timed(lambda chunk=chunk: host.findings(chunk), host)
                else:
                    _, wall, cpu = _timed(lambda chunk=chunk: ledger.run(chunk), ledger)
                add(side, wall, cpu)
            different += sum(not _same(e, found.get(text)) for text, e in zip(chunk, expected, strict=True))
        ledger.run(texts)  # every text is known to this process again
        for chunk in _chunks(texts):
            new, wall, cpu = _timed(lambda chunk=chunk: ledger.run(chunk), ledger)
            add("repeats", wall, cpu)
            assert new == 0, "a repeat is no new candidate"
    rates = {name: _rates(len(texts), *seconds) for name, seconds in sums.items()}
    return {"rates": rates, "different_answers": different, "batch": batch, "catalogues": list(catalogues)}


def _same(plain: dict[str, Any], found: Any) -> bool:
    """Whether both say the same of a text: no molecule, refused, or the same identity and numbers."""
    if found is None:
        return plain.get("refused") in ("unparsable", "fragments")
    molecule, result = found
    if (plain["smiles"], plain["identity"], plain["inchikey"]) != (
        molecule.smiles,
        molecule.identity,
        molecule.inchikey,
    ):
        return False
    if "refused" in plain or result.finding.reason is not None:
        return "refused" in plain and result.finding.outcome == "refused"
    measured = {m.property: m.quantity.value for m in result.finding.measured}
    return all(abs(measured[name] - plain[name]) < 1e-9 for name in COMPARED)


def _one_of_two(side: str, texts: Sequence[str], batch: int, start: Any, answers: Any) -> None:
    """A process of its own: get ready, wait for the other, work, and say the wall and CPU seconds it took."""
    if side == "plain":
        loop = PlainLoop()
        loop("CCO")
        start.wait()
        _, wall, cpu = _timed(lambda: [loop(text) for text in texts])
        answers.put((wall, cpu))
        return
    with tempfile.TemporaryDirectory() as folder, HostPipeline(Path(folder), {}, batch) as host:
        start.wait()
        _, wall, cpu = _timed(lambda: host.run(texts), host)
        answers.put((wall, cpu))


def two_processes(texts: Sequence[str], batch: int, rounds: int) -> dict[str, Any]:
    """Two at a time on half of the texts each; loops and sciagent in turns. Wall is that of the slower of two."""
    context = multiprocessing.get_context("spawn")
    sums = {"plain": [0.0, 0.0], "host": [0.0, 0.0]}
    for number in range(rounds):
        part = texts[number::rounds]
        for side in ("plain", "host") if number % 2 else ("host", "plain"):
            start = context.Barrier(2)
            answers = context.Queue()
            halves = (part[::2], part[1::2])
            pair = [context.Process(target=_one_of_two, args=(side, h, batch, start, answers)) for h in halves]
            for process in pair:
                process.start()
            times = [answers.get(timeout=1800) for _ in pair]
            for process in pair:
                process.join()
            sums[side][0] += max(wall for wall, _ in times)
            sums[side][1] += sum(cpu for _, cpu in times)
    return {name: _rates(len(texts), *seconds) for name, seconds in sums.items()}


def ratios(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """sciagent's rate over the loop's, by CPU ("per core") and by wall."""
    rates = report["one_process"]["rates"]
    pair = report["two_processes"]
    found = {}
    for by, field in (("cpu", "per_cpu_second"), ("wall", "per_second")):
        plain = rates["plain"][field]
        found[by] = {
            "cold": round(rates["host"][field] / plain, 3),
            "cold_with_ledger": round(rates["ledger"][field] / plain, 3),
            "repeats": round(rates["repeats"][field] / plain, 1),
            "two_processes": round(pair["host"][field] / pair["plain"][field], 3),
        }
    return found


def run(texts: Sequence[str], batch: int, rounds: int, catalogues: tuple[str, ...]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "texts": len(texts),
        "broken": round(len(texts) * BROKEN),
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": ".".join(map(str, sys.version_info[:3])),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: version(name) for name in ("rdkit", "sqlalchemy", "pydantic")},
        "load_average_before": [round(x, 1) for x in os.getloadavg()],
        "one_process": cold(texts, batch, catalogues),
        "two_processes": two_processes(texts, batch, rounds),
    }
    report["ratios"] = ratios(report)
    report["targets"] = TARGETS
    report["met_per_core"] = {name: report["ratios"]["cpu"][name] >= target for name, target in TARGETS.items()}
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smiles", type=Path, required=True, help="csv, smi or sdf, also .gz, with enough structures")
    parser.add_argument("--column", default="smiles")
    parser.add_argument("-n", type=int, default=10_000, help="structures, without the broken ones")
    parser.add_argument("--batch", type=int, default=250, help="texts a turn")
    parser.add_argument("--rounds", type=int, default=4, help="turns that the pairs of processes take")
    parser.add_argument("--refuse-alerts", nargs="*", default=[], metavar="CATALOGUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    texts = texts_of(given.smiles, given.column, given.n, given.seed)
    text = json.dumps(run(texts, given.batch, given.rounds, tuple(given.refuse_alerts)), indent=1)
    print(text)  # noqa: T201
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
