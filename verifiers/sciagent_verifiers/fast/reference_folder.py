"""A folder in the cache that is made once from a reference file.

A folder is complete or absent: it is built under a lock and another name, then renamed. Its name is the hash of what it
is made of, such as the file's content and the versions of libraries.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from sciagent.domain.evidence import content_hash
from sciagent.errors import InputFileError
from sciagent.inputs.settings import cache_folder
from sciagent.verification.contract import Outcome, Reason, ReferenceFile, SimulatorError

LOCK_SECONDS = 3600.0
log = logging.getLogger(__name__)


class ReferenceFolder(ABC):
    """The folder of a reference file. made_of: all that its content depends on."""

    counted: ClassVar[str]
    """The things that `about` counts, such as `molecules`."""

    def __init__(self, file: ReferenceFile, made_of: Mapping[str, Any]) -> None:
        self.file = file
        self.folder = cache_folder() / "references" / content_hash(made_of)[:32]

    @abstractmethod
    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        """Writes the content of the folder from the file. Returns the counts of `counted` and of `unreadable` records.
        Raises InputFileError."""

    @abstractmethod
    def attach(self) -> None:
        """Loads what queries need, if it is on disk, so that forked processes share it."""

    @property
    def is_built(self) -> bool:
        return (self.folder / "about.json").is_file()

    def build(self) -> None:
        """Writes the index if it is missing. Concurrent builders wait for the first.

        Raises SimulatorError bad_environment (reference_file) if the file is gone, changed, or holds no candidate.
        """
        if self.is_built:
            return
        from filelock import FileLock, Timeout

        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self.folder}.lock", timeout=LOCK_SECONDS):
                if not self.is_built:
                    self._build()
        except Timeout as error:
            detail = f"somebody has been indexing {self.file.name} for more than an hour; see {self.folder}.lock"
            raise _unusable(detail) from error
        except OSError as error:
            detail = f"the index of {self.file.name} cannot be written to {self.folder.parent}: {error.strerror}"
            raise _unusable(detail) from error

    def _build(self) -> None:
        path = self.file.check()
        log.info("indexing %s, once", self.file.name)
        for left in self.folder.parent.glob(f"{self.folder.name}.*.partial"):  # left by a killed process
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}.", suffix=".partial", dir=self.folder.parent))
        try:
            about = self._write(path, partial)
            if not about[self.counted]:
                noun = self.counted.removesuffix("s")
                detail = f"{self.file.name} holds no {noun} that can be read ({about['unreadable']} records)"
                raise _unusable(detail)
            (partial / "about.json").write_text(json.dumps(about))
            shutil.rmtree(self.folder, ignore_errors=True)  # left by an earlier format or a crash
            partial.rename(self.folder)
        except InputFileError as error:
            raise _unusable(str(error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @cached_property
    def about(self) -> Mapping[str, int]:
        """The counts of `counted` in the index and of `unreadable` records. Builds a missing index first."""
        self.build()
        return dict[str, int](json.loads((self.folder / "about.json").read_text()))


def _unusable(detail: str) -> SimulatorError:
    return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail)
