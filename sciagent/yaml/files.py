"""Names of files in a YAML document, relative to its folder. They are checked while the document is validated."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from sciagent.inputs.validation import fault


def file_hash(path: Path) -> str:
    """Returns the SHA-256 hash of a file, or of the names and hashes of the files in a folder. Raises OSError."""
    if path.is_dir():
        lines = [f"{file_hash(each)}  {each.name}\n" for each in sorted(path.iterdir()) if each.is_file()]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_file(value: str, info: ValidationInfo) -> str:
    """Returns the name of a file. Raises a fault for an unreadable file if the folder of the document is known."""
    return check_path(value, info, folders=False)


def check_path(value: str, info: ValidationInfo, folders: bool) -> str:
    """Returns the name of a file, or of a folder of files if `folders`. Raises a fault as `check_file`."""
    context = info.context or {}
    if context.get("base") is None or not context.get("candidates", True):
        return value
    try:
        path = Path(context["base"]) / value
        if folders and path.is_dir():
            return value
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise fault(f'"{value}" {what}', "relative paths start at the folder of the campaign file")
        path.open("rb").close()
    except OSError as error:
        raise fault(f'"{value}" cannot be read: {error.strerror or error}') from None
    return value


AnyFile = Annotated[str, AfterValidator(check_file)]
"""The name of a file, relative to the campaign file."""
