"""The commands `sciagent environment serve` and `sciagent rollout`.

`environment serve` serves the live ladder as an environment for policies that run elsewhere. `rollout FILE` runs groups
of episodes that begin alike, for training and for evaluation.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import Part, plain_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import Exit, plural, put, put_answer, say, say_upgraded
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.training.environment.environment import Environment
    from sciagent.training.rollouts.open_and_resume_groups import RolloutAnswer


app = typer.Typer(help="The live ladder as an environment.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The live ladder as an environment."""


@app.command(epilog="Example: sciagent environment serve campaign.yaml --rewards rewards.yaml")
def serve(
    file: Path = typer.Argument(help="The campaign, a YAML file."),
    rewards: Path = typer.Option(..., "--rewards", help="YAML file that describes the rewards."),
    host: str = typer.Option("127.0.0.1", help="Address to listen at; another one needs SCIAGENT_ENVIRONMENT_TOKEN."),
    port: int = typer.Option(8090, min=0, max=65535, help="0: any free port."),
    turns: int = typer.Option(6, "--turns", "-t", min=1, max=1000, help="Most answers in an episode."),
    most: int = typer.Option(256, min=1, max=10_000, help="Most episodes that are open at once."),
    idle_seconds: float = typer.Option(600.0, min=1, max=1e6, help="An episode that is silent for longer is ended."),
    protocol: str = typer.Option("http", metavar="http|openenv", help="What clients speak."),
    allow_origin: list[str] | None = typer.Option(
        None, "--allow-origin", metavar="URL", help="A web server whose pages may ask, too; may be repeated."
    ),
    workers: int | None = typer.Option(None, "--workers", "-w", min=1, help="Paid jobs at once."),
    ledger: options.Ledger = None,
) -> None:
    """Serve the ladder of a campaign to policies that run elsewhere, over HTTP, and drive the campaign meanwhile.

    Clients open episodes, send their answers, and get what the tools say, the rewards and the end. Prints its address
    once it answers. Ctrl-C ends the episodes and lets running jobs finish; a second one ends them, too.
    """
    from sciagent.api.campaign import Campaign
    from sciagent.api.terminal_tables_and_signals import each_signal, raise_interrupt
    from sciagent.inputs.environment_variables import secret

    if importlib.util.find_spec("uvicorn") is None or importlib.util.find_spec("starlette") is None:
        raise UsageError("this needs an extra: pip install 'sciagent[environment]'")
    from sciagent.training.environment.http_server import EnvironmentServer, checked_origin, guarded, hosts_of

    make_application = _application(protocol)
    token = secret("SCIAGENT_ENVIRONMENT_TOKEN")
    hosts = hosts_of(host, token)
    origins = [checked_origin(text) for text in allow_origin or ()]
    campaign = Campaign.from_yaml(file, ledger, enter=False)
    say_upgraded(campaign.ledger.store)
    limits = {"turns": turns, "most": most, "idle_seconds": idle_seconds, "workers": workers}
    environment = campaign.environment(rewards, **limits)  # type: ignore[arg-type]
    server = EnvironmentServer(host, port)
    stop_now = partial(environment.stop, now=True)  # at the second signal
    with each_signal(environment.stop, stop_now, last=raise_interrupt), environment:
        put(f"serving {environment.campaign} at {server.url}")
        sys.stdout.flush()
        application = guarded(make_application(environment), token, hosts, origins)
        server.serve(application, environment)
        say(f"{environment.why_closed}; running jobs may finish")


def _application(protocol: str) -> Callable[[Environment], Any]:
    """Returns the function that makes the application of a protocol. Raises UsageError."""
    if protocol == "http":
        from sciagent.training.environment.http_server import application

        return application
    if protocol != "openenv":
        raise UsageError(f'protocol: "{protocol}" is none of http, openenv')
    if importlib.util.find_spec("openenv") is None:
        raise UsageError(
            "--protocol openenv needs the package openenv, which cannot stand beside the extra llm: in an environment "
            "of its own, pip install 'sciagent[environment]' openenv"
        )
    from sciagent.training.environment.openenv_app import openenv_application

    return openenv_application


def rollout(
    file: Path = typer.Argument(help="The campaign, a YAML file."),
    groups: int = typer.Option(1, "--groups", "-g", min=1, max=1000, help="Groups that begin now."),
    siblings: int = typer.Option(8, "--siblings", "-s", min=1, max=1000, help="Episodes in a group."),
    turns: int = typer.Option(6, "--turns", "-t", min=1, max=1000, help="Most answers in an episode."),
    policy: str | None = typer.Option(
        None, help="`scripted`, a model, a role or a policy of the ledger; default: the campaign's own model."
    ),
    purpose: str = typer.Option("rollout", metavar="rollout|evaluation|demonstration", help="What it is for."),
    begins: str = typer.Option(
        "now",
        "--from",
        metavar="now[:N]|seeds[:N]",
        help="What groups see: all candidates, or the seeds; N: N drawn ones.",
    ),
    skills: str = typer.Option(
        "with", metavar="with|without|paired", help="The proposer's skills in the prompt; paired: groups of both kinds."
    ),
    workers: int | None = typer.Option(None, "--workers", "-w", min=1, help="Paid jobs at once."),
    ledger: options.Ledger = None,
    json: options.Json = False,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress on stderr."),
) -> None:
    """Roll out groups of episodes; the campaign's ladder then decides about all that they proposed.

    The episodes of a group have one opening and see one frozen snapshot of the campaign: none sees another. All of them
    take their turns together. After a stop or a crash the same command continues the open groups.

    Exit codes: 0 ok, 2 the file or the call is wrong, 130 groups are left open.
    """
    from sciagent.api.campaign import Campaign

    campaign = Campaign.from_yaml(file, ledger, enter=False)
    say_upgraded(campaign.ledger.store)
    answer = campaign.rollout(
        groups=groups,
        siblings=siblings,
        turns=turns,
        policy=policy,
        purpose=purpose,  # type: ignore[arg-type]  # checked there
        begins=begins,
        skills=skills,  # type: ignore[arg-type]  # checked there
        workers=workers,
        say=None if quiet or json else say,
    )
    notes = [f"{answer.stopped}; go on with the same command"] if answer.stopped else []
    put_answer(answer, json, _parts(answer), *notes)
    if answer.stopped:
        raise typer.Exit(Exit.INTERRUPTED)


def _parts(answer: RolloutAnswer) -> list[Part]:
    table = plain_table("group", "state", "episodes", "turns", "proposals", "new", "snapshot", left=["state"])
    for row in answer.groups:
        cells = (row.group, row.state, row.siblings, row.turns, row.proposals, row.new, row.snapshot)
        table.add_row(*map(str, cells))
    took = f" in {answer.seconds:.1f} s" if answer.turns else ""
    about = (
        f"{answer.campaign}: {plural(answer.turns, 'turn')} by {answer.policy}{took}; the campaign is {answer.state}"
    )
    return [table, Paragraph(about)]
