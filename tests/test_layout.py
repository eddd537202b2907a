"""What holds for the whole tree: its folders, its sizes, its layers, and what the command line imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = ("sciagent", "verifiers", "simulators", "bench", "alembic")
HEAVY = (
    "rdkit",
    "torch",
    "pyscf",
    "sqlalchemy",
    "numpy",
    "tblite",
    "ase",
    "scipy",
    "sklearn",
    "pymatgen",
    "alembic",
    "transformers",
)
HELP = """
import io, sys
from contextlib import redirect_stdout
from typer.main import get_command
from sciagent.cli.main import LATE, PLUGINS, app, loaded
root = get_command(app)
def visit(command, path):
    with redirect_stdout(io.StringIO()):
        root.main([*path, "--help"], standalone_mode=False)
    for name, sub in getattr(command, "commands", {}).items():
        visit(loaded(name) if name in (*PLUGINS, *LATE) and not path else sub, [*path, name])
visit(root, [])
print(*sys.modules, sep="\\n")
"""


def lines() -> dict[Path, int]:
    """Lines of every module. A migration shows the tables as they once were, so its length is theirs."""
    found = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in found}


@pytest.mark.parametrize("folder", ["verifiers", "simulators", "bench", "alembic"])
def test_a_folder_with_the_name_of_a_known_package_is_no_package(folder: str) -> None:
    assert (ROOT / folder).is_dir()
    assert not (ROOT / folder / "__init__.py").exists()


def test_no_module_is_called_utils() -> None:
    assert [str(path) for path in lines() if path.stem in ("util", "utils", "helpers", "misc")] == []


def test_the_layers_are_kept() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sciagent", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported.isdisjoint({*HEAVY, "pydantic", "ruamel"})


def test_the_help_of_no_command_imports_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert "typer" in imported
    assert imported.isdisjoint(HEAVY)
