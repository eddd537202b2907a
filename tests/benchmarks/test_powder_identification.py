"""The benchmark of `crystal.xrd` at a small size, its committed results, and the data of `identify_powder`."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pymatgen.core import Structure
from pymatgen.io.cif import CifParser

from benchmarks.crystals import identify
from benchmarks.crystals.measured_like import GRID, MeasuredSample, measured
from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.fast.crystal_xrd import CrystalXrd

pytestmark = pytest.mark.long

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"


@pytest.fixture(scope="module")
def library() -> dict[str, Structure]:
    """The crystals of the campaign by name."""
    text = (CAMPAIGNS / "identify_powder.cif").read_text()
    blocks = {block.split()[0]: f"data_{block}" for block in text.split("\ndata_")[1:]}
    return {name: CifParser(io.StringIO(block)).parse_structures(primitive=False)[0] for name, block in blocks.items()}


def test_a_pattern_finds_its_crystal_among_homologues_and_the_other_samples(tmp_path: Path) -> None:
    known = identify.library(set(identify.SAMPLES.values()))
    assert len(known) == len(identify.SAMPLES)
    own = known[identify.SAMPLES["anatase"]]
    among = [*known.values(), *islice(identify.homologues(own), 15)]
    found = identify.placement("anatase", known, among, tmp_path)
    assert (found.rank, found.impurity) == (1, "spinel")
    assert found.match > 0.95 and found.match > found.rival_match + 0.01


def test_the_committed_results_are_of_this_benchmark_and_find_each_structure() -> None:
    result = json.loads(Path(identify.__file__).with_name("identify.json").read_text())
    assert result["candidates"] == identify.CANDIDATES
    assert [placement["sample"] for placement in result["placements"]] == list(identify.SAMPLES)
    assert result["first"] == sum(placement["rank"] == 1 for placement in result["placements"]) >= 8
    assert result["structure_first"] == sum(p["structure_rank"] == 1 for p in result["placements"]) >= 9


def test_the_library_holds_57_crystals_of_the_space_groups_that_it_states(library: dict[str, Structure]) -> None:
    text = (CAMPAIGNS / "identify_powder.cif").read_text()
    stated = [line.removeprefix("# space group ") for line in text.splitlines() if line.startswith("# space group")]
    crystals = [crystal_from_structure(structure) for structure in library.values()]
    assert [crystal.space_group for crystal in crystals] == stated
    assert len({crystal.key for crystal in crystals}) == 57


def test_the_pattern_of_the_campaign_is_anatase_with_rutile(library: dict[str, Structure], tmp_path: Path) -> None:
    pattern = np.loadtxt(CAMPAIGNS / "identify_powder_pattern.xy")
    sample = MeasuredSample(library["anatase"], library["rutile"], share=0.15, cell=1.003, counts=3000, seed=11)
    assert np.allclose(pattern[:, 0], GRID)
    assert np.corrcoef(pattern[:, 1], measured(sample))[0, 1] > 0.99
    settings = {"pattern": "identify_powder_pattern.xy", "wavelength": "CuKa"}
    names = ["corundum", "anatase", "rutile", "anhydrite", "brookite", "zircon"]
    crystals = [crystal_from_structure(library[name]) for name in names]
    found = CrystalXrd(settings, CAMPAIGNS).verify(crystals, Context(tmp_path, tmp_path))
    matches = dict(zip(names, (finding.measured[0].quantity.value for finding in found), strict=True))
    assert max(matches, key=lambda name: matches[name]) == "anatase" and matches["anatase"] > 0.95
    assert max(match for name, match in matches.items() if name != "anatase") < 0.9
