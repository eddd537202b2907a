"""Every verifier that ships answers for ethanol by `sciagent calc`, or says by name why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.people.declared_and_learnt_costs import costs_of
from sciagent.campaign.people.verify_calculate_and_add import calculate, rungs_for
from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structures_of
from sciagent.errors import SciagentError, UsageError
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.host import Worker

QUICK = {"method": "mmff94", "conformers": 1}
SMALL = {"basis": "def2-SVP", "geometry": QUICK}
CASES: Mapping[str, Mapping[str, Any]] = {
    "molecule.checks": {},
    "molecule.novelty": {"references": ["known.smi"]},
    "molecule.safety": {},
    "mlff.molecule": {"embed": 5},
    "molecule.synthesis": {},
    "xtb.conformers": {"embed": 10},
    "xtb.ip_ea": {"geometry": QUICK},
    "xtb.singlepoint": {"geometry": QUICK},
    "xtb.solvation": {"geometry": QUICK},
    "pyscf.scf": SMALL,
    "pyscf.ip_ea": SMALL | {"which": ["ip"]},
    "pyscf.solvation": SMALL,
    "pyscf.tda": SMALL,
}
"""{verifier: cheap settings}. `lm.judge` needs a model and a rubric."""
PROGRAMS = ("crest.conformers", "orca.scf", "gaussian.scf")
"""Verifiers that call a program of the chemist's; where it is missing, `calc` says so by name."""
LONG = ("mlff.molecule", "pyscf.scf", "pyscf.ip_ea", "pyscf.solvation", "pyscf.tda")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("scratch")) as host:
        yield host


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(f"sqlite:///{tmp_path}/a.db", tmp_path / "artifacts")
    yield ledger
    ledger.close()


def test_no_verifier_is_forgotten() -> None:
    points = distribution("sciagent").entry_points.select(group="sciagent.verifiers")
    offered = {point.name for point in points if point.value.startswith("sciagent_verifiers")}
    ours = {name for name in offered if verifier_registry.verifier_class(name).kind != "crystal"}
    others = {
        "lm.judge",
        "md.hydration",
        "md.liquid",
        "xtb.program",
        *PROGRAMS,
        "xtb.thermo",
        "pyscf.thermo",
        "expert.review",
        "lab.measurement",
    }  # with tests of their own
    assert ours <= {*CASES} | others


@pytest.mark.parametrize(
    "verifier", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in CASES]
)
def test_a_verifier_answers_for_ethanol(verifier: str, local: Ledger, worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "known.smi").write_text("CCCO propanol\n")
    rungs = rungs_for(verifier, CASES[verifier], tmp_path)
    (answer,) = calculate(local, rungs, structures_of(["CCO"]), worker=worker)
    assert answer.outcome == "ok", answer.detail
    measured = {item.property.name for item in rungs[-1].verifier.measures}
    assert measured >= {value.property for value in answer.values}
    assert bool(answer.values) == bool(measured)
    (again,) = calculate(local, rungs, structures_of(["OCC"]), worker=worker)
    assert again.reused and again.values == answer.values


@pytest.mark.parametrize("verifier", PROGRAMS)
def test_a_program_answers_or_is_missing_by_name(verifier: str, local: Ledger, worker: Worker, tmp_path: Path) -> None:
    try:
        (answer,) = calculate(local, rungs_for(verifier, {}, tmp_path), structures_of(["CCO"]), worker=worker)
    except UsageError as error:
        assert verifier in str(error) and "export SCIAGENT_" in str(error)
    else:
        assert answer.outcome == "ok", answer.detail


@pytest.mark.parametrize(("smiles", "basis"), [(["CCO"], "def2-SVP"), (["CCO", "broken(", "[Cl-]"], "def2-SVPD")])
def test_an_anion_among_the_molecules_brings_diffuse_functions(smiles: list[str], basis: str, tmp_path: Path) -> None:
    rungs = rungs_for("pyscf.scf", {}, tmp_path, structures_of(smiles))
    assert rungs[-1].verifier.settings.basis == basis


def test_refusals_do_not_teach_that_a_calculation_is_cheap(local: Ledger, worker: Worker, tmp_path: Path) -> None:
    rungs = rungs_for("md.liquid", {}, tmp_path)
    answers = list(calculate(local, rungs, structures_of(["CC(=O)[O-]", "O"]), worker=worker))
    assert [answer.outcome for answer in answers] == ["refused", "refused"]
    [cost] = costs_of(rungs[-1], ["CCO"], local)
    assert (cost.earlier_jobs, cost.ratio) == (0, 1.0)
    rungs = rungs_for("xtb.singlepoint", {}, tmp_path)
    assert len(list(calculate(local, rungs, structures_of(["CCO", "CC(=O)[O-]"]), worker=worker))) == 2
    assert costs_of(rungs[-1], ["CCO"], local)[0].earlier_jobs > 0, "computations teach"


def test_a_unit_is_shown_as_asked(local: Ledger, worker: Worker, tmp_path: Path) -> None:
    rungs = rungs_for("xtb.solvation", CASES["xtb.solvation"], tmp_path)
    (canonical,) = calculate(local, rungs, structures_of(["CCO"]), worker=worker)
    units = {"solvation_free_energy": "kcal/mol"}
    (shown,) = calculate(local, rungs, structures_of(["CCO"]), units, worker=worker)
    assert shown.values[0].unit == "kcal/mol"
    assert shown.values[0].value == pytest.approx(canonical.values[0].value * 23.0605, rel=1e-4)  # CODATA 2018


def test_a_judge_without_a_rubric_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SciagentError, match=r"rubric|model"):
        rungs_for("lm.judge", {}, tmp_path)


def test_the_safety_screen_stops_a_molecule_and_its_name_is_kept(local: Ledger, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "a.smi"
    file.write_text("Cc1c([N+](=O)[O-])cc([N+](=O)[O-])cc1[N+](=O)[O-] TNT\n")
    (answer,) = calculate(local, rungs_for("xtb.singlepoint", {}, tmp_path), structures_of([], file), worker=worker)
    assert answer.outcome == "refused" and not answer.values and answer.detail
    with local.begin() as connection:
        (id_,) = candidates.enter(connection, [parse_molecule(answer.smiles)]).values()
        assert candidates.names_of(connection, [id_], ()) == {id_: {"imported.name": ("TNT",)}}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_calculation_that_was_cut_short_goes_on_from_its_checkpoint(ledger: Ledger, tmp_path: Path) -> None:
    rungs = rungs_for("bad.remote", {"steps": 8, "seconds": 0.3}, tmp_path)
    short = [replace(rung, limits=replace(rung.limits, wall_seconds=1.5)) for rung in rungs]
    checkpoints = scratch_of(ledger.artifacts) / "checkpoints"
    [cut] = calculate(ledger, short, structures_of(["CCO"]))
    assert cut.outcome == "timeout" and len(list(checkpoints.glob("*/direct/files/done"))) == 1
    [whole] = calculate(ledger, rungs, structures_of(["CCO"]))
    assert whole.outcome == "ok" and whole.core_seconds < 8 * 0.3
    assert list(checkpoints.glob("*")) == []
    assert costs_of(rungs[-1], ["CCO"], ledger)[0].earlier_jobs == 0, "the cost of the rest teaches nothing"
