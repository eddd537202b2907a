"""The example campaigns that come with sciagent, copied into a folder for a user to change."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sciagent.errors import UnknownNameError, UsageError

_EDITOR = "# yaml-language-server:"


@dataclass(frozen=True)
class Template:
    """An example campaign."""

    name: str
    path: Path
    description: str
    data: tuple[Path, ...]
    """The files that it names, in the same folder."""


def folder() -> Path:
    """The folder of the example campaigns: in the installed package, or beside it in a checkout. Raises UsageError."""
    with as_file(files("sciagent") / "campaigns") as packaged:
        for place in (packaged, packaged.parent.parent / "campaigns"):
            if (place / "quickstart.yaml").is_file():
                return place
    raise UsageError("the ready campaigns are not installed with this sciagent; install it again from its wheel")


def templates() -> dict[str, Template]:
    """The example campaigns by name, sorted."""
    by_name = {}
    for path in sorted(folder().glob("*.yaml")):
        try:
            data = YAML(typ="safe", pure=True).load(path)
        except YAMLError:
            continue
        named = [data.get("proposer", {}).get(key) for key in ("seeds", "file")]
        beside = [path.parent / name for name in (*named, *_files(data.get("ladder"))) if isinstance(name, str)]
        text = " ".join(str(data.get("description", "")).split())
        by_name[path.stem] = Template(path.stem, path, text, tuple(p for p in dict.fromkeys(beside) if p.is_file()))
    return by_name


def _files(value: object) -> list[str]:
    """All texts in a part of the spec that look like names of files beside the campaign."""
    if isinstance(value, dict):
        return [name for item in value.values() for name in _files(item)]
    if isinstance(value, list):
        return [name for item in value for name in _files(item)]
    is_name = (
        isinstance(value, str) and "/" not in value and Path(value).suffix in (".csv", ".smi", ".sdf", ".gz", ".yml")
    )
    return [str(value)] if is_name else []


def write(target: Path, template: str, name: str | None = None) -> list[Path]:
    """Write a folder with the campaign, its data and a README; return the paths written.

    name: the campaign's name; default: the template's. Raises UsageError if a file exists already, UnknownNameError for
    an unknown template.
    """
    known = templates()
    if template not in known:
        raise UnknownNameError("template", template, known)
    chosen = known[template]
    called = name or chosen.name
    text = chosen.path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(_EDITOR)]
    if called != chosen.name:
        lines = [f"campaign: {called}" if line.startswith("campaign:") else line for line in lines]
    out = {target / f"{called}.yaml": "\n".join(lines) + "\n", target / "README.md": _readme(chosen, called)}
    copies = {target / file.name: file for file in chosen.data}
    for path in (*out, *copies):
        if path.exists():
            raise UsageError(f"{path} exists already; choose another folder, or move it away (nothing was written)")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder")
    target.mkdir(parents=True, exist_ok=True)
    for path, content in out.items():
        path.write_text(content, encoding="utf-8")
    for path, source in copies.items():
        path.write_bytes(source.read_bytes())
    return [*out, *copies]


def _what(file: Path) -> str:
    return "the rubric that it is judged by" if file.suffix == ".yml" else "structures it starts from, or reads"


def _readme(chosen: Template, called: str) -> str:
    data = "".join(f"- `{file.name}`: {_what(file)}\n" for file in chosen.data)
    return f"""# {called}

{chosen.description}

- `{called}.yaml`: the campaign: objectives, ladder, budget. Every key has a comment or stands in the reference.
{data}
```sh
sciagent run {called}.yaml              # runs it; the same line again goes on where it stopped
sciagent status                         # how it stands, from another terminal
sciagent best                           # the best so far
sciagent explain SMILES                 # everything about one candidate
sciagent add SMILES --reason "…"        # a molecule of your own
sciagent amend --budget wall_minutes=30 # another budget, also while it runs
```

Results are kept in `sciagent.db` beside this file, artifacts in `sciagent-artifacts`. After a change of objectives or
rungs give the campaign a new name: what was computed under the same settings is reused at no cost.
"""
