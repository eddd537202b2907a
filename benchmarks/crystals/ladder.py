"""Measures how well each rung of campaigns/perovskite_gap.yaml ranks the next one, on real perovskites.

python -m benchmarks.crystals.ladder cells    relaxes the ideal cubic cells with CHGNet (perovskites.csv), a minute
python -m benchmarks.crystals.ladder run      computes both gaps of each with GPAW (ladder.csv), about a minute each
python -m benchmarks.crystals.ladder phases   energies above the known phases by mlff.relax (stability.csv), minutes
python -m benchmarks.crystals.ladder report   rank correlations and fits (ladder.json); and ladder_window.csv

`run` goes on where it was stopped: a compound in ladder.csv is not computed again. The compounds are the 313 that are
perovskites by experiment in benchmarks/scheduling/perovskite_expt_tau.csv.gz (Bartel et al., Sci. Adv. 5, eaav0693
(2019)), without open d and f shells by the oxidation states of that table, and with PAW data in GPAW 22.8. All are
computed as cubic cells of five atoms, which cannot tilt: gaps of the real, tilted structures differ by up to 1 eV.

ladder_window.csv is a table for `sciagent bench scheduling`: how far both gaps are from the middle of the window.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.errors import SimulatorError
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import PROTOCOLS, compute

HERE = Path(__file__).parent
KNOWN = HERE.parent / "scheduling" / "perovskite_expt_tau.csv.gz"
CELLS = HERE / "perovskites.csv"
TABLE = HERE / "ladder.csv"
REPORT = HERE / "ladder.json"
STABILITY = HERE / "stability.csv"
WINDOW = HERE / "ladder_window.csv"
# window and gate of campaigns/perovskite_gap.yaml
LOW = 0.6  # eV
HIGH = 1.6  # eV
MOST_ABOVE = 0.1  # eV/atom
MOST_STEPS = 100  # a relaxation that takes longer has left the structure
COLUMNS = (
    "compound", "a", "gap_fast", "direct_fast", "seconds_fast", "gap_standard", "direct_standard", "seconds_standard",
    "energy_standard", "gpaw", "fault",
)  # fmt: skip
IDEAL = [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)]


def perovskite(a_site: str, b_site: str, anion: str, a: float) -> Any:
    """Returns the ase.Atoms of an ideal cubic perovskite. a: angstrom."""
    from ase import Atoms

    return Atoms([a_site, b_site, *[anion] * 3], cell=[a] * 3, pbc=True, scaled_positions=IDEAL)


def compounds() -> list[dict[str, str]]:
    """Returns the rows of the table of known perovskites that are computed."""
    from sciagent_simulators.periodic.k_points_and_elements import in_gpaw_22_8, is_open

    with gzip.open(KNOWN, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if float(row["exp_label"]) == 1]
    return [
        row
        for row in rows
        if all(in_gpaw_22_8(row[site]) for site in "ABX")
        and not any(is_open(row[site], float(row["n" + site])) for site in "AB")
    ]


def relax_cells() -> None:
    """Writes the cells that CHGNet relaxes, from the radii of the table."""
    from sciagent_simulators.potentials.potential_base_and_registry import load_potential
    from sciagent_simulators.potentials.relax_and_equation_of_state import relax

    rows = compounds()
    starts = [
        perovskite(row["A"], row["B"], row["X"], 1.92 * (float(row["rB (Ang)"]) + float(row["rX (Ang)"])))
        for row in rows
    ]
    with CELLS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("compound", "A", "B", "X", "a", "steps"))
        for row, relaxed in zip(rows, relax(load_potential("chgnet-0.3.0"), starts, fmax=0.02), strict=True):
            if relaxed.fault is None and relaxed.steps < MOST_STEPS:
                length = round(float(relaxed.atoms.cell.lengths()[0]), 4)
                writer.writerow(
                    ("".join(row[site] for site in "ABX") + "3", *(row[s] for s in "ABX"), length, relaxed.steps)
                )


def in_order() -> Iterator[dict[str, str]]:
    """Yields the cells, small ones first, but every fourth from the large end, so that halides come early too."""
    with CELLS.open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["a"]))
    while rows:
        for _ in range(3):
            if rows:
                yield rows.pop(0)
        if rows:
            yield rows.pop()


def find_stability() -> None:
    """Writes the energies above the elements and binaries, by the rung `relax` of the campaign."""
    from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
    from sciagent.verification.verifier_contract import Context
    from sciagent.verification.verifier_registry import verifier_class

    rows = sorted(in_order(), key=lambda row: row["compound"])
    crystals = [decorated("perovskite", [row[site] for site in "ABX"]) for row in rows]
    with tempfile.TemporaryDirectory() as folder, STABILITY.open("w", encoding="utf-8", newline="") as file:
        for name in ("scratch", "kept"):
            (Path(folder) / name).mkdir()
        context = Context(Path(folder) / "scratch", Path(folder) / "kept")
        rung = verifier_class("mlff.relax")({"known_phases": "binaries"})
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("compound", "energy_above_known_phases", "fault"))
        for row, finding in zip(rows, rung.verify(crystals, context), strict=True):
            values = {measured.property: measured.quantity.value for measured in finding.measured}
            above = values.get("energy_above_known_phases")
            writer.writerow((row["compound"], "" if above is None else round(above, 4), finding.reason or ""))


def run(ranks: int) -> None:
    """Computes what is missing in the table, one compound after the other."""
    done: set[str] = set()
    if TABLE.exists():
        with TABLE.open(encoding="utf-8") as file:
            done = {row["compound"] for row in csv.DictReader(file)}
    else:
        TABLE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for row in in_order():
        if row["compound"] in done:
            continue
        found = measured(row, ranks)
        with TABLE.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(found)
        sys.stdout.write(f"{found}\n")
        sys.stdout.flush()


def measured(row: dict[str, str], ranks: int) -> dict[str, Any]:
    """Returns the row of the table for a compound."""
    atoms = perovskite(row["A"], row["B"], row["X"], float(row["a"]))
    found: dict[str, Any] = {"compound": row["compound"], "a": row["a"]}
    for name, protocol in PROTOCOLS.items():
        with tempfile.TemporaryDirectory() as folder:
            (kept := Path(folder) / "kept").mkdir()
            before = _seconds()
            try:
                bands = compute(atoms, protocol, Path(folder) / "gpaw", kept, ranks=ranks)
            except SimulatorError as error:
                if error.outcome == "bad_environment":
                    raise
                return {**found, "fault": f"{name}: {error.reason}"}
        assert bands.gap is not None
        found[f"gap_{name}"] = round(bands.gap.value, 4)
        found[f"direct_{name}"] = round(bands.gap.direct, 4)
        found[f"seconds_{name}"] = round(_seconds() - before, 1)
        found["gpaw"] = bands.versions["gpaw"]
    return found | {"energy_standard": round(bands.energy, 5)}


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report() -> dict[str, Any]:
    """Returns rank correlations, the fit of the standard gap over the fast one, and costs."""
    from scipy.stats import spearmanr

    with TABLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file)]
    complete = [row for row in rows if row["gap_standard"]]
    fast, standard = (np.array([float(row[f"gap_{name}"]) for row in complete]) for name in PROTOCOLS)
    groups = {"all": fast >= -1, "insulators": standard > 0, "oxides": np.array([_is_oxide(row) for row in complete])}
    groups["halides"] = ~groups["oxides"]
    seconds = {name: np.array([float(row[f"seconds_{name}"]) for row in complete]) for name in PROTOCOLS}
    return {
        "n": len(complete),
        "faults": {row["compound"]: row["fault"] for row in rows if row["fault"]},
        "metals": [row["compound"] for row in complete if float(row["gap_standard"]) == 0],
        "fast against standard": {
            name: _fit(fast[mask], standard[mask], spearmanr) for name, mask in groups.items() if mask.sum() > 5
        },
        "energy above known phases, spearman": _of_stability(complete, spearmanr),
        "in the window": {
            name: sorted(row["compound"] for row in complete if LOW <= float(row[f"gap_{name}"]) <= HIGH)
            for name in PROTOCOLS
        },
        "core-seconds, median": {name: round(float(np.median(values)), 1) for name, values in seconds.items()},
        "gpaw": sorted({row["gpaw"] for row in complete}),
    }


def from_window(gap: float) -> float:
    """Returns how far a gap is from the middle of the window, in eV."""
    return round(abs(gap - (LOW + HIGH) / 2), 4)


def write_window() -> None:
    """Writes the table for `sciagent bench scheduling`."""
    with TABLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["gap_standard"]]
    with WINDOW.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("compound", *PROTOCOLS))
        writer.writerows(
            (row["compound"], *(from_window(float(row[f"gap_{name}"])) for name in PROTOCOLS)) for row in rows
        )


def _is_oxide(row: dict[str, str]) -> bool:
    return row["compound"].endswith("O3")


def _of_stability(complete: list[dict[str, str]], spearmanr: Any) -> dict[str, float | list[str]]:
    """Returns the rank correlations of the energies above the known phases with the fast gap."""
    with STABILITY.open(encoding="utf-8") as file:
        above = {row["compound"]: row["energy_above_known_phases"] for row in csv.DictReader(file)}
    rows = [row for row in complete if above[row["compound"]]]
    energies = [float(above[row["compound"]]) for row in rows]
    gaps = [float(row["gap_fast"]) for row in rows]
    return {
        "n": len(rows),
        "gap": round(float(spearmanr(energies, gaps).statistic), 4),
        "distance of the gap from the window": round(
            float(spearmanr(energies, [from_window(gap) for gap in gaps]).statistic), 4
        ),
        "above 0.1 eV/atom": [row["compound"] for row, e in zip(rows, energies, strict=True) if e > MOST_ABOVE],
    }


def _fit(fast: Any, standard: Any, spearmanr: Any) -> dict[str, float]:
    slope, intercept = np.polyfit(fast, standard, 1)
    residual = standard - slope * fast - intercept
    return {
        "n": len(fast),
        "spearman": round(float(spearmanr(fast, standard).statistic), 4),
        "slope": round(float(slope), 4),
        "intercept": round(float(intercept), 4),
        "residual": round(float(residual.std(ddof=2)), 4),
        "largest": round(float(np.abs(fast - standard).max()), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("cells", "run", "phases", "report"))
    parser.add_argument("--ranks", type=int, default=1, help="processes of MPI")
    options = parser.parse_args()
    begun = time.perf_counter()
    if options.stage == "cells":
        relax_cells()
    elif options.stage == "run":
        run(options.ranks)
    elif options.stage == "phases":
        find_stability()
    else:
        write_window()
        REPORT.write_text(json.dumps(report(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{time.perf_counter() - begun:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
