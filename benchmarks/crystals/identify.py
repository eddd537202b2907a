"""Does `crystal.xrd` find the crystal of a powder pattern among 500?

OMP_NUM_THREADS=1 python -m benchmarks.crystals.identify --out benchmarks/crystals/identify.json

The candidates are the structures of the AFLOW library in pymatgen and, for each of the ten samples, its homologues: the
same structure with elements replaced by others of their groups, and the cell scaled by the sum of atomic radii. The
patterns are those of `measured_like`: the cell is 1 % larger than the candidate's, 10 % of the mass is another phase,
and peak shapes, intensities and background come from another model than that of the fit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pymatgen.core import Element

from benchmarks.crystals.measured_like import GRID, MeasuredSample, measured
from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.errors import InvalidCandidateError
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.fast.crystal_xrd import CrystalXrd

CANDIDATES = 500
SAMPLES = {
    "quartz": "SiO2 A2B_hP9_152_c_a",
    "anatase": "TiO2 A2B_tI12_141_e_a",
    "corundum": "Al2O3 A2B3_hR10_167_c_e",
    "perovskite": "CaTiO3 AB3C_oP20_62_c_cd_a",
    "spinel": "MgAl2O4 A2BC4_cF56_227_d_a_e",
    "zircon": "ZrSiO4 A4BC_tI24_141_h_b_a",
    "calcite": "CaCO3 ABC3_hR10_167_a_b_e",
    "chalcopyrite": "FeCuS2 ABC2_tI16_122_a_b_d",
    "baddeleyite": "ZrO2 A2B_mP12_14_2e_e",
    "rocksalt": "NaCl AB_cF8_225_a_b",
}
"""{name of the sample: formula and label of its structure in the AFLOW library}."""
GROUPS = (
    ("Li", "Na", "K", "Rb"), ("Mg", "Ca", "Sr", "Ba", "Zn"), ("Al", "Ga", "In", "Sc", "Y"), ("Si", "Ge", "Sn"),
    ("Ti", "Zr", "Hf", "V"), ("Fe", "Mn", "Co", "Ni", "Cr"), ("Cu", "Ag"), ("O", "S", "Se"), ("F", "Cl", "Br", "I"),
    ("C", "N", "B"),
)  # fmt: skip
"""Elements that replace one another."""


class Placement(NamedTuple):
    """The ranking of the candidates against the pattern of one sample."""

    sample: str
    impurity: str
    rank: int
    """Place of the sample's own crystal; 1 is first."""
    structure_rank: int
    """Its place among the candidates that are not the same structure with other elements."""
    match: float
    rival: str
    """The best other candidate."""
    rival_match: float
    seconds: float
    """CPU time for each candidate."""


def library(only: Collection[str] = ()) -> dict[str, Crystal]:
    """Returns the structures of the AFLOW library by formula and label; of equal crystals only the first.

    only: names of those wanted; all by default."""
    from pymatgen.analysis.prototypes import AFLOW_PROTOTYPE_LIBRARY  # takes seconds to read

    found: dict[str, Crystal] = {}
    seen = set()
    for entry in AFLOW_PROTOTYPE_LIBRARY:
        structure = entry["snl"].structure
        name = f"{structure.composition.reduced_formula} {entry['tags']['aflow']}"
        if only and name not in only:
            continue
        crystal = _crystal(structure)
        if crystal is not None and crystal.key not in seen:
            seen.add(crystal.key)
            found.setdefault(name, crystal)
    return found


def candidates(known: dict[str, Crystal], n: int) -> list[Crystal]:
    """Returns the crystals of the library and homologues of the samples, n in all."""
    found = {crystal.key: crystal for crystal in known.values()}
    streams = [homologues(known[label]) for label in SAMPLES.values()]
    while streams and len(found) < n:
        for stream in list(streams):
            crystal = next(stream, None)
            if crystal is None:
                streams.remove(stream)
            elif len(found) < n:
                found.setdefault(crystal.key, crystal)
    return list(found.values())


def homologues(crystal: Crystal) -> Iterator[Crystal]:
    """Yields the crystal with elements replaced, those with the fewest replacements first."""
    elements = sorted(set(crystal.species))
    choices = [[e, *(o for g in GROUPS if e in g for o in g if o != e)] for e in elements]
    swaps = (dict(zip(elements, chosen, strict=True)) for chosen in product(*choices))
    for swap in sorted(swaps, key=lambda swap: (sum(a != b for a, b in swap.items()), str(swap)))[1:]:
        structure = crystal.structure.copy()
        structure.replace_species({Element(a): Element(b) for a, b in swap.items()})
        radii = [
            sum(float(Element(s).atomic_radius) for s in each)
            for each in (crystal.species, map(swap.get, crystal.species))
        ]
        structure.scale_lattice(structure.volume * (radii[1] / radii[0]) ** 3)
        if (made := _crystal(structure)) is not None:
            yield made


def _crystal(structure: Any) -> Crystal | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return crystal_from_structure(structure)
    except InvalidCandidateError:
        return None


def alike(a: Crystal, b: Crystal) -> bool:
    """Returns whether two crystals have one space group and number of sites, and one formula but for the elements."""
    formulas = {crystal.structure.composition.anonymized_formula for crystal in (a, b)}
    return a.space_group == b.space_group and a.n_atoms == b.n_atoms and len(formulas) == 1


def placement(name: str, known: dict[str, Crystal], among: Sequence[Crystal], folder: Path) -> Placement:
    """Ranks the candidates by their match with the pattern of a sample."""
    names = list(SAMPLES)
    place = names.index(name)
    own = known[SAMPLES[name]]
    impurity = names[(place + 3) % len(names)]
    sample = MeasuredSample(own.structure, known[SAMPLES[impurity]].structure, seed=place)
    np.savetxt(folder / f"{name}.xy", np.column_stack([GRID, measured(sample)]), fmt="%.2f %.0f")
    verifier = CrystalXrd({"pattern": str(folder / f"{name}.xy"), "wavelength": "CuKa"})
    begun = time.process_time()
    matches = {}
    for crystal, finding in zip(among, verifier.verify(among, Context(folder, folder)), strict=True):
        matches[crystal.key] = finding.measured[0].quantity.value if finding.measured else 0.0
        for file in finding.artifacts:
            Path(file.path).unlink()
    seconds = (time.process_time() - begun) / len(among)
    order = sorted(among, key=lambda crystal: -matches[crystal.key])
    rival = next(crystal for crystal in order if crystal.key != own.key)
    ahead = order[: [crystal.key for crystal in order].index(own.key)]
    others = [crystal for crystal in ahead if not alike(crystal, own)]
    return Placement(
        name,
        impurity,
        len(ahead) + 1,
        len(others) + 1,
        round(matches[own.key], 4),
        rival.text,
        round(matches[rival.key], 4),
        round(seconds, 4),
    )


def run(names: Sequence[str], n: int) -> list[Placement]:
    """Returns the placements of these samples among n candidates."""
    known = library()
    among = candidates(known, n)
    with tempfile.TemporaryDirectory() as folder:
        placements = []
        for name in names:
            placements.append(placement(name, known, among, Path(folder)))
            sys.stderr.write(f"{placements[-1]}\n")
        return placements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    given = parser.parse_args()
    placements = run(list(SAMPLES), given.candidates)
    result = {
        "candidates": given.candidates,
        "first": sum(placement.rank == 1 for placement in placements),
        "structure_first": sum(placement.structure_rank == 1 for placement in placements),
        "samples": len(placements),
        "placements": [placement._asdict() for placement in placements],
    }
    text = json.dumps(result, indent=1) + "\n"
    sys.stdout.write(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
