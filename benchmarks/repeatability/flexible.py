"""Whether the stated ± of molecules with rings, OH, amines and open stereo covers repeated conformer searches.

python -m benchmarks.repeatability.flexible --fit --out benchmarks/repeatability/flexible_fit.json
python -m benchmarks.repeatability.flexible --out benchmarks/repeatability/flexible.json

POOL names 96 molecules in four groups. In each group the TESTED molecules whose InChIKey has the lowest SHA-256 are
tested; the ± of the classes are set on the others (`--fit`). So both sets are drawn from the same molecules by chance,
and no molecule stands in both, nor in the set of `run.py`; `check_pool` compares the first blocks of the InChIKeys.

Each molecule is computed with SEEDS seeds of the conformer search (replicates 0 to 5). A search embeds a molecule with
open stereo in whatever isomer the seed gives and keeps the lowest, as in a campaign. The ± of such a molecule therefore
has to cover the choice of the isomer as well.

The estimator: two independent runs with the standard uncertainties u and v should differ by at most the root of
u² + v² in 68 % of all pairs. The coverage of a molecule is the share of such pairs of its seeds; the coverage of a set
is the mean over its molecules. Its interval holds the central 95 % of RESAMPLES bootstrap samples of the molecules. The
± holds if 68 % lies in this interval and the interval is no wider than 0.20 to either side.

The fit: the ± of a class (`search_freedom`) is the smallest u with which 68 % of the pairs of its molecules are
covered, each molecule with the same weight, and at least the u of all molecules together: two thirds of the molecules
that have turning bonds without OH and NH repeat exactly, which says nothing about the others. A root mean square
instead is dominated by the few molecules that scatter most, and covers too much.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.repeatability.run import VERIFIERS, flexible, measure
from sciagent.chemistry.molecule import parse_molecule
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom, search_freedom

SEEDS = 6
TESTED = 6  # molecules of each group
RESAMPLES = 10_000
SHARE = 0.68
WIDEST = 0.20  # half width of the interval of the coverage
PROPERTIES = ("solvation_free_energy", "homo_lumo_gap", "dipole")  # the ± of these are tested

POOL: Mapping[str, tuple[str, ...]] = {
    # saturated rings without OH and amine; all stereo is defined
    "rings": (
        "CC(=O)C1CCCCC1",
        "COC1CCCCC1",
        "CCOC(=O)C1CCCCC1",
        "O=C1CCCCCC1",
        "CO[C@@H]1CCCCO1",
        "CCOC(=O)C1CCOCC1",
        "C1COCCOCCOCCO1",
        "O=C1CCCCCO1",
        "CC(C)C1CCC(=O)CC1",
        "N#CC1CCCCC1",
        "ClC1CCCCC1",
        "CSC1CCCCC1",
        "O=C(c1ccccc1)C1CCCCC1",
        "C1CCC(CC1)c1ccccc1",
        "CCCC1CCCCC1",
        "CC(C)[C@@H]1CC[C@@H](C)CC1=O",
        "CC1=CC[C@H](CC1=O)C(C)=C",
        "CC1=CC[C@H](CC1)C(C)=C",
        "C[C@@H]1CCO[C@@H](C1)C=C(C)C",
        "O=S1(=O)CCCCC1",
        "COC(=O)C1CCC(=O)CC1",
        "C1CCC2(CC1)OCCO2",
        "C1COC(OC1)c1ccccc1",
        "CC(=O)OC1CCCCC1",
    ),
    # rings with OH; all stereo is defined
    "alcohols": (
        "OC1CCCCC1",
        "OC1CCCCCC1",
        "OCC1CCCCC1",
        "OC1CCOCC1",
        "OC[C@H]1CCCO1",
        "O[C@@H]1CCCC[C@H]1O",
        "CC(C)[C@@H]1CC[C@@H](C)C[C@H]1O",
        "C#CC1(O)CCCCC1",
        "OC1(c2ccccc2)CCCCC1",
        "OCC1CCOCC1",
        "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
        "OC[C@H]1OC[C@H](O)[C@@H](O)[C@@H]1O",
        "O[C@@H]1CO[C@@H]2[C@H]1OC[C@H]2O",
        "CC1=CC[C@H](CC1)C(C)(C)O",
        "CC1=CC[C@@H](C[C@H]1O)C(C)=C",
        "CC1(C)[C@@H]2CC[C@@]1(C)[C@H](O)C2",
        "OCCc1ccccc1",
        "COc1cc(CO)ccc1O",
        "OCC1(CO)CCCCC1",
        "OCCC1CCCCC1",
        "OCCOc1ccccc1",
        "OCc1ccccc1O",
        "OC(=O)C1=C[C@@H](O)[C@@H](O)[C@H](O)C1",
        "COc1ccccc1OC[C@@H](O)CO",
    ),
    # rings with primary, secondary or tertiary amines; all stereo is defined
    "amines": (
        "NC1CCCCC1",
        "CNC1CCCCC1",
        "CN(C)C1CCCCC1",
        "C1CCNCC1",
        "CN1CCNCC1",
        "C1CNCCN1",
        "CCN1CCOCC1",
        "NCC1CCCCC1",
        "NCCc1ccccc1",
        "NC1CCOCC1",
        "NCCc1ccc(O)cc1",
        "C[C@@H](N)c1ccccc1",
        "CN1CCC[C@H]1c1cccnc1",
        "CCC[C@H]1CCCCN1",
        "N[C@@H]1CCCC[C@H]1N",
        "C1CCCNCC1",
        "C1CNCCNC1",
        "C1CC(CCN1)c1ccccc1",
        "NC(=O)C1CCNCC1",
        "NCCc1c[nH]cn1",
        "C1CN(CCN1)Cc1ccccc1",
        "CCNc1ccccc1",
        "COC(=O)[C@@H]1CCCN1",
        "OCCN1CCNCC1",
    ),
    # rings with at least one open stereocentre or double bond
    "open": (
        "CC1CCC(O)CC1",
        "CC1CCCCC1O",
        "OC1CCCC(O)C1",
        "NC1CCCCC1O",
        "CC(O)C1CCCCC1",
        "CC1CCNC(C)C1",
        "OC1CCCNC1",
        "CC1CN(C)CC(C)O1",
        "OC(c1ccccc1)C1CCCCN1",
        "OCC1CCC(CO)CC1",
        "CC(=O)OC1CCCCC1C",
        "NC1CCCC(N)C1",
        "CC1OC(C)OC(C)O1",
        "COC1CCCCC1O",
        "OC1CCOCC1O",
        "CNC(C)C(O)c1ccccc1",
        "NC1CCC(CC1)C(=O)O",
        "CC1CC(O)CC(C)(C)C1",
        "OC1CCCCC1c1ccccc1",
        "COc1ccc(C=CC)cc1",
        "OC1CCC(CC1)N1CCOCC1",
        "CC1CC(=O)CC(C)N1C",
        "OC1CC2CCC1C2",
        "CC(O)C(O)c1ccccc1",
    ),
}

CHAINS = (
    # without OH and NH
    "CCCCCC(C)=O",
    "CCOC(=O)CC(=O)OCC",
    "CCOCCOCC",
    "COCCCOC",
    "CCCCC#N",
    "CCCCBr",
    "CCCCSC",
    "CC(=O)OCCC(C)C",
    "O=CCCc1ccccc1",
    "CCN(CC)CC",
    "CN(C)CCN(C)C",
    "CC(=O)CCc1ccccc1",
    "CCOC(=O)c1ccccc1",
    "CCCc1ccccc1",
    # with OH or NH
    "CCCCO",
    "OCCO",
    "OCCCO",
    "CC(C)CO",
    "NCCO",
    "CCCN",
    "CNCCO",
    "OCCOCCO",
    "NCCCN",
    "OCC(O)CO",
)
"""Molecules with open chains, on which the ± are set besides those of POOL: the classes hold for chains, too."""

Row = dict[str, Any]
"""A molecule's values and own uncertainties of one property, one for each seed, in the property's unit."""


def inchikey(smiles: str) -> str:
    from rdkit import Chem

    return str(Chem.MolToInchiKey(Chem.MolFromSmiles(smiles)))


def check_pool() -> None:
    """Raises ValueError if two molecules of POOL, or one of POOL and one of `run.py`, have the same skeleton."""
    owners: dict[str, str] = {}
    for smiles in [*flexible(20), *(text for group in POOL.values() for text in group), *CHAINS]:
        skeleton = inchikey(smiles).split("-")[0]
        if skeleton in owners:
            raise ValueError(f"{smiles} and {owners[skeleton]} have the same skeleton")
        owners[skeleton] = smiles


def drawn(fit: bool) -> list[str]:
    """Returns the SMILES of the molecules on which the ± are set (fit) or tested."""
    chosen = []
    for group in POOL.values():
        by_hash = sorted(group, key=lambda smiles: hashlib.sha256(inchikey(smiles).encode()).hexdigest())
        chosen += by_hash[TESTED:] if fit else by_hash[:TESTED]
    if fit:
        chosen += CHAINS
    return chosen


def measured_rows(molecules: Sequence[str], seeds: int, workers: int) -> list[Row]:
    """Returns a row for each molecule and property."""
    rows: dict[tuple[str, str], Row] = {}
    jobs = list(product(molecules, VERIFIERS, range(seeds)))
    with ProcessPoolExecutor(workers) as pool:
        for values in pool.map(measure, jobs):
            for value in values:
                key = (value["smiles"], value["property"])
                row = rows.setdefault(key, {"smiles": key[0], "property": key[1], "values": [], "molecule": []})
                row["values"].append(value["value"])
                row["molecule"].append(value["molecule"])
    return list(rows.values())


def differences(row: Row) -> list[float]:
    """Returns the absolute difference of the values of each pair of seeds."""
    return [abs(a - b) for a, b in combinations(row["values"], 2)]


def coverage_of_molecule(row: Row, uncertainties: Sequence[float]) -> float:
    """Returns the share of the pairs of seeds whose difference the two uncertainties cover."""
    allowed = [math.hypot(a, b) for a, b in combinations(uncertainties, 2)]
    covered = [difference <= limit for difference, limit in zip(differences(row), allowed, strict=True)]
    return sum(covered) / len(covered)


def interval(coverages: Sequence[float]) -> tuple[float, float]:
    """Returns the central 95 % of the mean coverage over bootstrap samples of the molecules."""
    values = np.array(coverages)
    picks = np.random.default_rng(0).integers(0, len(values), size=(RESAMPLES, len(values)))
    means = values[picks].mean(axis=1)
    low = np.quantile(means, 0.025)
    high = np.quantile(means, 0.975)
    return float(low), float(high)


def smallest_covering(rows: Sequence[Row]) -> float:
    """Returns the smallest u with which SHARE of the pairs of these molecules are covered, in the property's unit."""
    distances = np.sort(np.concatenate([differences(row) for row in rows]))
    return float(distances[math.ceil(SHARE * len(distances)) - 1] / math.sqrt(2))


def fitted(rows: Sequence[Row]) -> Mapping[str, Mapping[str, float]]:
    """Returns {class: {property: ±}} as the rows give it, in the properties' units."""
    table: dict[str, dict[str, float]] = {}
    for name in sorted({row["property"] for row in rows}):
        of_property = [row for row in rows if row["property"] == name]
        of_all = smallest_covering(of_property)
        for freedom in SearchFreedom:
            of_class = [row for row in of_property if freedom_of(row["smiles"]) is freedom]
            if of_class:
                width = max(of_all, smallest_covering(of_class))
                table.setdefault(freedom.name, {})[name] = round(width, 5)
    return table


def freedom_of(smiles: str) -> SearchFreedom:
    return search_freedom(parse_molecule(smiles).mol)


def stated_by_class(rows: Sequence[Row]) -> Mapping[tuple[str, str], Sequence[float]]:
    """Returns {(SMILES, property): the ± of the molecule's class with each seed}, as the verifiers state it now."""
    stated: dict[tuple[str, str], Sequence[float]] = {}
    for row in rows:
        freedom = freedom_of(row["smiles"])
        for verifier in VERIFIERS.values():
            widths = {prop.name: width for prop, width in verifier.spreads[freedom].items()}
            if row["property"] in widths:
                stated[row["smiles"], row["property"]] = [widths[row["property"]]] * len(row["values"])
    return stated


def stated_by_molecule(rows: Sequence[Row]) -> Mapping[tuple[str, str], Sequence[float]]:
    """Returns {(SMILES, property): the ± of the molecule's own conformers with each seed}."""
    return {(row["smiles"], row["property"]): row["molecule"] for row in rows}


def summary(rows: Sequence[Row], fit: bool) -> Mapping[str, Any]:
    """Returns the coverage by both kinds of ±; of the molecules on which the classes are set also their fitted ±."""
    classes = {"fitted": fitted(rows)} if fit else {}
    return {
        "by_class": tested(rows, stated_by_class(rows)),
        "by_molecule": tested(rows, stated_by_molecule(rows)),
        **classes,
    }


def tested(rows: Sequence[Row], uncertainties: Mapping[tuple[str, str], Sequence[float]]) -> Mapping[str, Any]:
    """Returns coverage, interval and whether the ± holds, by property.

    uncertainties: {(SMILES, property): uncertainty with each seed}."""
    table: dict[str, Any] = {}
    for name in PROPERTIES:
        of_property = [row for row in rows if row["property"] == name]
        coverages = [coverage_of_molecule(row, uncertainties[row["smiles"], name]) for row in of_property]
        low, high = interval(coverages)
        mean = sum(coverages) / len(coverages)
        is_narrow = max(high - mean, mean - low) <= WIDEST
        table[name] = {
            "coverage": round(mean, 3),
            "interval": [round(low, 3), round(high, 3)],
            "holds": low <= SHARE <= high and is_narrow,
        }
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    parser.add_argument("--fit", action="store_true", help="the molecules on which the ± of the classes are set")
    parser.add_argument("--smiles", nargs="+", help="these molecules instead")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds for each molecule")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    check_pool()
    molecules = options.smiles or drawn(options.fit)
    rows = measured_rows(molecules, options.seeds, options.workers)
    result = {
        "versions": {engine: version(engine) for engine in ("tblite", "rdkit", "ase")},
        "molecules": len(molecules),
        "seeds": options.seeds,
        **summary(rows, options.fit),
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(summary(rows, options.fit)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
