"""The verifier of docs/verifiers.md, taken from the page and installed as a third party's package."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_registry import provider, verifier_class
from tests.docs.pages import ROOT, blocks, campaigns
from tests.support.plugins import forget_registry, install

PAGE = ROOT / "docs" / "verifiers.md"

OF_TEXTS = """
    EMPTY NOT_TEXT TOO_LONG TOO_DEEP UNPARSABLE VALENCE KEKULIZATION UNKNOWN_ELEMENT WILDCARD MULTIPLE_FRAGMENTS
    NO_IDENTITY FORMULA_MISMATCH
"""
OF_GATES_AND_PEOPLE = (
    "BELOW_WINDOW ABOVE_WINDOW NOT_MEASURED VETOED SAME_STRUCTURE LOWER_POLYMORPH "
    "SYNTHESIS_FAILED DECOMPOSED INSOLUBLE IMPURE RETURNED"
)
OF_THE_HOST = """
    WALL_LIMIT STALLED MEMORY_LIMIT SIGNAL EXCEPTION NO_RESULT BAD_RESULT IMPORT_FAILED WORKER_DIED LEASE_EXPIRED
    KILLS_WORKERS
    NO_PARTITION
"""
OF_PROGRAMS = "SYMMETRY_BROKEN"  # a crash of GPAW by its name
NOT_FOR_VERIFIERS = {*OF_TEXTS.split(), *OF_GATES_AND_PEOPLE.split(), *OF_THE_HOST.split(), OF_PROGRAMS}


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder the package is installed in, seen by this process and its children."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for block in (*blocks("toml", PAGE), *blocks("python", PAGE)):
        name = re.match(r"# (\S+)\n", block.text)
        assert name, f"{block}: the first line names the file"
        file = source / name[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
    install(source / "acme-verifiers", target)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([inherited] if inherited else [])]))
        forget_registry()
        yield target
    for name in ("acme_verifiers", "acme_verifiers.span"):
        sys.modules.pop(name, None)
    forget_registry()


def test_the_host_runs_it(acme: Path, tmp_path: Path) -> None:
    batch = tuple(parse_molecule(text) for text in ("c1ccccc1", "C" * 25, "CCO"))
    with Worker(tmp_path) as worker:
        results = worker.run(Request("acme.refractivity", {"max_heavy_atoms": 20}, batch))
    benzene, too_large, ethanol = (result.finding for result in results)
    assert (too_large.outcome, too_large.reason) == (Outcome.REFUSED, Reason.TOO_LARGE)
    assert benzene.outcome is ethanol.outcome is Outcome.OK
    assert benzene.measured[0].quantity.value == pytest.approx(26.44, abs=0.01)  # RDKit's MolMR
    assert benzene.measured[0].quantity.unit == "cm**3/mol"
    assert results[0].versions["acme-verifiers"] == "0.1.0"


def test_the_one_with_a_geometry(acme: Path, tmp_path: Path) -> None:
    batch = tuple(parse_molecule(text) for text in ("C#C", "[He]"))
    with Worker(tmp_path) as worker:
        acetylene, helium = (r.finding for r in worker.run(Request("acme.span", {}, batch)))
    assert (helium.outcome, helium.reason) == (Outcome.IMPLAUSIBLE, Reason.IMPLAUSIBLE_VALUE)
    # H...H of acetylene: 2 x 1.062 + 1.203 angstrom (r_e, Herzberg); MMFF94 is within 0.03
    assert acetylene.measured[0].quantity.value == pytest.approx(3.327, abs=0.03)
    assert acetylene.measured[0].level.geometry == "MMFF94//ETKDGv3x3"


def test_the_reasons_of_the_page_are_those_a_verifier_may_use() -> None:
    table = re.findall(r"^\| `([A-Z_]+)` \| (`[A-Z_]+`.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [outcome for outcome, _ in table] == [
        "REFUSED",
        "NOT_CONVERGED",
        "IMPLAUSIBLE",
        "UNSTABLE",
        "BAD_ENVIRONMENT",
    ]
    named = [name for _, cell in table for name in re.findall("`([A-Z_]+)`", cell)]
    assert len(set(named)) == len(named)
    assert set(named) == set(Reason.__members__) - NOT_FOR_VERIFIERS


def test_it_is_registered_under_the_package_it_came_from(acme: Path) -> None:
    assert provider("acme.refractivity") == "acme-verifiers 0.1.0"
    assert verifier_class("acme.refractivity")().settings.max_heavy_atoms == 60


def test_the_campaign_of_the_page_uses_it(acme: Path, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCCO\n")
    [block] = campaigns(PAGE)
    spec = parse_spec(block.text, base=tmp_path)
    assert spec.domain_objectives()[0].property == "acme_molar_refractivity"
    assert [rung.rung for rung in spec.ladder][:2] == ["molecule_safety", "acme_refractivity"]
