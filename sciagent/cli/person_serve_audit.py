"""The commands about people: `sciagent person`, `sciagent serve` and `sciagent audit`.

`sciagent person` manages accounts, roles, links and tokens. `sciagent serve` serves the pages for people, and starts
the dispatcher that goes on after their answers. `sciagent audit` shows the trail of what people did, and checks that
nobody changed it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.api.terminal_tables_and_signals import Line, records_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import Exit, open_ledger, put, put_answer, say
from sciagent.domain.people import Right, Role
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.store.database.ledger import Ledger


app = typer.Typer(help="Accounts of people: roles, one-time links, tokens of instruments.", no_args_is_help=True)
Login = Annotated[str, typer.Argument(metavar="LOGIN", help="Name of the account.")]
EVERY_CAMPAIGN = "*"
"""Stands for the campaign of a role that holds in every campaign."""
URL = typer.Option("http://127.0.0.1:8080", "--url", metavar="URL", help="Address of the server, for the link.")
AllOrOne = Annotated[str | None, typer.Option("--campaign", "-c", help="The campaign; without: all campaigns.")]


@app.command(epilog="Example: sciagent person add anna --name 'Anna Berg' --role lab")
def add(
    login: Login,
    name: str = typer.Option(..., "--name", help="The printed name, as it stands below a signature."),
    email: str | None = typer.Option(None, "--email", help="An address, for your own use."),
    role: Role | None = typer.Option(None, "--role", help="What the person may do."),
    campaign: AllOrOne = None,
    admin: bool = typer.Option(False, "--admin", help="May manage accounts and read the audit trail."),
    url: str = URL,
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Make an account, and print the link with which the person chooses a password. The link works once, for a week."""
    from sciagent.store.people import persons, sessions_and_tokens

    with open_ledger(ledger, create=True).begin() as connection:
        who = as_who or user()
        person = persons.add(connection, who, login, name, email=email, is_admin=admin)
        if role is not None:
            persons.set_role(connection, who, person.id, role, _campaign_id(connection, campaign))
        secret, _ = sessions_and_tokens.create(connection, who, person.id, sessions_and_tokens.AccessKind.INVITE)
    _put_link(login, url, secret, json, span="a week")


def _put_link(login: str, url: str, secret: str, json: bool, span: str) -> None:
    """Prints the link with which a person chooses a password. span: time for which it works, in words."""
    link = f"{url.rstrip('/')}/welcome/{secret}"
    put_answer({"login": login, "link": link}, json, [f"for {login}, once, within {span}:", Line(link)])


@app.command("list", epilog="Example: sciagent person list")
def list_(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Show all accounts with their roles."""
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.people import persons

    rows: list[dict[str, object]] = []
    with open_ledger(ledger).read() as connection:
        page = persons.listed(connection)
        while page:
            roles = persons.roles(connection, [person.id for person in page])
            for person in page:
                role_by_campaign: dict[str, str] = {}
                for campaign_id, role in roles[person.id].items():
                    campaign = EVERY_CAMPAIGN if campaign_id is None else campaigns.name_of(connection, campaign_id)
                    role_by_campaign[campaign] = str(role)
                role_texts = ["admin"] if person.is_admin else []
                for campaign, role_name in sorted(role_by_campaign.items()):
                    role_texts.append(role_name if campaign == EVERY_CAMPAIGN else f"{role_name} in {campaign}")
                roles_text = ", ".join(role_texts)
                state = _account_state(person)
                rows.append({"login": person.login, "name": person.name, "state": state, "roles": roles_text})
            page = persons.listed(connection, after=page[-1].login)
    put_answer(rows, json, [records_table(rows)] if rows else [Line("no accounts; make one: sciagent person add")])


def _account_state(person: Any) -> str:
    if person.disabled_at:
        return "disabled"
    return "invited" if person.password_hash is None else "active"


@app.command(epilog="Example: sciagent person change anna --role chemist --campaign solubility")
def change(
    login: Login,
    role: str | None = typer.Option(
        None, "--role", help="viewer, lab, chemist; or none, to take the role. It holds from the next click on."
    ),
    campaign: AllOrOne = None,
    reset: bool = typer.Option(False, "--reset", help="Print a link for a new password. It works once, for a day."),
    url: str = URL,
    disable: bool = typer.Option(
        False, "--disable", help="Close the account at once: its sessions, tokens and links end."
    ),
    enable: bool = typer.Option(False, "--enable", help="Open a closed account again."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Change an account: a role in one campaign or in all, a new password, or closed and open.

    An account is never deleted; what it wrote names it.
    """
    changes = [role is not None, reset, disable, enable]
    if changes.count(True) != 1:
        raise UsageError("say what to change, one at a time: --role ROLE, --reset, --disable or --enable")
    if campaign is not None and role is None:
        raise UsageError("--campaign belongs to --role")
    opened = open_ledger(ledger)
    who = as_who or user()
    if role is not None:
        _change_role(opened, login, role, campaign, who, json)
    elif reset:
        _reset_password(opened, login, url, who, json)
    else:
        _set_disabled(opened, login, disable, who, json)


def _change_role(ledger: Ledger, login: str, role: str, campaign: str | None, who: str, json: bool) -> None:
    from sciagent.store.people import persons

    if role not in (*Role, "none"):
        raise UsageError(f'"{role}" is no role; one of: {", ".join(Role)}, none')
    with ledger.begin() as connection:
        person = persons.get(connection, login)
        new_role = None if role == "none" else Role(role)
        persons.set_role(connection, who, person.id, new_role, _campaign_id(connection, campaign))
    where = f"in {campaign}" if campaign else "in all campaigns"
    put_answer({"login": login, "role": role, "campaign": campaign}, json, [Line(f"{login}: {role} {where}")])


def _reset_password(ledger: Ledger, login: str, url: str, who: str, json: bool) -> None:
    from sciagent.store.people import persons, sessions_and_tokens

    with ledger.begin() as connection:
        person = persons.get(connection, login)
        secret, _ = sessions_and_tokens.create(connection, who, person.id, sessions_and_tokens.AccessKind.RESET)
    _put_link(login, url, secret, json, span="a day")


def _set_disabled(ledger: Ledger, login: str, is_disabled: bool, who: str, json: bool) -> None:
    from sciagent.store.people import persons, sessions_and_tokens

    with ledger.begin() as connection:
        person = persons.get(connection, login)
        persons.set_disabled(connection, who, person.id, is_disabled)
        if is_disabled:
            sessions_and_tokens.revoke_all(connection, person.id)
    state = "closed; all its sessions and tokens have ended" if is_disabled else "open again"
    put_answer({"login": login, "disabled": is_disabled}, json, [Line(f"the account {login} is {state}")])


@app.command(
    epilog="Example: sciagent person token balance --label 'balance in room 3' --scope work --campaign solubility"
)
def token(
    login: Login,
    label: str = typer.Option(..., "--label", help="Name of the instrument or script that gets it."),
    scope: list[Right] = typer.Option([Right.READ, Right.WORK], "--scope", help="Rights; never more than the person."),
    campaign: Annotated[
        str | None, typer.Option("--campaign", "-c", help="The only campaign of the token; without: all of the person.")
    ] = None,
    days: float = typer.Option(365, "--days", min=0.01, max=3650, help="Days until it expires."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Print a token with which an instrument or a script acts for a person. It is shown once.

    It never may do more than the person. --scope and --campaign limit it to acts, and to one campaign.
    """
    from sciagent.store.people import persons, sessions_and_tokens

    with open_ledger(ledger).begin() as connection:
        person = persons.get(connection, login)
        secret, _ = sessions_and_tokens.create(
            connection,
            as_who or user(),
            person.id,
            sessions_and_tokens.AccessKind.TOKEN,
            label=label,
            scopes=set(scope),
            campaign_id=_campaign_id(connection, campaign),
            lifetime=timedelta(days=days),
        )
    put_answer({"login": login, "label": label, "token": secret}, json, [Line(secret)])


def _campaign_id(connection: Connection, name: str | None) -> int | None:
    """Returns the id of the named campaign; None, which stands for all campaigns, without a name."""
    from sciagent.store.campaign_state import campaigns

    return None if name is None else campaigns.get(connection, name).id


LOCAL = ("127.0.0.1", "localhost", "::1")  # addresses that only this machine reaches
DISPATCHER_END_SECONDS = 60  # time for the dispatcher and its drivers to end


def serve(
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen at; another than this machine needs TLS."),
    port: int = typer.Option(8080, "--port", min=0, max=65535, help="Port; 0: any free one."),
    tls_cert: Path | None = typer.Option(None, "--tls-cert", help="Certificate (PEM), for https."),
    tls_key: Path | None = typer.Option(None, "--tls-key", help="Its private key (PEM)."),
    behind_proxy: bool = typer.Option(False, "--behind-proxy", help="A proxy on this machine speaks TLS."),
    public_url: str | None = typer.Option(
        None, "--public-url", metavar="URL", help="Address by which people reach it, for links, as on labels."
    ),
    allowed_host: list[str] = typer.Option(
        [], "--allowed-host", metavar="NAME", help="A further name by which people reach it."
    ),
    lock_minutes: float = typer.Option(
        5, "--lock-minutes", min=0, max=720, help="Lock the session of a person with a PIN after so long; 0: never."
    ),
    no_dispatcher: bool = typer.Option(
        False, "--no-dispatcher", help="Only the pages; `sciagent dispatcher` runs elsewhere."
    ),
    allow: options.AllowFile = None,
    ledger: options.Ledger = None,
) -> None:
    """Serve the laboratory's form and the chemist's window, and drive the campaigns that were submitted.

    Accounts are made with `sciagent person add`. It answers under the address that it listens at, `localhost`, and the
    names given here. Ctrl-C or SIGTERM ends it; nothing is lost.
    """
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    secure = tls_cert is not None or behind_proxy
    if host not in LOCAL and tls_cert is None:
        raise UsageError(
            f"others reach {host}: passwords need TLS; give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a "
            "proxy that speaks it: --behind-proxy"
        )
    application, features, server_class, served_names = _parts()
    names = served_names(host, public_url, allowed_host, secure=secure)
    opened = open_ledger(ledger, create=True)
    app_to_serve = application(
        opened, features, secure=secure, names=names, lock_after=timedelta(minutes=lock_minutes) or None
    )
    server = server_class(app_to_serve, host, port, tls_cert=tls_cert, tls_key=tls_key, behind_proxy=behind_proxy)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server raises it again when it has closed
    with contextlib.ExitStack() as stack:
        if not no_dispatcher:
            stack.enter_context(_dispatcher(opened, allow))
        say(f"serving {opened.url.render_as_string()} at {server.url}")
        if not _has_people(opened):
            say("nobody has an account yet; the first: sciagent person add LOGIN --name NAME --admin --role chemist")
        server.run()


def _parts() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Returns the function that makes the application, the features with pages, the class of the server, and the
    function that makes its names.

    Raises UsageError if the extra `web` is not installed.
    """
    try:
        from sciagent.cockpit import pages_steering_and_cached_figures as cockpit
        from sciagent.lab import pages as lab
        from sciagent.web.app import application
        from sciagent.web.page_server import PageServer
        from sciagent.web.served_names import served_names
    except ImportError as error:
        raise UsageError(f"pages need the extra `web` ({error.name}): pip install 'sciagent[web]'") from error
    return application, (lab.FEATURE, cockpit.FEATURE), PageServer, served_names


def _has_people(ledger: Any) -> bool:
    from sciagent.store.people import persons

    with ledger.read() as connection:
        return bool(persons.listed(connection, limit=1))


@contextlib.contextmanager
def _dispatcher(ledger: Ledger, allow: Path | None) -> Iterator[None]:
    """Runs a dispatcher beside the server, with which it ends, even if the server is killed.

    allow: the list of what campaigns may name; None: that of the environment, or none."""
    from sciagent.verification.sandbox.process_trees import die_with

    command = [sys.executable, "-m", "sciagent", "dispatcher"]
    if allow is not None:
        command += ["--allow", str(allow)]
    end_with_server = functools.partial(die_with, os.getpid(), signal.SIGTERM)
    process = subprocess.Popen(command, env=ledger.environment(), stdin=subprocess.DEVNULL, preexec_fn=end_with_server)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(DISPATCHER_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def audit(
    since: str | None = typer.Option(
        None, "--since", metavar="HASH", help="A hash from --head: finds a tail that was rewritten since."
    ),
    head: bool = typer.Option(False, "--head", help="Only print the last hash, for a notebook or a printed page."),
    export: bool = typer.Option(
        False, "--export", help="Write the trail as JSON lines, oldest first: who did what, when, how; default: stdout."
    ),
    output: Path | None = typer.Option(None, "--output", "-o", metavar="FILE", help="With --export: a file."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Check the trail of what people did: one changed or missing entry, or a changed answer, is found.

    All evidence is checked, too: it fits its seal, or an act of a person answers for it. The exit code is 1 for a
    fault. Whoever owns the database can write the whole chain anew. So note the hash of `audit --head` elsewhere.
    """
    acts = [head, export, since is not None]
    if acts.count(True) > 1:
        raise UsageError("--since, --head and --export exclude each other")
    if output is not None and not export:
        raise UsageError("--output belongs to --export")
    opened = open_ledger(ledger)
    if head:
        _put_head(opened, json)
    elif export:
        _export_trail(opened, output)
    else:
        _check_trail(opened, since, json)


def _check_trail(ledger: Ledger, since: str | None, json: bool) -> None:
    from sciagent.cli.checked_evidence import check_evidence
    from sciagent.store.people import audit as trail

    with ledger.read() as connection:
        checked = trail.check(connection, since)
        evidence = check_evidence(connection, ledger.secret)
    line = Line(f"{checked.entries} entries fit; the last hash is {checked.head}")
    if checked.fault:
        line = Line(checked.fault, "bold red")
    style = "bold red" if evidence.check.faults else ""
    lines = [line, *(Line(text, style) for text in evidence.lines)]
    put_answer({**vars(checked), "evidence": evidence.answer}, json, lines)
    if checked.fault or evidence.check.faults:
        raise typer.Exit(Exit.FAILED)


def _put_head(ledger: Ledger, json: bool) -> None:
    from sciagent.store.people import audit as trail

    with ledger.read() as connection:
        last = trail.head(connection)
    entry = last.id if last else 0
    hash_ = last.hash if last else trail.FIRST  # the hash before the first entry
    at = last.at if last else None
    put_answer({"entry": entry, "hash": hash_, "at": at}, json, [Line(f"{hash_} (entry {entry})")])


def _export_trail(ledger: Ledger, output: Path | None) -> None:
    import json
    from dataclasses import asdict

    from sciagent.store.people import audit as trail

    with ledger.read() as connection:
        lines = (json.dumps(asdict(entry), default=str, ensure_ascii=False) for entry in trail.entries(connection))
        if output is None:
            for line in lines:
                put(line)
            return
        n_written = 0
        with output.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
                n_written += 1
    say(f"wrote {n_written} entries to {output}")
