"""The steps of the image, taken here: an environment from what the build would see, used without any rights."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name

from sciagent import __version__
from supply import lock
from supply.lock import entries_of
from tests.docker.images import stages
from tests.docker.place import Image
from tests.support.elf import asked_of_the_system

pytestmark = pytest.mark.slow

# of packages that Debian's slim image of Python has: libc6, libgcc-s1, libstdc++6, zlib1g
BASE = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
}
PACKAGES = {
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXrender.so.1": "libxrender1",
    "libexpat.so.1": "libexpat1",
    "libgomp.so.1": "libgomp1",
}


def test_what_is_read_only_in_the_image_is_so_here(installed: Image) -> None:
    for place in ("home", "opt", "opt/bin"):
        done = installed.run("python", "-c", f"open({str(installed.base / place / 'x')!r}, 'w')")
        assert "PermissionError" in done.stderr, place


def test_it_runs_without_rights_and_without_a_home(installed: Image) -> None:
    assert installed.run("sciagent", "--version").stdout == f"sciagent {__version__}\n"
    doctor = installed.run("sciagent", "doctor")
    assert doctor.returncode == 0 and "BROKEN" not in doctor.stdout, doctor.stdout + doctor.stderr


def test_migrate_then_healthy_then_a_campaign(installed: Image) -> None:
    health = ("python", "/opt/sciagent/health.py", "ledger")
    assert installed.run(*health).returncode == 1
    upgraded = installed.run("sciagent", "db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    healthy = installed.run(*health)
    assert healthy.returncode == 0, healthy.stderr
    made = installed.run("sciagent", "init", "first", "--template", "quickstart")
    assert made.returncode == 0, made.stderr
    verified = installed.run("sciagent", "verify", "O=Cc1ccccc1", "--campaign", "first/quickstart.yaml")
    assert "xtb: " in verified.stdout, verified.stdout + verified.stderr
    assert list((installed.base / "home").iterdir()) == []


def test_the_system_is_asked_for_what_the_image_installs(installed: Image) -> None:
    asked = asked_of_the_system(installed.base / "opt" / "lib")
    known = BASE | set(PACKAGES)
    assert {name: by for name, by in asked.items() if name not in known} == {}, "packages that the Dockerfile lacks"
    said = next(one for one in stages()["base"].all("RUN") if "apt-get install" in one)
    packages = set(said.split("--no-install-recommends", 1)[1].split("&&")[0].split())
    assert packages == {PACKAGES[name] for name in asked if name in PACKAGES} | {"tini"}


def test_nothing_is_installed_but_what_the_lock_file_names(installed: Image) -> None:
    entries = entries_of((lock.SUPPLY / "core.txt").read_text(encoding="utf-8"))
    locked = {canonicalize_name(entry.split("==")[0]) for entry in entries}
    listed = installed.run("python", "-m", "pip", "list", "--format=freeze").stdout.splitlines()
    names = {canonicalize_name(line.split("==")[0]) for line in listed}
    assert names - {"sciagent", "pip", "setuptools"} <= locked and {"celery", "rdkit"} <= names
