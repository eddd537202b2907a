"""`sciagent`: the list of commands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from sciagent import __version__
from sciagent.cli.admin import db, doctor, gc, verifiers
from sciagent.cli.campaigns import answers, compare, export, files, plan, run
from sciagent.cli.cluster import dispatcher, jobs, metrics, slurm, top, worker, workers
from sciagent.cli.models import mcp, models, serve_model
from sciagent.cli.people import directives, molecules
from sciagent.cli.shared.common import Exit, put, say
from sciagent.errors import LedgerAwayError, SciagentError, UsageError

PLUGINS = {"bench": "How well parts of sciagent do on known answers."}
"""{command: help} of the commands in packages of their own, each found by its entry point in `sciagent.commands`."""


class Root(TyperGroup):
    """The list of commands. The package of a plug-in is imported when its command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in PLUGINS:
            self.commands[args[0]] = plugin(args[0])
        return super().resolve_command(ctx, args)


def plugin(name: str) -> TyperGroup:
    """Returns the commands of a plug-in. Raises UsageError if its package is missing or does not load."""
    from importlib.metadata import entry_points

    try:
        return get_group(next(iter(entry_points(group="sciagent.commands", name=name))).load())
    except (StopIteration, ImportError, AttributeError) as error:
        raise UsageError(
            f'the command "{name}" needs the package sciagent_{name}, which is not installed or does not load'
            f"{f': {error}' if str(error) else ''}; it comes with sciagent: pip install --force-reinstall sciagent"
        ) from error


app = typer.Typer(
    name="sciagent",
    cls=Root,
    help="Scientific-discovery campaigns on a priced ladder of verifiers.",
    epilog="Start: sciagent run campaigns/quickstart.yaml",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[Callable[..., Any], str] = {
    files.init: "init my-dyes --template quickstart --name my-dyes",
    plan.plan: "plan campaigns/quickstart.yaml",
    run.run: "run campaigns/quickstart.yaml --ledger my.db",
    run.resume: "resume quickstart",
    directives.pause: "pause quickstart --reason 'the cores are needed until noon'",
    directives.stop: "stop quickstart --reason 'the question is answered'",
    directives.amend: "amend quickstart --budget rungs.dft=20 --goal-count 5 --reason 'two more days'",
    answers.status: "status quickstart --json",
    answers.best: "best quickstart -n 5 --json",
    answers.explain: "explain 'O=Cc1ccccc1' --campaign quickstart",
    answers.trace: "trace quickstart_llm 1",
    mcp.mcp: "mcp quickstart --http 8765",
    compare.compare: "compare quickstart quickstart-wide",
    molecules.add: "add 'O=Cc1ccccc1' --campaign quickstart --reason 'the parent of our dyes'",
    directives.hold: "hold 'O=Cc1ccccc1' --reason 'wait for the NMR'",
    directives.release: "release 3eb4b86e --reason 'NMR is fine'",
    directives.veto: "veto 3eb4b86e --campaign quickstart --reason 'not stable in air'",
    directives.promote: "promote 3eb4b86e --to dft --reason 'GFN2 misjudges aldehydes'",
    answers.verify: "verify 'O=Cc1ccccc1' --campaign campaigns/quickstart.yaml",
    answers.report: "report quickstart --output quickstart.html",
    export.export: "export quickstart -o quickstart.csv",
    molecules.import_: "import gaps.csv --value 'gap=homo_lumo_gap\\[eV]' --uncertainty gap=0.05 "
    "--method B3LYP --basis '6-31G(2df,p)'",
    verifiers.verifiers: "verifiers xtb.singlepoint",
    serve_model.serve_model: "serve-model smollm2 --port 8000",
    dispatcher.submit: "submit campaigns/quickstart.yaml",
    dispatcher.dispatcher: "dispatcher --ledger postgresql://…",
    worker.worker: "worker --tier simulation --slots 4 --ledger postgresql://…",
    workers.workers: "workers --all",
    workers.drain: "drain node7:4242:9f01ac",
    jobs.jobs: "jobs quickstart --state failed --limit 50",
    jobs.cancel: "cancel 4711 4712 --reason 'wrong charge'",
    jobs.retry: "retry --campaign quickstart --state quarantined",
    top.top: "top --interval 5",
    metrics.metrics: "metrics --listen 127.0.0.1:9464",
    gc.gc: "gc --keep-days 90 --delete --reason 'the disk is full'",
    doctor.doctor: "doctor",
    files.schema: "schema > campaign.schema.json",
}
"""{command: example}, in the order of the help. The example begins with the command's name."""
GROUPS = {
    "models": models.app,
    "adapters": serve_model.app,
    "slurm": slurm.app,
    **{name: typer.Typer(help=text) for name, text in PLUGINS.items()},
    "db": db.app,
}

for command, example in COMMANDS.items():
    app.command(example.split()[0], epilog=f"Example: sciagent {example}")(command)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


def _version(value: bool) -> None:
    if value:
        put(f"sciagent {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Scientific-discovery campaigns on a priced ladder of verifiers."""


def main() -> None:
    """Runs the command line. An error that is raised on purpose becomes a message without a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        sys.exit(Exit.OK)
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        say(message)
        sys.exit(Exit.USAGE if isinstance(error, UsageError) else Exit.FAILED)


def _message(error: Exception) -> str | None:
    """Returns the message that replaces the traceback; None for an unexpected error."""
    if isinstance(error, UsageError):
        return str(error)
    from_database = type(error).__module__.startswith(("sqlalchemy.", "sqlite3", "psycopg"))
    if isinstance(error, LedgerAwayError) or from_database:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        return f"sciagent: the ledger does not answer: {reason}; `sciagent doctor --ledger URL` says more"
    if isinstance(error, SciagentError):
        return f"sciagent: {error}"
    if isinstance(error, OSError):
        return f"sciagent: {error.filename or ''}: {error.strerror or error}".replace(": :", ":")
    return None
