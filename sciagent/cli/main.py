"""`sciagent`: the commands, and how errors become messages and exit codes."""

from __future__ import annotations

import sys

import typer

from sciagent import __version__
from sciagent.cli.admin import bench, db, doctor, gc, verifiers
from sciagent.cli.campaigns import best, compare, explain, export, init, plan, report, run, schema, status, verify
from sciagent.cli.cluster import dispatcher, jobs, metrics, slurm, top, worker, workers
from sciagent.cli.models import mcp, models, serve_model, trace
from sciagent.cli.people import add, amend, control, importer, steer
from sciagent.cli.shared.common import Exit, put, say
from sciagent.errors import LedgerAwayError, SciagentError, UsageError

app = typer.Typer(
    name="sciagent",
    help="Scientific-discovery campaigns on a priced ladder of verifiers.",
    epilog="Start: sciagent run campaigns/quickstart.yaml",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    init,
    plan,
    run,
    control,
    amend,
    status,
    best,
    explain,
    trace,
    mcp,
    compare,
    add,
    steer,
    verify,
    report,
    export,
    importer,
    verifiers,
    models,
    serve_model,
    dispatcher,
    worker,
    slurm,
    workers,
    jobs,
    top,
    metrics,
    bench,
    gc,
    db,
    doctor,
    schema,
):
    module.register(app)


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
    """The entry point; every error that is raised on purpose is a message, not a traceback."""
    try:
        app()
    except UsageError as error:
        say(f"{error}")
        sys.exit(Exit.USAGE)
    except LedgerAwayError as error:
        reason = str(error).strip().splitlines()[0]
        say(f"sciagent: the ledger does not answer: {reason}; `sciagent doctor --ledger URL` says more")
        sys.exit(Exit.FAILED)
    except SciagentError as error:
        say(f"sciagent: {error}")
        sys.exit(Exit.FAILED)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        sys.exit(Exit.OK)
    except OSError as error:
        say(f"sciagent: {error.filename or ''}: {error.strerror or error}".replace(": :", ":"))
        sys.exit(Exit.FAILED)
    except Exception as error:
        if type(error).__module__.startswith("sqlalchemy.") or type(error).__module__ in ("sqlite3", "psycopg"):
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            say(f"sciagent: the ledger does not answer: {reason}; `sciagent doctor --ledger URL` says more")
            sys.exit(Exit.FAILED)
        raise
