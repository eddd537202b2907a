"""Another Python environment: a virtual environment of its own, with sciagent and few other packages."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from tests.support.plugins import PLUGINS, install

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection", "numpy", "psutil")
"""The packages that a job's process imports (`sciagent.inputs.engine_environments.INSTALL`), and those they need."""


def made(folder: Path, distributions: Sequence[str] = NEEDED) -> Path:
    """Returns the interpreter of a new environment with sciagent and links to these distributions of ours."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = site_of(folder)
    for name in distributions:
        link(name, site)
    own = metadata.distribution("sciagent")
    info = site / f"sciagent-{own.version}.dist-info"
    info.mkdir()
    for file in ("METADATA", "entry_points.txt"):
        (info / file).write_text(str(own.read_text(file)))
    sources = (ROOT, ROOT / "verifiers", ROOT / "simulators")
    (site / "sciagent.pth").write_text("".join(f"{source}\n" for source in sources))
    return folder / "bin" / "python"


def site_of(folder: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / version / "site-packages"


def link(name: str, site: Path) -> None:
    """Links what a distribution installed into another environment."""
    distribution = metadata.distribution(name)
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        source = Path(str(distribution.locate_file(top)))
        if source.exists() and not (site / top).exists():
            (site / top).symlink_to(source)


def put_engine(site: Path, version: str = "3.1") -> None:
    """Puts the engine of `bad.elsewhere` into an environment, with the misbehaving verifiers."""
    (site / "only_there.py").write_text('SAYS = "here I am"\n')
    info = site / f"only_there-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: only-there\nVersion: {version}\n")
    install(PLUGINS / "misbehaving", site)


def run(python: Path, *arguments: str) -> str:
    """Returns what the interpreter prints."""
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, check=True)
    return done.stdout
