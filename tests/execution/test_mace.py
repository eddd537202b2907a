"""MACE in an environment of its own (it needs e3nn 0.4.4, SevenNet 0.5): jobs of both run side by side.

A campaign with a rung of each goes from its file to the report.
"""

from __future__ import annotations

import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.inputs import engine_environments
from sciagent.verification.declarations_and_availability import unavailable
from sciagent.verification.sandbox.host import Limits, Request, Worker
from sciagent.verification.verifier_registry import verifier_class
from tests.support import bare_environments
from tests.support.environments import interpreter, run
from tests.support.plugins import PLUGINS, install, installed
from tests.support.typed import data, told

pytestmark = pytest.mark.slow
MACE = "mace-torch==0.3.16"
LIMITS = Limits(wall_seconds=120, memory_mb=3000)
CAMPAIGN = """
campaign: two
subject: crystal
objectives:
  - {property: density, min: 0.5, unit: g/mL}
ladder:
  - rung: chgnet
    verifier: mlff.relax
    settings: {known_phases: none}
    gate:
      density: {min: 1.5, unit: g/mL}
  - rung: mace
    verifier: mlff.relax
    settings:
      {model: mace, known_phases: none, fmax: 1.0, weights: tiny.model, functional: PBE+U, correction: uncorrected}
goal: {kind: hits}
budget: {proposals: 10}
proposer: {kind: screen, file: salts.csv}
scheduler: {kind: exhaustive}
"""
SALTS = "rocksalt: Na Cl", "CsCl: Na Cl", "zincblende: Na Cl"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with mace and the package that registers it as a potential."""
    with_mace, folder = interpreter("mace", MACE), tmp_path_factory.mktemp("mace") / "mace"
    venv.create(folder, with_pip=False, symlinks=True)
    site = bare_environments.site_of(folder)
    (site / "beside.pth").write_text(
        f"import site; site.addsitedir({str(bare_environments.site_of(with_mace.parent.parent))!r})\n"
    )
    install(PLUGINS / "mace", site)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def weights(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, made by mace itself."""
    folder = tmp_path_factory.mktemp("weights")
    run(python, str(PLUGINS / "mace" / "random_model.py"), "tiny.model", folder=folder)
    return folder / "tiny.model"


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This environment has the package that registers MACE, but not MACE; the list of environments is empty."""
    from sciagent_simulators.potentials.potential_base_and_registry import _points, potential_factory

    monkeypatch.setenv("SCIAGENT_ENGINES", str(tmp_path / "engines.toml"))
    with installed("mace", tmp_path / "site"):
        _points.cache_clear()
        yield
    _points.cache_clear()
    potential_factory.cache_clear()


@pytest.mark.usefixtures("registered")
def test_mace_and_chgnet_relax_a_crystal_side_by_side(python: Path, weights: Path, tmp_path: Path) -> None:
    from pymatgen.core import Lattice, Structure

    salt = crystal_from_structure(
        Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.7), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    )
    own = {"weights": {"path": str(weights)}, "functional": "PBE+U", "correction": "uncorrected"}
    chgnet = verifier_class("mlff.relax")({"known_phases": "none"})
    mace = verifier_class("mlff.relax")({"model": "mace", "known_phases": "none", "fmax": 1.0, **own})
    assert unavailable(chgnet) is None
    assert "sciagent engines mace --python PATH" in str(unavailable(mace))
    engine_environments.add("mace", python)
    assert unavailable(mace) is None
    with Worker(tmp_path / "scratch") as worker:
        (ours,) = worker.run(Request.of(chgnet, [salt], LIMITS))
        (theirs,) = worker.run(Request.of(mace, [salt], LIMITS))
        (again,) = worker.run(Request.of(chgnet, [salt], LIMITS))
    assert {str(result.finding.outcome) for result in (ours, theirs, again)} == {"ok"}, theirs.finding
    assert ours.versions["chgnet"] == "0.4.2" and "environment" not in ours.versions
    assert "mace-torch" not in ours.versions
    assert {"environment": "mace", "mace-torch": "0.3.16", "mace-potential": "0.1.0"}.items() <= theirs.versions.items()
    levels = {result.finding.measured[0].level.method.partition(":")[0] for result in (ours, theirs)}
    assert levels == {"CHGNet-0.3.0", "MACE"}


@pytest.mark.usefixtures("registered")
def test_a_campaign_with_both_ends_with_the_versions_of_both(
    python: Path, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    (tmp_path / "tiny.model").write_bytes(weights.read_bytes())
    (tmp_path / "salts.csv").write_text("\n".join(("structure", *SALTS)) + "\n")
    (tmp_path / "two.yaml").write_text(CAMPAIGN)
    told("engines", "mace", "--python", str(python))
    told("run", "two.yaml")
    best = data("best", "two")
    assert len(best) == len(SALTS) and all(row["hit"] and row["values"]["density"]["rung"] == "mace" for row in best)
    [found] = data("explain", best[0]["key"], "--campaign", "two")["campaigns"]
    versions = {step["rung"]: step["evidence"]["versions"] for step in found["rungs"]}
    assert versions["chgnet"]["chgnet"] == "0.4.2" and "environment" not in versions["chgnet"]
    assert {"environment": "mace", "mace-torch": "0.3.16", "mace-potential": "0.1.0"}.items() <= versions[
        "mace"
    ].items()
    page = Path("two.report.html").read_text(encoding="utf-8")
    assert "chgnet 0.4.2" in page and "mace-torch 0.3.16" in page
