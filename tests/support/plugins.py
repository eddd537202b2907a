"""Third-party packages of verifiers, installed for the tests as pip would install them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of
from sciagent.domain.properties_and_levels import properties
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox import isolated_declarations

PLUGINS = Path(__file__).parent.parent / "plugins"
MISBEHAVING = PLUGINS / "misbehaving"


def install(package: Path, target: Path) -> None:
    """Build and install `package` into `target` without network; by hand where hatchling is missing."""
    if not importlib.util.find_spec("hatchling"):
        lay_out(package, target)
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target), str(package)]
    subprocess.run(pip + offline, check=True, capture_output=True, timeout=120)


def lay_out(package: Path, target: Path) -> None:
    """Write by hand what `install` would write, which takes no time: modules, metadata and entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    for folder in package.iterdir():
        if (folder / "__init__.py").is_file():
            shutil.copytree(folder, target / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def forget_registry() -> None:
    verifier_registry.installed.cache_clear()
    verifier_registry._distribution.cache_clear()
    verifier_registry.verifier_class.cache_clear()
    subject_names.cache_clear()
    subject_of.cache_clear()
    properties.cache_clear()
    register_again()
    importlib.invalidate_caches()
    isolated_declarations.asker.close()


def register_again() -> None:
    """Registers the properties of functions, after all properties were read anew."""
    for made in verifier_registry.defined().values():
        for prop in made.kind.definition.properties:  # type: ignore[attr-defined]
            properties().add(prop, made.package)


@contextmanager
def installed(name: str, target: Path) -> Iterator[Path]:
    """Lay one of the packages beside these tests into `target`, and let this process and its children see it."""
    lay_out(PLUGINS / name, target)
    with visible(target):
        yield target


@contextmanager
def visible(target: Path) -> Iterator[None]:
    """Let this process and its children see what is installed in `target`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([inherited] if inherited else [])]))
        forget_registry()
        yield
    forget_registry()
