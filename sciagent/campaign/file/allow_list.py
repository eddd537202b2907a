"""The list of what restricted campaign files may name beyond themselves, and the check against it.

A campaign file is restricted if it does not come from this machine's disk: it was sent by a browser, a program or a
model, or it stands in a ledger into which others write. Such a file may name commands, endpoints, environment
variables, files and plug-ins only if an administrator registered them in the list of `sciagent dispatcher --allow`.
"""

from __future__ import annotations

import re
import shlex
import stat
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from sciagent.agent.proposers.plugin_proposers import GROUP as PROPOSERS
from sciagent.errors import SpecError, UsageError
from sciagent.inputs.names_outside_the_file import Outside, OutsideName, names_in
from sciagent.inputs.yaml_document import Document, Fault, read, read_text, report
from sciagent.inputs.yaml_validation import Part, fault, validated
from sciagent.verification.route_finder_plugins_and_route_checks import GROUP as ROUTE_FINDERS

MAX_SHOWN = 120  # characters of a name in a message
MAX_ENTRIES = 1000  # of each part of the list
_ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(?=/|\Z)")
"""Scheme, host and port of an address. Nothing that programs read differently, such as `@` or a backslash, fits it."""
_PORTS = {"http": 80, "https": 443}
_WHAT = {
    Outside.COMMAND: "the command",
    Outside.ADDRESS: "the endpoint",
    Outside.VARIABLE: "the environment variable",
    Outside.FILE: "the file",
    Outside.CODE: "a file that can run code,",
    Outside.PLUGIN: "the plug-in",
}


def _origin(address: str) -> tuple[str, str, int] | None:
    """Returns scheme, host and port of an address; None if programs might not agree about them."""
    if not _ORIGIN.match(address):
        return None
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        return None
    return parts.scheme, (parts.hostname or "").lower().rstrip("."), port or _PORTS[parts.scheme]


def _checked_endpoint(value: str) -> str:
    """Returns the address as it is. Raises a fault for one that is more than scheme, host and port."""
    match = _ORIGIN.match(value)
    if match is None or value.removesuffix("/") != match[0] or _origin(value) is None:
        raise fault(f'"{value}" is no endpoint', "takes scheme, host and port, such as http://127.0.0.1:8000")
    return value


def _checked_path(value: str) -> str:
    """Returns the path as it is. Raises a fault for one that is not absolute."""
    if not Path(value).is_absolute():
        raise fault(f'"{value}" is no absolute path', "the list holds for campaigns of all folders")
    return value


def _checked_command(value: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the command as it is. Raises a fault for a program that depends on the folder."""
    if "/" in value[0] and not Path(value[0]).is_absolute():
        raise fault(f'"{value[0]}" depends on the folder', "takes an absolute path, or a name that is on PATH")
    return value


Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Command = Annotated[tuple[Word, ...], Field(min_length=1, max_length=64), AfterValidator(_checked_command)]
AbsolutePath = Annotated[Word, AfterValidator(_checked_path)]


class AllowList(Part):
    """The things that restricted campaign files may name. A list without entries allows nothing beyond the file."""

    commands: tuple[Command, ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="Programs with all their arguments, each a list of words."
    )
    endpoints: tuple[Annotated[Word, AfterValidator(_checked_endpoint)], ...] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Scheme, host and port of addresses; each path there is allowed.",
    )
    variables: tuple[Annotated[Word, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="Environment variables, whose values go to allowed endpoints."
    )
    folders: tuple[AbsolutePath, ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="Folders whose files, also in folders below, are read as data."
    )
    code: tuple[AbsolutePath, ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="Files that can run code when they are loaded, such as weights."
    )
    plugins: tuple[Word, ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="Proposers and route finders of installed packages."
    )

    def with_folder(self, folder: Path) -> AllowList:
        """Returns the list with one folder more, such as that of the files that were sent with a campaign."""
        return self.model_copy(update={"folders": (*self.folders, str(folder.resolve()))})

    def allows(self, name: OutsideName, base: Path) -> bool:
        """Returns whether a file may name this. base: the folder of the file, where its relative paths start."""
        value = name.value
        if name.kind is Outside.COMMAND:
            return value in self.commands
        if not isinstance(value, str):
            return False
        if name.kind is Outside.ADDRESS:
            origin = _origin(value)
            return origin is not None and origin in map(_origin, self.endpoints)
        if name.kind is Outside.VARIABLE:
            return value in self.variables
        if name.kind is Outside.PLUGIN:
            return value in self.plugins or _is_our_own(value)
        return self._allows_path(name.kind, base / value)

    def _allows_path(self, kind: Outside, path: Path) -> bool:
        """Returns whether a file, or each file of a folder, is where the list says, whatever links lead there."""
        try:
            found = path.resolve()
            if kind is Outside.CODE:
                return any(found == Path(file).resolve() for file in self.code)
            folders = [Path(folder).resolve() for folder in self.folders]
            if not _is_below(found, folders):
                return False
            entries = list(found.iterdir()) if found.is_dir() else []
            return all(_is_below(entry.resolve(), folders) for entry in entries)
        except (OSError, ValueError, RuntimeError):  # a loop of links, a name that no file can have
            return False


def _is_below(path: Path, folders: list[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_our_own(plugin: str) -> bool:
    """Returns whether the plug-in of this name is a part of sciagent itself."""
    found = [point for group in (PROPOSERS, ROUTE_FINDERS) for point in entry_points(group=group, name=plugin)]
    return bool(found) and all(point.dist is not None and point.dist.name == "sciagent" for point in found)


def read_allow_list(path: Path) -> AllowList:
    """Reads the list in a YAML file. Raises SpecError with all its mistakes, or UsageError if others may write it."""
    text = read_text(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{path}: others may write this list, and so allow themselves anything: chmod go-w {path}")
    return validated(read(text, "a list of what is allowed", "commands: [[program, argument]]"), str(path), AllowList)


def refuse_unregistered(document: Document, name: str, model: type[BaseModel], allowed: AllowList, base: Path) -> None:
    """Raises SpecError for a restricted file that names anything that is not in the list. No named file is opened.

    document: the file. name: its name, for messages. model: the model of the whole file. base: where its relative paths
    start."""
    faults = list[Fault]()
    for each in names_in(document.data, model):
        if allowed.allows(each, base):
            continue
        line, column = document.locate(each.loc)
        shown = each.value if isinstance(each.value, str) else shlex.join(each.value)
        shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
        message = f'names {_WHAT[each.kind]} "{shown}", which is not registered here'
        hint = f"an administrator may register it, under {each.kind.value} in the list of sciagent dispatcher --allow"
        faults.append(Fault(line, column, " ".join(message.split()), each.loc, hint))
    if faults:
        raise SpecError(report(name, faults))
