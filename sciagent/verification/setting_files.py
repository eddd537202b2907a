"""Files in the settings of verifiers: named by a path, identified by content.

In YAML a file is a path, or a mapping with `path` and an optional `sha256` to compare with. Relative paths start at the
folder of the campaign file. Hashes and ledgers contain the file's name and the SHA-256 of its content, but neither
folder nor date: a moved or copied file is the same, an edited file is another. The absolute path is sent to the process
that opens the file (`Verifier.request_settings`), and that process checks the content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.inputs.names_outside_the_file import Outside

WITH_PATHS = {"paths": True}  # serialisation context that includes paths
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileByContent(BaseModel):
    """A file or folder that is known by its content: the path enters no hash. path: absolute, or as given where no
    folder is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Outside.FILE] = Field(min_length=1, description="Relative to the campaign file.")

    @model_serializer(mode="wrap")
    def _without_path(self, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> Mapping[str, Any]:
        whole: dict[str, Any] = write(self)
        with_path = (info.context or {}).get("paths")
        if not with_path:
            whole.pop("path", None)
        return whole


class ReferenceFile(FileByContent):
    """A file by content. path: absolute, or as given where no folder is known. name: as people call it."""

    name: str = Field("", max_length=200, description="What results call it; default: the file's name.")
    sha256: str = Field("", description="SHA-256 of the content; refused if the file has another one.")

    @model_validator(mode="before")
    @classmethod
    def _identified(cls, data: Any, info: ValidationInfo) -> Any:
        given = {"path": data} if isinstance(data, str) else data
        if not isinstance(given, Mapping) or not isinstance(given.get("path"), str) or not given["path"]:
            return given
        base = (info.context or {}).get("base")
        wanted = _wanted_hash(given)
        named = {**given, "name": given.get("name") or Path(given["path"]).name}
        if wanted and base is None:  # already hashed; `check` hashes it again before it is opened
            return named
        folder = Path.cwd() if base is None else Path(base)
        path = folder / given["path"]
        digest = content_of(path, given["path"])
        if wanted and wanted != digest:
            raise ValueError(f'"{given["path"]}" has the SHA-256 {digest}, not {wanted}')
        return {**named, "path": str(path.resolve()), "sha256": digest}

    def changed(self) -> SimulatorError:
        """Returns the error for a file that is missing or has changed since it was hashed."""
        detail = f"{self.name} is gone or is not what it was when the campaign was read (SHA-256 {self.sha256[:12]}…)"
        return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail)

    def check(self) -> Path:
        """Returns the path after hashing the content again. Raises SimulatorError if the content has changed."""
        path = Path(self.path)
        try:
            digest = content_of(path, self.path)
        except ValueError as error:
            raise self.changed() from error
        if digest != self.sha256:
            raise self.changed()
        return path


class StructureFile(ReferenceFile):
    """A table of molecules: csv, smi or sdf, also .gz."""

    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")

    @model_validator(mode="after")
    def _known_format(self) -> StructureFile:
        ending = self.path.lower().removesuffix(".gz")
        if not ending.endswith((".csv", ".smi", ".smiles", ".txt", ".sdf")):
            raise ValueError(f'"{self.name}" is no table of molecules; use .csv, .smi or .sdf, each also with .gz')
        return self


def _wanted_hash(given: Mapping[str, Any]) -> str:
    """Returns the SHA-256 that the file must have; empty if any will do. Raises ValueError for an invalid hash."""
    wanted = given.get("sha256") or ""
    if wanted and not (isinstance(wanted, str) and _SHA256.fullmatch(wanted)):
        raise ValueError("sha256 is 64 hexadecimal digits, in small letters")
    return str(wanted)


def content_of(path: Path, shown: str) -> str:
    """Returns the SHA-256 of a regular file. Raises ValueError, with the name `shown`, if it cannot be read."""
    try:
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise ValueError(f'"{shown}" {what}; relative paths start at the folder of the campaign file')
        stat = path.stat()
        return _hashed(str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    except OSError as error:
        raise ValueError(f'"{shown}" cannot be read: {os.strerror(error.errno or 0)}') from None


@lru_cache(maxsize=256)
def _hashed(path: str, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> str:
    """Returns the SHA-256, cached until size, times or inode change, since settings are validated many times."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
