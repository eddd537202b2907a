"""The folder of one array, shared with the nodes: what its elements are, the script, and the marks that they leave.

SPOOL/3f2a9c0d1b4e5f67/     the token of the array, which is also in the name of its Slurm job
    elements.json           what each element is to do, by its number
    array.json              under which id Slurm has it
    script.sh
    out.0 warned.0 exit.0   of element 0: what it printed; that its time was nearly up; how it ended
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciagent.errors import SlurmError

MAX_ELEMENTS_BYTES = 64_000_000
_TOKEN = re.compile(r"[0-9a-f]{16}")
_EXIT = re.compile(r'\{"code": (\d{1,3}), "warned": (true|false), "stopped": (true|false)\}\n')
_TAIL_BYTES = 4096
_MEMORY = re.compile(r"^slurmstepd\S*: error: .*(?:exceeded .*memory limit|oom.kill)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Mark:
    """How the script of an element ended: exit code of its command; whether its time was up; whether TERM came."""

    code: int
    warned: bool
    stopped: bool


class Spool:
    """The folder of one array below the site's spool. token: 16 hexadecimal digits. Raises ValueError for another."""

    def __init__(self, site_spool: str, token: str) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"{token!r} is no token of an array")
        self.token = token
        self.folder = Path(site_spool) / token
        self.elements, self.array, self.script = (
            self.folder / name for name in ("elements.json", "array.json", "script.sh")
        )

    def write(self, elements: Sequence[Any], script: str) -> None:
        """Raises SlurmError if the folder cannot be written."""
        try:
            self.folder.mkdir(mode=0o700, parents=True)
            self._put(self.elements, json.dumps(list(elements)))
            self._put(self.script, script)
        except OSError as error:
            raise SlurmError(f"the spool folder cannot be written: {error}") from None

    def remember(self, job_id: int, size: int) -> None:
        self._put(self.array, json.dumps({"job_id": job_id, "size": size}))

    def remembered(self) -> tuple[int, int] | None:
        """Slurm's id and the number of elements; None if that was not written down."""
        try:
            found = json.loads(self.array.read_text())
            return int(found["job_id"]), int(found["size"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def size(self) -> int:
        return len(read_elements(self.elements))

    def mark(self, element: int) -> Mark | None:
        """How the element ended, if it came to say so."""
        found = _EXIT.fullmatch(self._read(f"exit.{element}"))
        return Mark(int(found[1]), found[2] == "true", found[3] == "true") if found else None

    def was_warned(self, element: int) -> bool:
        return (self.folder / f"warned.{element}").exists()

    def note_cancelled(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            (self.folder / f"cancelled.{number}").touch(mode=0o600)

    def was_cancelled(self, element: int) -> bool:
        return (self.folder / f"cancelled.{element}").exists()

    def ran_out_of_memory(self, element: int) -> bool:
        """Whether Slurm said so at the end of what the element printed."""
        return bool(_MEMORY.search(self._read(f"out.{element}")))

    def last_line(self, element: int) -> str:
        """Of what the element printed, without what no terminal shows; or nothing."""
        lines = [line for line in self._read(f"out.{element}").splitlines() if line.strip()]
        return "".join(one for one in lines[-1].strip()[:300] if one.isprintable()) if lines else ""

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str) -> str:
        """The end of a file, or nothing."""
        try:
            with (self.folder / name).open("rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
                return stream.read(_TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def _put(self, path: Path, text: str) -> None:
        """Whole or not at all, and for the user alone."""
        part = path.with_name(f"{path.name}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        part.replace(path)


def new_token() -> str:
    return secrets.token_hex(8)


def spools(site_spool: str) -> list[Spool]:
    """All that lie there, in the order of their tokens."""
    try:
        names = sorted(one.name for one in Path(site_spool).iterdir())
    except OSError:
        return []
    return [Spool(site_spool, name) for name in names if _TOKEN.fullmatch(name)]


def read_elements(path: Path) -> list[Any]:
    """What the elements of an array are to do. Raises SlurmError."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_ELEMENTS_BYTES + 1)
        found = json.loads(raw) if len(raw) <= MAX_ELEMENTS_BYTES else None
    except (OSError, ValueError) as error:
        raise SlurmError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, list):
        raise SlurmError(f"{path} holds no list of elements")
    return found


def own_element(path: Path) -> Any:
    """What this process is to do, as an element of an array: the entry at SLURM_ARRAY_TASK_ID. Raises SlurmError."""
    number, found = os.environ.get("SLURM_ARRAY_TASK_ID", ""), read_elements(path)
    if not number.isdecimal() or int(number) >= len(found):
        raise SlurmError(f"{path} has {len(found)} elements, and SLURM_ARRAY_TASK_ID is {number or 'not set'}")
    return found[int(number)]
