"""The image without Docker: its environment in a folder, and what runs there as in a container without capabilities."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sciagent import __version__
from tests.docker.images import DOCKER, ROOT, environment, stages

LIBC = ctypes.CDLL(None, use_errno=True)
PR_CAPBSET_DROP = 24


def seen_by_the_build(target: Path) -> None:
    """What .dockerignore lets through."""
    for line in (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        source = ROOT / line[1:]
        if line.startswith("!") and source.exists():
            (target / line[1:]).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target / line[1:], ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target / line[1:])


def allow(folder: Path, writing: bool) -> None:
    for base, _, _ in os.walk(folder):
        Path(base).chmod(0o755 if writing else 0o555)


def without_rights() -> None:
    """Before exec: root keeps none of what makes it more than another user, as in a container with `cap_drop: [ALL]`.
    Another user could not do: the interpreter may lie in root's home."""
    if os.getuid() == 0:
        for capability in range(64):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@dataclass(frozen=True)
class Image:
    """`opt`: the environment, read-only. `home`: empty, read-only. `data`, `scratch`: what may be written."""

    base: Path

    def here(self, text: str) -> str:
        """A word of the image or of compose, with the paths of this folder."""
        for path in ("/opt/sciagent", "/data", "/scratch", "/campaigns", "/run/secrets", "/etc/sciagent", "/tmp"):
            if text.startswith(path):
                return f"{self.base}{path.replace('/opt/sciagent', '/opt')}{text.removeprefix(path)}"
            text = text.replace(f"={path}", f"={self.base}{path}")
        return text

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        said = {name: self.here(value) for name, value in (environment("core") | dict(more or {})).items()}
        own = {"PATH": f"{self.base / 'opt' / 'bin'}:/usr/bin:/bin", "HOME": f"{self.base / 'home'}"}
        return said | own | {"TMPDIR": f"{self.base / 'tmp'}"}

    def start(
        self, words: list[str], more: Mapping[str, str] | None = None, log: Path | None = None
    ) -> subprocess.Popen[str]:
        """What it prints goes to `log`, or into pipes."""
        program, *arguments = [self.here(word) for word in words]
        out = subprocess.PIPE if log is None else log.open("w", encoding="utf-8")
        return subprocess.Popen(
            [self.base / "opt" / "bin" / program, *arguments],
            cwd=self.base / "data",
            env=self.variables(more),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            text=True,
            preexec_fn=without_rights,
        )

    def run(self, *words: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        with self.start(list(words), more) as process:
            out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@contextmanager
def image(base: Path) -> Iterator[Image]:
    """Made by docker/install.sh as the Dockerfile calls it. Takes minutes and a gigabyte."""
    seen_by_the_build(base / "src")
    extras = next(said.split()[-1] for said in stages()["build"].all("RUN"))
    done = subprocess.run(
        ["sh", base / "src" / "docker" / "install.sh", base / "src", base / "opt", extras],
        env=os.environ | {"PYTHON": sys.executable, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"sciagent {__version__}" in done.stdout
    shutil.copy(DOCKER / "health.py", base / "opt" / "health.py")
    for name in ("home", "data", "scratch", "campaigns", "tmp"):
        (base / name).mkdir()
    for name in ("home", "opt"):
        allow(base / name, writing=False)
    try:
        yield Image(base)
    finally:
        allow(base / "opt", writing=True)
        shutil.rmtree(base, ignore_errors=True)
