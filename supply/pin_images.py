"""Writes the digest of each image beside its tag, in docker/Dockerfile and docker/compose.yaml, so that a build takes
the very bytes that were looked at.

    python supply/pin_images.py                  needs skopeo, a package of Debian
    python supply/pin_images.py --mirror HOST    from a mirror of Docker Hub

An image whose registry does not answer keeps its tag alone, and is named; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

DOCKER = Path(__file__).parents[1] / "docker"
PLACES = {
    "Dockerfile": re.compile(r"(?<=^FROM )(?P<tagged>[\w./-]+:[\w.-]+)(@sha256:[0-9a-f]{64})?", re.MULTILINE),
    "compose.yaml": re.compile(r"(?<=image: )(?P<tagged>[\w./-]+:[\w.-]+)(@sha256:[0-9a-f]{64})?$", re.MULTILINE),
}
"""{file: where it names an image of a registry}. Images that are built here have no fixed tag."""
SECONDS = 60  # for an answer of a registry


def digest_of(tagged: str, mirror: str) -> str | None:
    """Returns the digest of an image's manifest, for all its platforms; None if the registry does not answer."""
    repository = tagged if "/" in tagged else f"library/{tagged}"
    source = f"docker://{mirror}/{repository}" if mirror else f"docker://{tagged}"
    try:
        asked = subprocess.run(["skopeo", "inspect", "--raw", source], capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    if asked.returncode:
        return None
    return f"sha256:{hashlib.sha256(asked.stdout).hexdigest()}"


def pinned(text: str, place: re.Pattern[str], digests: dict[str, str | None]) -> str:
    """Returns a file with the digests beside the tags. digests: by tag; an image without one stays as it is."""

    def with_digest(match: re.Match[str]) -> str:
        digest = digests.get(match["tagged"])
        return match[0] if digest is None else f"{match['tagged']}@{digest}"

    return place.sub(with_digest, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", default="", help="host of a mirror of Docker Hub")
    mirror = parser.parse_args().mirror
    if shutil.which("skopeo") is None:
        sys.exit("install skopeo first: apt-get install skopeo")
    texts = {name: (DOCKER / name).read_text(encoding="utf-8") for name in PLACES}
    images = {match["tagged"] for name, place in PLACES.items() for match in place.finditer(texts[name])}
    digests = {tagged: digest_of(tagged, mirror) for tagged in sorted(images)}
    for name, place in PLACES.items():
        (DOCKER / name).write_text(pinned(texts[name], place, digests), encoding="utf-8")
    for tagged, digest in digests.items():
        print(f"{tagged}: {digest or 'no answer of its registry; it keeps its tag alone'}")
    if None in digests.values():
        sys.exit(1)


if __name__ == "__main__":
    main()
