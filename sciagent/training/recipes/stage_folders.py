"""The folder of a recipe's run: a folder for each stage, with what was asked and, once it is done, its answer.

Ends a run of a recipe from another thread, whatever it does at the moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from filelock import FileLock, Timeout

from sciagent.domain.evidence import content_hash
from sciagent.errors import UsageError
from sciagent.training.learner.run_state import replace
from sciagent.training.train_answers import StageAnswer

RECIPE = "recipe.json"
STAGE = "stage.json"
LOCK = ".lock"


class StageFolder:
    """The folder of a stage. A stage is done once its answer is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def answer(self, asked: Mapping[str, Any]) -> StageAnswer | None:
        """Returns the answer of the stage if it is done. asked: all that decides what comes out.

        Raises UsageError if another stage was done or begun here.
        """
        known = self.path / STAGE
        if not known.is_file():
            self.path.mkdir(exist_ok=True)
            self._write({"asked": asked})
            return None
        held = json.loads(known.read_text(encoding="utf-8"))
        if content_hash(held["asked"]) != content_hash(asked):
            raise UsageError(
                f"{self.path} holds another stage than the recipe now has; remove this folder and the later ones, or "
                "name another folder with --out"
            )
        return StageAnswer.model_validate(held["answer"]) if "answer" in held else None

    def note(self, name: str, make: Any) -> Any:
        """Returns a value of JSON that is made once, and is the same after a restart. make: makes it."""
        path = self.path / f"{name}.json"
        if not path.is_file():
            replace(path, json.dumps(make()).encode())
        return json.loads(path.read_text(encoding="utf-8"))

    def finish(self, asked: Mapping[str, Any], answer: StageAnswer) -> None:
        self._write({"asked": asked, "answer": answer.model_dump(mode="json")})

    def _write(self, content: Mapping[str, Any]) -> None:
        replace(self.path / STAGE, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")


@contextmanager
def opened(out: Path, recipe: str) -> Iterator[None]:
    """Makes the folder of a run, and holds it against other processes. recipe: its name.

    Raises UsageError for a folder with other files, for one of another recipe, or if another process holds it.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; name a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    known = out / RECIPE
    if not known.is_file() and any(path.name != LOCK for path in out.iterdir()):
        raise UsageError(f"{out} has files and is no run of a recipe; name another folder with --out")
    try:
        with FileLock(out / LOCK, timeout=0):
            if not known.is_file():
                replace(known, json.dumps({"recipe": recipe}).encode() + b"\n")
            elif (other := json.loads(known.read_text(encoding="utf-8"))["recipe"]) != recipe:
                raise UsageError(f"{out} holds a run of the recipe {other}; name another folder with --out")
            yield
    except Timeout:
        raise UsageError(f"another process works on {out}; wait until it has ended") from None


class Stopping:
    """Knows whether the run has to end, and how to end what it does."""

    def __init__(self) -> None:
        self.event = Event()
        self._end: Callable[[], object] | None = None

    def stop(self) -> None:
        """Ends the run as soon as nothing is lost. May be called from any thread."""
        self.event.set()
        if self._end is not None:
            self._end()

    @property
    def is_set(self) -> bool:
        return self.event.is_set()

    @contextmanager
    def during(self, end: Callable[[], object]) -> Iterator[None]:
        """Holds the function that ends what is done in the `with` block."""
        self._end = end
        try:
            if self.is_set:
                end()
            yield
        finally:
            self._end = None


class Interrupted(Exception):
    """The run has to end; what is done so far is kept."""
