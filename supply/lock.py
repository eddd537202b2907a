"""Writes the lock files: each package with its version and the hashes of its files.

    pip install uv
    python supply/lock.py              keeps the versions that stand in the files, where they still fit
    python supply/lock.py --upgrade    takes the newest
    python supply/lock.py --check      whether the files are those of pyproject.toml; needs neither uv nor a network

`.ci/run` installs `test.txt` and PyTorch: `torch-cpu.txt` where an index of PyTorch itself is known, which has it
without CUDA, else `torch-cuda.txt`. `core.txt` and `gpu.txt` are what the images hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUPPLY = ROOT / "supply"
EXTRAS = {"test.txt": ["test"], "core.txt": ["celery", "llm", "metrics", "postgres"], "gpu.txt": ["vllm"]}
"""{lock file: extras of the project that it holds}."""
WITHOUT_CUDA = {"torch==2.13.0": ["6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"]}
"""{PyTorch: SHA-256 of its files without CUDA}, for CPython 3.11 on x86-64. They lie in PyTorch's own index."""
WITH_TORCH = re.compile(r"(torch==|cuda-|nvidia-(?!ml-)|triton)")
"""Entries of PyTorch, and of what only a PyTorch with CUDA needs."""
FILES = (*EXTRAS, "torch-cpu.txt", "torch-cuda.txt")


def digest_of_project() -> str:
    """Returns the SHA-256 of all that the project says of its dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = ("requires-python", "dependencies", "optional-dependencies")
    said = json.dumps([project[name] for name in names], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def entries_of(text: str) -> list[str]:
    """Returns the entries of a lock file: a package with its hashes each."""
    return re.findall(r"^[A-Za-z0-9].*(?:\n    .*)*", text, re.MULTILINE)


def header() -> str:
    return (
        f"# Made by supply/lock.py from pyproject.toml, whose dependencies have the SHA-256\n# {digest_of_project()}\n"
    )


def compiled(extras: list[str], before: str, *, upgrade: bool) -> str:
    """Returns the lock of some extras as uv resolves it. before: the lock so far, whose versions are kept where they
    fit."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-annotate", "--no-header"]
    command += ["--python-version", "3.11", "pyproject.toml"]
    for extra in extras:
        command += ["--extra", extra]
    scratch = SUPPLY / ".scratch.txt"
    scratch.write_text(before, encoding="utf-8")
    try:
        subprocess.run([*command, "-o", str(scratch), *(["--upgrade"] if upgrade else [])], cwd=ROOT, check=True)
        return scratch.read_text(encoding="utf-8")
    finally:
        scratch.unlink()


def write(name: str, entries: list[str]) -> None:
    (SUPPLY / name).write_text(header() + "\n".join(entries) + "\n", encoding="utf-8")
    print(f"supply/{name}: {len(entries)} packages")


def without_cuda(torch: str) -> str:
    """Returns the entry of PyTorch without CUDA. torch: name and version. Raises SystemExit if no file is known."""
    if torch not in WITHOUT_CUDA:
        sys.exit(f"write the SHA-256 of the files of {torch}+cpu into WITHOUT_CUDA of supply/lock.py")
    hashes = [f"    --hash=sha256:{sha256}" for sha256 in WITHOUT_CUDA[torch]]
    return " \\\n".join([f"{torch}+cpu", *hashes])


def lock(*, upgrade: bool) -> None:
    """Writes all lock files."""
    for name, extras in EXTRAS.items():
        parts = [name, "torch-cuda.txt"] if name == "test.txt" else [name]
        before = "".join((SUPPLY / part).read_text(encoding="utf-8") for part in parts if (SUPPLY / part).exists())
        entries = entries_of(compiled(extras, before, upgrade=upgrade))
        if name == "test.txt":
            with_torch = [entry for entry in entries if WITH_TORCH.match(entry)]
            entries = [entry for entry in entries if entry not in with_torch]
            [torch] = [entry.split()[0] for entry in with_torch if entry.startswith("torch==")]
            write("torch-cuda.txt", with_torch)
            write("torch-cpu.txt", [without_cuda(torch)])
        write(name, entries)


def stale() -> list[str]:
    """Returns the names of the lock files that were made of other dependencies than the project has now."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in SUPPLY.glob("*.txt")}
    return sorted(name for name in FILES if not texts.get(name, "").startswith(header()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    if not chosen.check:
        lock(upgrade=chosen.upgrade)
    elif stale():
        sys.exit(f"pyproject.toml has changed since {', '.join(stale())} was made: python supply/lock.py")


if __name__ == "__main__":
    main()
