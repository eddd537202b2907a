from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.campaign.core.verdicts_and_places import RungRules, judge
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.quantities import Censoring
from sciagent.verification.verifier_contract import Context, Outcome, Reason
from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa

QUICK = {"grid": 0, "spin_check": "off", "geometry": {"method": "gfn2", "conformers": 1}}
BENCHMARKS = Path(__file__).parents[2] / "benchmarks/numbers"


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def benchmark():
    return json.loads((BENCHMARKS / "pyscf_ip_ea.json").read_text(encoding="utf-8"))


def benchmark_rows():
    return benchmark()["rows"]


def finding(smiles, context, settings, multiplicity=None):
    return next(iter(PyscfIpEa(QUICK | settings).verify([parse_molecule(smiles, multiplicity=multiplicity)], context)))


@pytest.fixture(scope="module")
def water(tmp_path_factory):
    folder = tmp_path_factory.mktemp("water")
    return finding("O", Context(scratch=folder, checkpoint=folder), {})


def test_water_gives_its_ionisation_energy_and_an_affinity_below_zero(water):
    """Photoelectron spectrum 12.62 eV (NIST). No bound anion of water exists, so no number is given for it."""
    found = water
    ip, ea = (one.quantity for one in found.measured)
    assert found.outcome is Outcome.OK
    assert ip.value == pytest.approx(12.62, abs=0.15) and ip.censoring is Censoring.NONE
    assert (ea.value, ea.censoring, ea.uncertainty) == (0.0, Censoring.BELOW, None)
    assert "anion_unbound" in found.detail
    assert found.measured[0].level.label == "PBE0 delta-SCF/def2-SVPD//GFN2-xTB//ETKDGv3x1"


@pytest.mark.parametrize(
    ("window", "verdict"),
    [(Window(low=0.5), Verdict.FAIL), (Window(high=0.5), Verdict.PASS), (Window(low=-1), Verdict.INCONCLUSIVE)],
)
def test_a_gate_judges_an_affinity_below_zero_as_far_as_it_is_known(water, window, verdict):
    rules = RungRules("high_fidelity", {"vertical_electron_affinity": window}, False, frozenset(), 0, {}, False)
    assert judge(rules, water).verdict is verdict


@pytest.mark.long
def test_adiabatic_oxygen_lies_near_experiment(context):
    """12.070 and 0.448 eV (NIST); PBE0 ionises O2 0.5 eV too high. Bonds of 1.12 and 1.35 angstrom from one of 1.21."""
    found = finding("O=O", context, {"kind": "adiabatic"}, multiplicity=3)
    values = {one.property: one.quantity.value for one in found.measured}
    assert values["adiabatic_ionization_energy"] == pytest.approx(12.07, abs=0.6)
    assert values["adiabatic_electron_affinity"] == pytest.approx(0.448, abs=0.3)
    assert "PBE0/def2-SVPD//GFN2-xTB" in found.measured[0].level.label
    assert [a.name.split("-")[-1] for a in found.artifacts][1:] == ["cation.xyz", "anion.xyz"]


@pytest.mark.long
def test_one_part_stands_when_the_other_falls_apart(context):
    """HCl: the anion loses its hydrogen. The ionisation energy, 12.74 eV (NIST), stays."""
    found = finding("Cl", context, {"kind": "adiabatic"})
    assert found.outcome is Outcome.OK
    assert [one.property for one in found.measured] == ["adiabatic_ionization_energy"]
    assert found.measured[0].quantity.value == pytest.approx(12.74, abs=0.25)
    assert "anion_dissociated" in found.detail and found.diagnostics["anion"]["reason"] == "anion_dissociated"
    alone = finding("Cl", context, {"kind": "adiabatic", "which": ["ea"]})
    assert (alone.outcome, alone.reason, alone.measured) == (Outcome.UNSTABLE, Reason.ANION_DISSOCIATED, ())


def test_a_potential_names_its_reference(context):
    verifier = PyscfIpEa(
        QUICK | {"solvent": "acetonitrile", "reference": "Fc+/Fc", "which": ["ea"], "basis": "def2-SVPD"}
    )
    found = next(iter(verifier.verify([parse_molecule("O=O", multiplicity=3)], context)))
    energy, potential = found.measured
    assert potential.property == "reduction_potential"
    assert potential.level.method == "PBE0+SMD delta-SCF, vertical vs Fc+/Fc at 4.988 V"
    assert potential.level.phase == "acetonitrile"
    assert energy.quantity.value - potential.quantity.value == pytest.approx(4.988)
    assert energy.quantity.value > 2  # the solvent holds the superoxide
    assert {m.property.name for m in verifier.measures} == {one.property for one in found.measured}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"basis": "def2-SVP"}, "no diffuse functions"),
        ({"which": []}, "at least 1"),
        ({"which": ["ip", "ip"]}, "twice"),
        ({"reference": "SHE"}, "needs a solvent"),
        ({"reference": "Fc+/Fc", "solvent": "water"}, "not in water"),
        ({"kind": "adiabatic", "optimise": False}, "leave optimise out"),
        ({"solvent": "mercury"}, "solvent"),
    ],
)
def test_wrong_settings_say_what_is_right(settings, says):
    with pytest.raises(ValidationError, match=says):
        PyscfIpEa(settings)


def test_ionisation_alone_may_use_a_compact_basis_and_costs_less():
    benzene = parse_molecule("c1ccccc1")
    both = PyscfIpEa().cost(benzene)["core_seconds"]
    one = PyscfIpEa({"which": ["ip"], "basis": "def2-SVP"}).cost(benzene)["core_seconds"]
    relaxed = PyscfIpEa({"kind": "adiabatic"}).cost(benzene)["core_seconds"]
    assert one < both < relaxed


@pytest.mark.parametrize("kind", ["adiabatic", "vertical"])
def test_what_is_stated_of_each_kind_is_what_the_benchmark_found(kind):
    told = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    rows = [row for row in benchmark_rows() if row["kind"] == kind]
    errors = sorted(((abs(row["computed"] - row["experiment"]), row) for row in rows), key=lambda one: -one[0])
    mean, within = sum(error for error, _ in errors) / len(errors), math.ceil(errors[0][0] * 100) / 100
    worst = ", ".join(f"{row['name']} {row['what']} {error:.2f}" for error, row in errors[:3])
    assert f"| {kind} | {len(rows)} | {mean:.2f} | {within:.2f} | {worst} |" in told
    summary = benchmark()[f"summary {kind} beside adiabatic"]
    assert (summary["n"], summary["mean_absolute"]) == (len(rows), pytest.approx(mean, abs=6e-4))
    assert [one["absolute"] for one in summary["worst"]] == pytest.approx([error for error, _ in errors[:3]])


def test_the_benchmark_says_that_its_experimental_values_are_adiabatic():
    """Those of ionisation.csv, where ip and ea are adiabatic. The script and the README say so, and for which rows."""
    assert {row["experiment_kind"] for row in benchmark_rows()} == {"adiabatic"}
    readme, script = ((BENCHMARKS / name).read_text(encoding="utf-8") for name in ("README.md", "pyscf_ip_ea.py"))
    assert all("Every experimental value is adiabatic" in text for text in (readme, script))
    kinds = [row["kind"] for row in benchmark_rows()]
    counts = len(kinds), kinds.count("adiabatic"), kinds.count("vertical")
    sayings = "{} numbers", 'The {} rows of kind "adiabatic"', 'The {} of kind "vertical"'
    assert all(saying.format(count) in script for saying, count in zip(sayings, counts, strict=True))
    published = (BENCHMARKS / "ionisation.csv").read_text(encoding="utf-8").splitlines()
    for row in benchmark_rows():
        if row["kind"] == "vertical":
            assert row["name"] in readme
            line = next(x for x in published if x.startswith(f"{row['name']},") and f",{row['what']}," in x)
            assert float(line.split(",")[-1]) == row["experiment"]


def test_the_summaries_of_the_benchmark_never_mix_the_kinds():
    found = benchmark()
    assert "measured adiabatic" in found["comparison"]["vertical"]
    for name, summary in found.items():
        if name.startswith("summary "):
            _, kind, *part = name.removesuffix(" beside adiabatic").split()
            wanted = [row for row in benchmark_rows() if row["kind"] == kind and row["what"] in (part or ("ip", "ea"))]
            errors = [abs(row["computed"] - row["experiment"]) for row in wanted]
            assert summary["n"] == len(wanted), name
            assert summary["mean_absolute"] == pytest.approx(sum(errors) / len(errors), abs=6e-4), name
