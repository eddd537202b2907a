"""The example campaigns of sciagent, which can be copied into a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from ruamel.yaml import YAML

from sciagent.errors import UnknownNameError, UsageError

_EDITOR = "# yaml-language-server:"
_DATA = {".csv", ".smi", ".sdf", ".cif", ".xy", ".gz", ".yml"}
_STRUCTURES = "structures it starts from, or reads"
_CONTENTS = {".yml": "the rubric that it is judged by", ".xy": "the measured powder pattern"}


@dataclass(frozen=True)
class Template:
    """An example campaign and its data files."""

    name: str
    path: Path
    description: str
    data: tuple[Path, ...]
    """Files in the same folder that the campaign names."""


def folder() -> Path:
    """Returns the folder of the example campaigns, in the installed package or the checkout. Raises UsageError."""
    with as_file(files("sciagent") / "campaigns") as packaged:
        for place in (packaged, packaged.parent.parent / "campaigns"):
            if (place / "quickstart.yaml").is_file():
                return place
    raise UsageError("the ready campaigns are not installed with this sciagent; install it again from its wheel")


def templates() -> dict[str, Template]:
    """Returns the example campaigns by name, sorted."""
    by_name = {}
    for path in sorted(folder().glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        words = re.findall(r"[\w.-]+", re.sub("#.*", "", text))
        beside = (path.with_name(word) for word in dict.fromkeys(words) if Path(word).suffix in _DATA)
        description = " ".join(str(YAML(typ="safe", pure=True).load(text).get("description", "")).split())
        named = tuple(file for file in beside if file.is_file())
        by_name[path.stem] = Template(path.stem, path, description, named)
    return by_name


def write(target: Path, template: str, name: str | None = None) -> list[Path]:
    """Writes a folder with the campaign, its data and a README; returns the paths of the files.

    name: the campaign's name; None: the template's. Raises UsageError if a file exists already, UnknownNameError for an
    unknown template.
    """
    known = templates()
    if template not in known:
        raise UnknownNameError("template", template, known)
    chosen = known[template]
    name = name or chosen.name
    lines = [line for line in chosen.path.read_text(encoding="utf-8").splitlines() if not line.startswith(_EDITOR)]
    lines = [f"campaign: {name}" if line.startswith("campaign:") else line for line in lines]
    contents = {f"{name}.yaml": "\n".join(lines).encode() + b"\n", "README.md": _readme(chosen, name).encode()}
    contents |= {file.name: file.read_bytes() for file in chosen.data}
    for file in contents:
        if (target / file).exists():
            way_out = "choose another folder, or move it away (nothing was written)"
            raise UsageError(f"{target / file} exists already; {way_out}")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder")
    target.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (target / file).write_bytes(content)
    return [target / file for file in contents]


def _readme(chosen: Template, name: str) -> str:
    data = "".join(f"- `{file.name}`: {_CONTENTS.get(file.suffix, _STRUCTURES)}\n" for file in chosen.data)
    return f"""# {name}

{chosen.description}

- `{name}.yaml`: the campaign: objectives, ladder, budget. Every key has a comment or stands in the reference.
{data}
```sh
sciagent run {name}.yaml              # runs it; the same line again goes on where it stopped
sciagent status                         # how it stands, from another terminal
sciagent best                           # the best so far
sciagent explain CANDIDATE              # everything about one candidate
sciagent add CANDIDATE --reason "…"     # one of your own
sciagent amend --budget wall_minutes=30 # another budget, also while it runs
```

Results are kept in `sciagent.db` beside this file, artifacts in `sciagent-artifacts`. After a change of objectives or
rungs give the campaign a new name: what was computed under the same settings is reused at no cost.
"""
