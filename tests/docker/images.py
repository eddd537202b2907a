"""What stands in docker/: the stages of the Dockerfile, the compose file as compose reads it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from typer.main import get_command

from sciagent.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
_STAGE = re.compile(r"(\S+) AS (\S+)")
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass
class Stage:
    """base: an image, or a stage before. lines: (instruction, the rest of it)."""

    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.lines if name == instruction]


@cache
def stages() -> dict[str, Stage]:
    """By name, in the order of the file."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found: dict[str, Stage] = {}
    current = None
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            match = _STAGE.fullmatch(rest)
            assert match, line
            current = found[match[2]] = Stage(match[1])
        elif name:
            assert current is not None, line
            current.lines.append((name, rest.strip()))
    return found


def last(name: str, instruction: str) -> str | None:
    """What an image says last, itself or through the stage it begins with."""
    known = stages()
    while name in known:
        if said := known[name].all(instruction):
            return said[-1]
        name = known[name].base
    return None


def words(name: str, instruction: str) -> list[str]:
    """ENTRYPOINT, CMD, and what follows CMD in HEALTHCHECK, in exec form; a shell form is no JSON and fails."""
    said = last(name, instruction)
    assert said is not None, f"{name} has no {instruction}"
    found = json.loads(said.partition("CMD")[2] if instruction == "HEALTHCHECK" else said)
    assert all(isinstance(one, str) for one in found)
    return list(found)


def environment(name: str) -> dict[str, str]:
    """ENV of the image with all that it begins with."""
    known, found = stages(), dict[str, str]()
    while name in known:
        for said in known[name].all("ENV"):
            found = dict(re.findall(r"(\w+)=(\S+)", said)) | found
        name = known[name].base
    return found


@cache
def compose() -> dict[str, Any]:
    """The compose file with the defaults of its variables. Shared: copy it before you change it."""
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    return dict(YAML(typ="safe").load(_VARIABLE.sub(lambda match: match[2], text)))


def compose_variables() -> dict[str, set[str]]:
    """The defaults that the compose file gives each variable."""
    found: dict[str, set[str]] = {}
    for name, default in _VARIABLE.findall((DOCKER / "compose.yaml").read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(default)
    return found


def env_example() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def ours() -> dict[str, dict[str, Any]]:
    """Services that run sciagent."""
    return {name: one for name, one in compose()["services"].items() if one["image"].startswith("sciagent")}


def parse(arguments: list[str]) -> None:
    """Raises what the command line raises if there is no such command or option; runs nothing."""
    command: Any = get_command(app)
    path: list[str] = []
    if arguments == ["--help"]:
        return
    while hasattr(command, "commands"):
        name, *arguments = arguments
        path.append(name)
        assert name in command.commands, f"there is no command {' '.join(path)}"
        command = command.commands[name]
    if arguments != ["--help"]:
        command.make_context(" ".join(path), list(arguments))


def product_text() -> str:
    """The sources of the product, in which a variable that is read stands in quotes."""
    return "".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "sciagent").rglob("*.py")))
