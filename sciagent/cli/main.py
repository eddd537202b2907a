"""`sciagent`: the list of commands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from sciagent import __version__
from sciagent.cli import (
    add_and_import,
    doctor_and_engine_environments,
    environment_and_rollout,
    export,
    gc_and_db,
    init_schema_plan,
    jobs,
    lab,
    language_models,
    law_and_predict,
    mcp_server,
    person_serve_audit,
    policy_and_evaluate,
    rewards,
    run_and_resume,
    show_campaigns,
    steering,
    top,
    verifiers_and_calc,
    workers_campaign_dispatcher_metrics,
)
from sciagent.cli.output_logging_and_given_structures import Exit, put, say
from sciagent.errors import DiskFullError, LedgerAwayError, SciagentError, UsageError

START = "Start: sciagent run campaigns/quickstart.yaml   All commands: sciagent --all"
# keys of the context of a call
SHOWS_ALL = "sciagent.shows_all"  # whether --all was given
IS_FIRST_SCREEN = "sciagent.is_first_screen"  # whether the help shows only the first commands
PLUGINS = {"bench": "Measure parts of sciagent on known answers."}
"""{command: help} of the commands in packages of their own, each found by its entry point in `sciagent.commands`."""


LATE = {"dataset": "sciagent.cli.dataset", "train": "sciagent.cli.train"}
"""{command: module with its commands}. These modules are imported when their command is called: they make their options
from settings, which takes a tenth of a second."""
READ_STRUCTURES = ("plan", "run", "resume", "verify", "calc", "predict", "add", "import")
"""Commands that read structures in this process, which may take a library long."""
FIRST = (
    "init",
    "plan",
    "run",
    "status",
    "best",
    "report",
    "resume",
    "calc",
    "explain",
    "export",
    "verifiers",
    "doctor",
)
"""The commands of the first screen, `sciagent --help`; `sciagent --all` shows the others, too."""


class Root(TyperGroup):
    """The list of commands. A plug-in, or a module of late commands, is imported when its command is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options_before_command = takewhile(lambda word: word.startswith("-"), args)
        ctx.meta[SHOWS_ALL] = "--all" in options_before_command
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the first screen, or the help with all commands after `--all`."""
        ctx.meta[IS_FIRST_SCREEN] = not ctx.meta[SHOWS_ALL]
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        if ctx.meta.get(IS_FIRST_SCREEN):
            return [name for name in names if name in FIRST]
        return names

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name in PLUGINS or name in LATE:
            return name, loaded(name), args[1:]
        return super().resolve_command(ctx, args)


def loaded(name: str) -> TyperGroup:
    """Returns the commands of a plug-in or of a module of late commands, which is imported now.

    Raises UsageError as `plugin` does.
    """
    if name in LATE:
        return get_group(import_module(LATE[name]).app)
    return plugin(name)


def plugin(name: str) -> TyperGroup:
    """Returns the commands of a plug-in. Raises UsageError if its package is missing or does not load."""
    from importlib.metadata import entry_points

    points = list(entry_points(group="sciagent.commands", name=name))
    if not points:
        raise UsageError(_missing_package(name, cause=""))
    try:
        return get_group(points[0].load())
    except (ImportError, AttributeError) as error:
        cause = f": {error}" if str(error) else ""
        raise UsageError(_missing_package(name, cause)) from error


def _missing_package(name: str, cause: str) -> str:
    return (
        f'the command "{name}" needs the package sciagent_{name}, which is not installed or does not load{cause}; '
        "it comes with sciagent: pip install --force-reinstall sciagent"
    )


app = typer.Typer(
    name="sciagent",
    cls=Root,
    help="Scientific-discovery campaigns on a priced ladder of verifiers.",
    epilog=START,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# the longer examples of `PANELS`
PAUSE = "pause quickstart --reason 'the cores are needed until noon'"
STOP = "stop quickstart --reason 'the question is answered'"
AMEND = "amend quickstart --budget rungs.dft=20 --goal-count 5 --reason 'two more days'"
EXPLAIN = "explain 'O=Cc1ccccc1' --campaign quickstart"
VERIFY = "verify 'O=Cc1ccccc1' --campaign campaigns/quickstart.yaml"
PREDICT = "predict 'O=Cc1ccccc1' --law gaps --campaign quickstart"
ADD = "add 'O=Cc1ccccc1' --campaign quickstart --reason 'the parent of our dyes'"
PROMOTE = "promote 3eb4b86e --to dft --reason 'GFN2 misjudges aldehydes'"
VETO = "veto 3eb4b86e --campaign quickstart --reason 'not stable in air'"
IMPORT = (
    "import gaps.csv --value 'gap=homo_lumo_gap\\[eV]' --uncertainty gap=0.05 --method B3LYP --basis '6-31G(2df,p)'"
)


class Listed(NamedTuple):
    """A command in the list of `sciagent --help`."""

    function: Callable[..., Any]
    """The function that runs the command; its docstring is the help."""
    brief: str
    """The summary in the list of commands; it fits on one line of a terminal of 80 columns."""
    example: str
    """An example without the word `sciagent`; its first word is the command's name."""


PANELS: dict[str, tuple[Listed, ...]] = {
    "Campaigns": (
        Listed(
            init_schema_plan.init, "Make a folder with a campaign", "init my-dyes --template quickstart --name my-dyes"
        ),
        Listed(init_schema_plan.plan, "Estimate the results of the budget", "plan campaigns/quickstart.yaml"),
        Listed(
            run_and_resume.run, "Run a campaign file, or continue it", "run campaigns/quickstart.yaml --ledger my.db"
        ),
        Listed(show_campaigns.status, "Show rungs, hits, cost and budget", "status quickstart --json"),
        Listed(show_campaigns.best, "Show the best candidates", "best quickstart -n 5 --json"),
        Listed(show_campaigns.report, "Write the report, one HTML file", "report quickstart --output quickstart.html"),
        Listed(steering.pause, "Start no new jobs until resumed", PAUSE),
        Listed(run_and_resume.resume, "Continue a stopped or paused campaign", "resume quickstart"),
        Listed(steering.stop, "End a campaign; running jobs finish", STOP),
        Listed(steering.amend, "Change budget, goal or workers", AMEND),
        Listed(show_campaigns.compare, "Show two campaigns side by side", "compare quickstart quickstart-wide"),
    ),
    "Candidates": (
        Listed(
            verifiers_and_calc.calc,
            "Run one verifier on candidates",
            "calc xtb.singlepoint CCO c1ccccc1O --set solvent=water",
        ),
        Listed(show_campaigns.verify, "Send a candidate up a ladder", VERIFY),
        Listed(show_campaigns.explain, "Explain the state of a candidate", EXPLAIN),
        Listed(law_and_predict.predict, "Predict values from what was measured", PREDICT),
        Listed(add_and_import.add, "Add candidates of your own", ADD),
        Listed(steering.promote, "Send a candidate to a higher rung", PROMOTE),
        Listed(steering.veto, "Remove a candidate for good", VETO),
        Listed(steering.hold, "Start no more jobs on a candidate", "hold 'O=Cc1ccccc1' --reason 'wait for the NMR'"),
    ),
    "Laboratory": (
        Listed(person_serve_audit.serve, "Serve the form and the window", "serve --port 8080"),
        Listed(person_serve_audit.audit, "Check the trail of what people did", "audit --export -o audit.jsonl"),
    ),
    "Data": (
        Listed(export.export, "Write candidates and values to a file", "export quickstart -o quickstart.csv"),
        Listed(add_and_import.import_, "Import values from a CSV as evidence", IMPORT),
        Listed(verifiers_and_calc.verifiers, "List what can be computed, and how", "verifiers xtb.singlepoint"),
        Listed(init_schema_plan.schema, "Print the keys of a campaign file", "schema > campaign.schema.json"),
        Listed(
            gc_and_db.gc, "Remove files that are not needed", "gc --keep-days 90 --delete --reason 'the disk is full'"
        ),
        Listed(doctor_and_engine_environments.doctor, "Check what is installed or missing", "doctor"),
        Listed(
            doctor_and_engine_environments.engines,
            "Python environments of engines",
            "engines mace --python ~/mace/bin/python",
        ),
    ),
    "Agents": (
        Listed(show_campaigns.trace, "Show what a model read and called", "trace quickstart_llm 1"),
        Listed(language_models.models, "Language models on this machine", "models smollm2"),
        Listed(mcp_server.mcp, "Serve a campaign's tools over MCP", "mcp quickstart --http 8765"),
        Listed(language_models.serve_model, "Serve a local model by vLLM", "serve-model smollm2 --port 8000"),
        Listed(language_models.adapters, "LoRA adapters of a served model", "adapters policy-1 ./adapter"),
    ),
    "Learning": (
        Listed(
            environment_and_rollout.rollout,
            "Groups of episodes that begin alike",
            "rollout campaign.yaml --groups 2 --siblings 8",
        ),
        Listed(policy_and_evaluate.evaluate, "Compare policies on held-out tasks", "evaluate recipe.yaml --workers 2"),
        Listed(
            policy_and_evaluate.policy,
            "Policies and their roles",
            "policy tiny-grpo --as production --reason 'more hits'",
        ),
    ),
    "Cluster": (
        Listed(top.top, "Show running jobs, live; or serve metrics", "top --interval 5"),
        Listed(jobs.jobs, "List jobs", "jobs quickstart --state failed --limit 50"),
        Listed(jobs.cancel, "End jobs", "cancel 4711 4712 --reason 'wrong charge'"),
        Listed(jobs.retry, "Run failed jobs again", "retry --campaign quickstart --state quarantined"),
        Listed(
            workers_campaign_dispatcher_metrics.dispatcher,
            "Drive submitted campaigns",
            "dispatcher --ledger postgresql://…",
        ),
        Listed(
            workers_campaign_dispatcher_metrics.worker,
            "Run jobs on this machine",
            "worker --tier simulation --slots 4 --ledger postgresql://…",
        ),
        Listed(workers_campaign_dispatcher_metrics.workers, "List workers and queues, drain a worker", "workers --all"),
    ),
}
"""{title of the panel: its commands}, in the order of the help: commands for beginners come first."""
GROUPS = {
    "lab": (lab.app, "Laboratory", "Work of people: tasks and results"),
    "person": (person_serve_audit.app, "Laboratory", "Accounts of people, and their roles"),
    "law": (law_and_predict.app, "Data", "Laws fitted to what campaigns measured"),
    "rewards": (rewards.app, "Learning", "Rewards of the episodes of a campaign"),
    # the commands of `LATE` are not imported here
    "dataset": (typer.Typer(), "Learning", "Data sets for training"),
    "train": (typer.Typer(), "Learning", "Train a model on a data set"),
    "environment": (environment_and_rollout.app, "Learning", "The live ladder as an environment"),
    "db": (gc_and_db.app, "Cluster", "Upgrade, check and back up the ledger"),
    **{name: (typer.Typer(help=text), "Data", text) for name, text in PLUGINS.items()},
}
"""{name of a group: (its commands, title of its panel, summary)}."""

for panel, commands in PANELS.items():
    for function, brief, example in commands:
        name = example.split()[0]
        epilog = f"Example: sciagent {example}"
        app.command(name, short_help=brief, epilog=epilog, rich_help_panel=panel)(function)
for name, (group, panel, brief) in GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel=panel, short_help=brief)


def _all(context: typer.Context, value: bool) -> None:
    if value:
        put(context.get_help())
        raise typer.Exit()


def _version(value: bool) -> None:
    if value:
        put(f"sciagent {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    all_: bool = typer.Option(False, "--all", callback=_all, is_eager=True, help="Show all commands."),
) -> None:
    """Scientific-discovery campaigns on a priced ladder of verifiers."""
    if context.invoked_subcommand in READ_STRUCTURES:
        from sciagent.api.end_stuck_process import stuck_process_ends

        context.with_resource(stuck_process_ends())


@cache
def command_line() -> Callable[[], Any]:
    """Returns the command line with all commands. It is made once in a process, since that takes 0.1 s."""
    return get_command(app)


def main() -> None:
    """Runs the command line. An error that is raised on purpose becomes a message without a traceback."""
    try:
        command_line()()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has read enough
        sys.exit(Exit.OK)
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        say(message)
        sys.exit(_exit_code(error))


def _exit_code(error: Exception) -> Exit:
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, LedgerAwayError) and not isinstance(error, DiskFullError):
        return Exit.LEDGER_AWAY
    return Exit.FAILED


def _message(error: Exception) -> str | None:
    """Returns the message that replaces the traceback; None for an unexpected error."""
    if isinstance(error, UsageError):
        return str(error)
    from_database = type(error).__module__.startswith(("sqlalchemy.", "sqlite3", "psycopg"))
    if isinstance(error, DiskFullError):
        return f"sciagent: {error}"
    if isinstance(error, LedgerAwayError) or from_database:
        cause = getattr(error, "orig", None) or error  # the driver's error, inside SQLAlchemy's
        reason = str(cause).strip().splitlines()[0]
        return f"sciagent: the ledger does not answer: {reason}; `sciagent doctor --ledger URL` says more"
    if isinstance(error, SciagentError):
        return f"sciagent: {error}"
    if isinstance(error, OSError):
        message = f"sciagent: {error.filename or ''}: {error.strerror or error}"
        return message.replace(": :", ":")  # an error without a file
    return None
