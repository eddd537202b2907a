"""Calibration on twenty of fifty measured hydration energies, judged on the other thirty: writes held_out.json.

sciagent run campaigns/hydration.yaml                      (18 minutes on two busy cores)
sciagent import campaigns/hydration_experiment.csv --value 'hydration_free_energy=solvation_free_energy[kcal/mol]' \
  --uncertainty hydration_free_energy=uncertainty --method experiment --phase water
sciagent export hydration -o hydration.csv --columns all
sciagent calc xtb.solvation --set method=GFN2-xTB --unit solvation_free_energy=kcal/mol \
  --file campaigns/hydration_experiment.csv > gfn2.tsv     (a minute on two cores)
python benchmarks/calibration/held_out.py hydration.csv gfn2.tsv
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind, fitted

NAME = "solvation_free_energy"
FITTED = 20
SPLITS = 100
GFN2 = "alpb_gfn2"
RUNGS = {"alpb": "xtb.solvation", GFN2: "xtb.solvation", "smd": "pyscf.solvation"}


def main(table: Path, gfn2: Path) -> None:
    """Write the result. table: export of the campaign. gfn2: values by GFN2-xTB, as `calc` writes them."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    column = f"{NAME} [kcal/mol]"
    with gfn2.open(encoding="utf-8", newline="") as file:
        again = {row["smiles"]: row for row in csv.DictReader(file, delimiter="\t")}
    for row in rows:
        same = again[row["smiles"]]
        row[f"{GFN2}.{column}"] = same[column]
        row[f"{GFN2}.{column} level"] = same["level"]
    summary = {}
    values = [{"smiles": row["smiles"], "measured": round(float(row[f"imported.{column}"]), 3)} for row in rows]
    for rung, verifier in RUNGS.items():
        known = [(value, row[f"{rung}.{column}"]) for value, row in zip(values, rows, strict=True)]
        for value, text in known:
            if text:
                value[rung] = round(float(text), 3)
        pairs = [(value[rung], value["measured"]) for value, text in known if text]
        level = next(row[f"{rung}.{column} level"] for row in rows if row[f"{rung}.{column}"])
        summary[rung] = {"verifier": verifier, "level": level} | compared(pairs)
    made = {
        "command": "python benchmarks/calibration/held_out.py hydration.csv gfn2.tsv",
        "unit": "kcal/mol",
        "rungs": summary,
        "values": values,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def compared(pairs: Sequence[tuple[float, float]], splits: int = SPLITS) -> dict[str, object]:
    """Returns mean absolute errors on the held molecules: of the plain rung and of both fits, over random splits.

    pairs: (computed, measured) of each molecule. `better`: number of splits in which the fit beats the plain rung.
    `used`: number of splits in which `calibrate` uses the fit. `calibrated`: error of the rung as `calibrate` leaves
    it, with the fit or without. `worse`: number of splits in which that is above the error of the plain rung.
    """
    plain: list[float] = []
    left: dict[str, list[float]] = {kind.value: [] for kind in FitKind}
    used_in = dict.fromkeys(left, 0)
    fits: dict[str, list[float]] = {kind.value: [] for kind in FitKind}
    stated: dict[str, list[float]] = {kind.value: [] for kind in FitKind}
    for seed in range(splits):
        chosen = set(random.Random(seed).sample(range(len(pairs)), FITTED))
        used, held = ([pair for i, pair in enumerate(pairs) if (i in chosen) is side] for side in (True, False))
        plain.append(mean_absolute(held, None))
        for kind in FitKind:
            fit = fitted(NAME, kind, "experiment", [x for x, _ in used], [y for _, y in used])
            fits[kind.value].append(mean_absolute(held, fit))
            left[kind.value].append(fits[kind.value][-1] if fit.is_used else plain[-1])
            used_in[kind.value] += fit.is_used
            stated[kind.value].append(fit.mean_absolute_error)
    return {
        "molecules": len(pairs),
        "fitted": FITTED,
        "held": len(pairs) - FITTED,
        "splits": splits,
        "plain": round(mean(plain), 3),
        **{
            kind: {
                "held": round(mean(errors), 3),
                "leave_one_out": round(mean(stated[kind]), 3),
                "better": sum(error < bare for error, bare in zip(errors, plain, strict=True)),
                "used": used_in[kind],
                "calibrated": round(mean(left[kind]), 3),
                "worse": sum(error > bare for error, bare in zip(left[kind], plain, strict=True)),
            }
            for kind, errors in fits.items()
        },
    }


def mean_absolute(pairs: Sequence[tuple[float, float]], fit: Fit | None) -> float:
    return mean([abs((fit.value(x) if fit else x) - y) for x, y in pairs])


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
