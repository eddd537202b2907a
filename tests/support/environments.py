"""Environments of their own, in which other packages read what sciagent writes.

An environment has the packages of the tests, torch and transformers among them, and beside them those that it is made
for. It is made once, and kept in the cache for the next time.
"""

from __future__ import annotations

import hashlib
import os
import site
import subprocess
import sys
from pathlib import Path

import filelock

from tests.support.vllm import ROOT, cache

TRL = ("trl==1.16.0", "datasets==5.2.0", "peft==0.21.2")
VERL = (  # the last two are in its extra verl-core, which brings more; its extra cpu would install torch again
    *("verl==0.9.1", "datasets==5.2.0", "peft==0.21.2", "ray==2.60.0", "tensordict==0.10.0", "transformers==5.10.4"),
    *("cachetools==8.0.1", "fastapi==0.165.0"),
)
SKYRL = (  # its extra skyrl-train needs flash-attn, which needs CUDA; this is what its data and losses import
    *("skyrl==0.3.0", "skyrl-gym==0.4.0", "datasets==5.2.0", "ray==2.56.0", "tensordict==0.15.3", "torchdata==0.11.0"),
    *("transformers==5.8.0", "aiohttp==3.14.5", "jaxtyping==0.3.11", "loguru", "omegaconf==2.4.0"),
)


def interpreter(name: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """Returns the Python of an environment with these packages, which is made if the cache has none.

    packages: with their versions, such as `trl==1.16.0`. options: of `pip install`, such as `--no-deps`.
    A package that the tests have is not installed again, unless the new ones need another version of it.
    """
    beside = site.getsitepackages()
    stated = "\n".join([sys.version, *beside, *packages, *options])
    folder = cache() / f"{name}-{hashlib.sha256(stated.encode()).hexdigest()[:12]}"
    python, done = folder / "bin" / "python", folder / "complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not done.exists():
            _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
            [own] = folder.glob("lib/python*/site-packages")
            lines = [f"import site; site.addsitedir({path!r})" for path in beside]
            (own / "beside.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
            pip = (sys.executable, "-m", "pip", "--python", str(python))
            _run(*pip, "install", "--quiet", "--disable-pip-version-check", *options, *packages)
            done.touch()
    return python


def run(python: Path, *arguments: str, folder: Path, seconds: float = 300, **environment: str) -> str:
    """Runs Python in an environment, with the repository's root on its path; returns what it printed.

    folder: where it runs. Nothing is asked of the network. Raises AssertionError with its output if it fails.
    """
    offline = {name: "1" for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")}
    offline |= {"HF_HOME": str(folder / "hf"), "TRL_EXPERIMENTAL_SILENCE": "1", "CUDA_VISIBLE_DEVICES": ""}
    variables = {**os.environ, **offline, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [str(python), *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def _run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL)
