"""`md.liquid`: what it refuses, what it says before it runs, and ethanol that is stopped, resumed and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context
from sciagent_simulators.dynamics.box_of_liquid import AtomPairs
from sciagent_simulators.dynamics.liquid import LiquidValues
from sciagent_simulators.dynamics.series_statistics import mean_of_replicas
from sciagent_simulators.dynamics.structure_and_diffusion import RadialDistribution
from sciagent_verifiers.high_fidelity.md_liquid import MdLiquid, chosen_atoms, series_of, with_hydrogens

SMALL = {"box": 20, "nanoseconds": 0.07, "equilibration": 0.02, "replicas": 1, "platform": "CPU"}


@pytest.mark.parametrize(
    ("smiles", "reason", "words"),
    [
        ("CC(=O)[O-]", "charge", "counter-ions"),
        ("C[CH2]", "radical", "unpaired"),
        ("CB(O)O", "element", "B1"),
        ("[2H]C", "isotope", "isotope 2"),
        ("C" * 30, "too_large", "92 atoms"),
    ],
)
def test_what_has_no_liquid_or_no_parameters_is_refused_before_it_is_paid(smiles: str, reason: str, words: str) -> None:
    refusal = MdLiquid().accepts(parse_molecule(smiles))
    assert refusal is not None and refusal.reason == reason and words in refusal.detail


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"observables": ["diffusion"]}, "state viscosity"),
        ({"observables": ["diffusion"], "viscosity": 1.0, "replicas": 2}, "replicas: 3"),
        ({"observables": ["density", "density"]}, "twice"),
        ({"rdf": [["O", "oxygen"]]}, "neither the symbol of an element nor a SMARTS"),
        ({"rdf": [["O", "Xx"]]}, "neither the symbol of an element nor a SMARTS"),
        ({"solvent": "water"}, "state observables"),
        ({"solvent": "water", "observables": ["density"], "rdf": [["O", "N"]]}, "O or H, not N"),
        ({"solvent": "ethanol", "observables": ["density"]}, "water"),
    ],
)
def test_settings_that_cannot_be_told_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        MdLiquid(settings)


def test_it_measures_what_is_asked_for_at_a_level_that_says_how() -> None:
    verifier = MdLiquid({"observables": ["density", "diffusion"], "viscosity": 1.07, "force_field": "gaff2"})
    assert [measure.property.name for measure in verifier.measures] == ["density", "self_diffusion"]
    label = verifier.level.label
    assert label == "GAFF2/AM1-BCC(liquid)//NPT 0.1+0.2 ns x3, 26 angstrom, 298.15 K, 1.01325 bar"


def test_in_water_the_level_says_so_and_an_unset_solvent_enters_no_hash() -> None:
    verifier = MdLiquid({"solvent": "water", "observables": ["density", "diffusion"], "viscosity": 0.3})
    assert verifier.level.method == "OpenFF-2.2.1/AM1-BCC/TIP3P"
    assert verifier.level.phase == "water"
    assert [measure.property.name for measure in verifier.measures] == ["density", "self_diffusion"]
    assert MdLiquid().settings_hash == MdLiquid({"solvent": None}).settings_hash
    assert "solvent" not in MdLiquid().settings.model_dump_json()


def test_atoms_of_pairs_are_elements_or_the_first_atoms_of_patterns() -> None:
    graph = with_hydrogens(parse_molecule("COCCO"))
    assert chosen_atoms(graph, "O") == (1, 4)
    assert chosen_atoms(graph, "[OX2H]") == (4,)
    assert chosen_atoms(graph, "[#1]O") == (12,)
    assert chosen_atoms(graph, "O[CX4H2]") == (1, 4)
    assert chosen_atoms(graph, "Co") == chosen_atoms(graph, "N") == ()
    verifier = MdLiquid({"rdf": [["[OX2H]", "O"], ["N", "O"]]})
    [pair] = verifier._pairs(parse_molecule("COCCO"))
    assert pair == AtomPairs("[OX2H]-O", (4,), (1, 4))
    water = MdLiquid({"solvent": "water", "observables": ["density"], "rdf": [["O", "H"]]})
    assert water._pairs(parse_molecule("COCCO")) == [AtomPairs("O-H", (1, 4), (1, 2))]


def test_water_is_refused_by_name() -> None:
    refusal = MdLiquid().accepts(parse_molecule("[H]O[H]"))
    assert refusal is not None and refusal.reason == "no_parameters" and "water" in refusal.detail


def test_its_price_grows_with_its_work() -> None:
    ethanol = parse_molecule("CCO")
    price = MdLiquid(SMALL).cost(ethanol)["core_seconds"]
    assert 60 < price < 400
    assert MdLiquid({**SMALL, "replicas": 3}).cost(ethanol)["core_seconds"] == pytest.approx(3 * price, rel=0.1)
    assert MdLiquid({**SMALL, "box": 40}).cost(ethanol)["core_seconds"] == pytest.approx(8 * price, rel=0.2)


def test_series_have_times_distances_and_errors() -> None:
    random = np.random.default_rng(1)
    densities = tuple(0.8 + random.normal(0, 0.01, 1500) for _ in range(2))
    distance = np.linspace(0.05, 10, 200)
    pair = RadialDistribution(distance, np.ones(200), np.full(200, 0.1), np.arange(200.0))
    mean = mean_of_replicas(densities)
    values = LiquidValues(
        density=mean,
        liquid_energy=None,
        gas_energy=None,
        vaporisation=None,
        diffusion=None,
        distributions=(("O-O", pair), ("[OX2H]-O", pair)),
        flow=9.0,
        times=np.arange(1500) * 0.1,
        densities=densities,
        energies=densities,
        displacements=(np.arange(40.0),),
        frame_interval=0.5,
        molecules=82,
        edge=20.0,
    )
    series = series_of(values, "CCO")
    assert sorted(series) == ["density", "displacement", "distribution", "energy"]
    assert series["displacement"].column("lag").values[:3] == [0.0, 0.5, 1.0]
    assert series["energy"].axis("energy").unit == "kJ/mol"
    assert series["density"].axis("time").unit == "ps" and len(series["density"].column("replica_2").values) == 375
    curve, second = series["distribution"].curves
    assert (curve.name, second.name) == ("O-O", "[OX2H]-O")
    assert curve.error is not None and set(series["distribution"].column(curve.error).values) == {0.1}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_boils_ends_by_that_name(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "checkpoint").mkdir()
    verifier = MdLiquid({**SMALL, "temperature": 600, "observables": ["density"]})
    with pytest.raises(SimulatorError, match="it boiled") as caught:
        verifier.finding(
            parse_molecule("CCOCC"), Context(scratch=tmp_path / "scratch", checkpoint=tmp_path / "checkpoint")
        )
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "phase")
