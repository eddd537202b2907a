"""Lock files, digests of images and licences: what is taken from others is what was looked at."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from supply import lock, pin_images
from tests.docker.images import DOCKER, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
FAMILIES = ("LGPL", "MPL", "Apache", "BSD", "MIT", "PSF", "GPL")
"""Families of licences, those with a longer name before those whose name it holds."""


def test_the_lock_files_are_those_of_the_project() -> None:
    assert lock.stale() == [], "python supply/lock.py"


@pytest.mark.parametrize("name", lock.FILES)
def test_each_package_of_a_lock_file_has_one_version_and_hashes_and_no_address(name: str) -> None:
    text = (lock.SUPPLY / name).read_text(encoding="utf-8")
    for entry in lock.entries_of(text):
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.+!]+( ;[^\\]+)? \\\n", entry), entry.splitlines()[0]
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}$", entry.replace(" \\", ""), re.MULTILINE)
    assert "://" not in text and "--index" not in text


def test_what_the_project_asks_for_is_locked_in_versions_that_it_allows() -> None:
    parts = ("test.txt", "torch-cuda.txt")
    entries = [entry for name in parts for entry in lock.entries_of((lock.SUPPLY / name).read_text(encoding="utf-8"))]
    locked: dict[str, list[str]] = {}
    for entry in entries:
        name, _, version = entry.split()[0].partition("==")
        locked.setdefault(name.lower().replace(".", "-").replace("_", "-"), []).append(version)
    for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]):
        wanted = Requirement(text)
        if wanted.name != "sciagent":
            versions = locked[wanted.name.lower().replace(".", "-")]
            assert any(wanted.specifier.contains(version) for version in versions), text


def test_a_digest_is_written_beside_the_tag_and_replaced_by_a_newer_one() -> None:
    digest = f"sha256:{'0' * 64}"
    newer = f"sha256:{'1' * 64}"
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    place = pin_images.PLACES["compose.yaml"]
    tags = {match["tagged"] for match in place.finditer(text)}
    assert {"postgres:16-bookworm", "rabbitmq:4.1"} <= tags and not any("sciagent" in tag for tag in tags)
    once = pin_images.pinned(text, place, {"postgres:16-bookworm": digest, "rabbitmq:4.1": None})
    assert f"image: postgres:16-bookworm@{digest}\n" in once and "image: rabbitmq:4.1\n" in once
    assert once.replace(f"@{digest}", "") == text
    assert pin_images.pinned(once, place, {"postgres:16-bookworm": newer}) == once.replace(digest, newer)
    dockerfile = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    assert [match["tagged"] for match in pin_images.PLACES["Dockerfile"].finditer(dockerfile)] == [
        "python:3.11-slim-bookworm"
    ]


def families(text: str) -> set[str]:
    """The families of licences that a text names."""
    found = set()
    for family in FAMILIES:
        if family in text:
            found.add(family)
            text = text.replace(family, "")
    return found


def stated(package: str) -> str:
    """What an installed package says of its licence, in the words of the page."""
    about = metadata.metadata(package)
    said = about["License-Expression"] or ""
    if not said:
        classifiers = about.get_all("Classifier") or []
        said = " ".join(each for each in classifiers if each.startswith("License"))
    if not families(said):
        said += (about["License"] or "").partition("\n")[0]
    words = {"Lesser General Public License": "LGPL", "Mozilla": "MPL", "Python Software Foundation": "PSF"}
    for long, short in words.items():
        said = said.replace(long, short)
    return re.sub(r"\((L?GPL)v\d[^)]*\)", "", said)


def test_the_licences_of_the_page_are_those_that_the_packages_state() -> None:
    rows = re.findall(r"^\| (?:`[\w-]+` \| )?([\w.-]+) \| .+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    installed = {name.lower().replace("_", "-") for dist in metadata.distributions() if (name := dist.name)}
    checked = 0
    for package, licence in rows:
        if package.lower().replace("_", "-") in installed and families(licence):
            checked += 1
            assert families(stated(package)) & families(licence), f"{package}: {stated(package)} against {licence}"
    assert checked > 50
