"""An engine is a simulator, a verifier and a line of pyproject.toml: nothing else names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIMULATORS = ROOT / "simulators" / "sciagent_simulators"
VERIFIERS = ROOT / "verifiers" / "sciagent_verifiers"
ENGINES = {
    "md.liquid": ("dynamics/liquid.py", "high_fidelity/md_liquid.py"),
    "md.hydration": ("dynamics/hydration.py", "high_fidelity/md_hydration.py"),
    "mlff.md": ("dynamics/crystal_chain.py", "high_fidelity/mlff_md.py"),
    "mlff.molecule": ("molecular_potentials/so3lr.py", "simulation/mlff_molecule.py"),
}
"""Simulator and verifier of each engine. What several engines share (the reader of force fields, chains of chunks,
statistics, the relaxation and search of molecules) are libraries beside them."""


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_an_engine_is_two_files_and_a_line(name: str) -> None:
    simulator, verifier = ENGINES[name]
    assert (SIMULATORS / simulator).is_file() and (VERIFIERS / verifier).is_file()
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    [entry] = [line for line in lines if line.startswith(f'"{name}"')]
    module = verifier.removesuffix(".py").replace("/", ".")
    assert f'"sciagent_verifiers.{module}:' in entry
    for module_file in sorted((ROOT / "sciagent").rglob("*.py")):
        text = module_file.read_text(encoding="utf-8")
        assert not re.search(rf"\b{re.escape(name)}\b", text), f"{module_file} names {name}"
    with_name = [path for path in VERIFIERS.rglob("*.py") if f'name = "{name}"' in path.read_text(encoding="utf-8")]
    assert with_name == [VERIFIERS / verifier]
