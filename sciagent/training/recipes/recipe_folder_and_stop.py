"""The folder of a recipe's run, and the object that stops the run.

`opened` makes the folder and holds it against other processes. A `StageFolder` in it keeps the inputs of one stage and,
once the stage is done, its answer. `Stopping` ends the run from any thread; the run then raises `Interrupted`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from filelock import FileLock, Timeout

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import UsageError
from sciagent.training.command_answers import StageAnswer
from sciagent.training.learner.run_state import replace_file

RECIPE = "recipe.json"  # file in the folder of a run, with the name of the recipe
STAGE = "stage.json"  # file in the folder of a stage, with its inputs and its answer
LOCK = ".lock"  # file that the process locks that works on the run


class StageFolder:
    """The folder of a stage. A stage is done once its answer is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def answer(self, asked: Mapping[str, Any]) -> StageAnswer | None:
        """Returns the answer of the stage if it is done; else None. Without a folder, it also makes the folder and
        writes `asked` there, so that a later run with other inputs is refused.

        asked: all inputs that decide the result of the stage. Raises UsageError if a stage with other inputs was done
        or begun here.
        """
        stage_file = self.path / STAGE
        if not stage_file.is_file():
            self.path.mkdir(exist_ok=True)
            self._write({"asked": asked})
            return None
        stored = json.loads(stage_file.read_text(encoding="utf-8"))
        if content_hash(stored["asked"]) != content_hash(asked):
            raise UsageError(
                f"{self.path} holds another stage than the recipe now has; remove this folder and the later ones, or "
                "name another folder with --out"
            )
        return StageAnswer.model_validate(stored["answer"]) if "answer" in stored else None

    def stored_once(self, name: str, make: Any) -> Any:
        """Returns a JSON value that is made and stored at the first call, and read at later calls and after a restart.

        name: of its file, without `.json`. make: makes the value.
        """
        path = self.path / f"{name}.json"
        if not path.is_file():
            replace_file(path, json.dumps(make()).encode())
        return json.loads(path.read_text(encoding="utf-8"))

    def finish(self, asked: Mapping[str, Any], answer: StageAnswer) -> None:
        """Writes the answer; the stage is then done. asked: as in `answer`."""
        self._write({"asked": asked, "answer": answer.model_dump(mode="json")})

    def _write(self, content: Mapping[str, Any]) -> None:
        replace_file(self.path / STAGE, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")


@contextmanager
def opened(out: Path, recipe: str) -> Iterator[None]:
    """Makes the folder of a run, and holds it against other processes. out: the folder. recipe: name of the recipe.

    Raises UsageError for a folder with other files, for a folder of another recipe, or if another process holds it.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; name a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    recipe_file = out / RECIPE
    if not recipe_file.is_file() and any(path.name != LOCK for path in out.iterdir()):
        raise UsageError(f"{out} has files and is no run of a recipe; name another folder with --out")
    try:
        with FileLock(out / LOCK, timeout=0):
            if not recipe_file.is_file():
                replace_file(recipe_file, json.dumps({"recipe": recipe}).encode() + b"\n")
            stored_recipe = json.loads(recipe_file.read_text(encoding="utf-8"))["recipe"]
            if stored_recipe != recipe:
                raise UsageError(f"{out} holds a run of the recipe {stored_recipe}; name another folder with --out")
            yield
    except Timeout:
        raise UsageError(f"another process works on {out}; wait until it has ended") from None


class Stopping:
    """Whether the run has to end, and the function that ends its present work."""

    def __init__(self) -> None:
        self.event = Event()
        self._end: Callable[[], object] | None = None

    def stop(self) -> None:
        """Ends the run as soon as it can end without losing finished work. May be called from any thread."""
        self.event.set()
        if self._end is not None:
            self._end()

    @property
    def is_set(self) -> bool:
        return self.event.is_set()

    @contextmanager
    def during(self, end: Callable[[], object]) -> Iterator[None]:
        """Lets `stop` call a function while the `with` block runs; calls it at once if the run has to end already.

        end: ends the work of the block.
        """
        self._end = end
        try:
            if self.is_set:
                end()
            yield
        finally:
            self._end = None


class Interrupted(Exception):
    """Raised when the run has to end; the work so far is kept."""
