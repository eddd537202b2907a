"""Names of files in a YAML document, relative to its folder. They are checked while the document is validated."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from sciagent.yaml.validation import fault

FORMATS = (".csv", ".smi", ".sdf")


def file_hash(path: Path) -> str:
    """Returns the SHA-256 hash of a file. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_file(value: str, info: ValidationInfo) -> str:
    """Returns the name of a file. Raises a fault for an unreadable file if the folder of the document is known."""
    context = info.context or {}
    if context.get("base") is None or not context.get("candidates", True):
        return value
    try:
        path = Path(context["base"]) / value
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise fault(f'"{value}" {what}', "relative paths start at the folder of the campaign file")
        path.open("rb").close()
    except OSError as error:
        raise fault(f'"{value}" cannot be read: {error.strerror or error}') from None
    return value


def check_table(value: str, info: ValidationInfo) -> str:
    """Returns the name of a table of molecules. Raises a fault for an unknown format, or as `check_file`."""
    name = value.lower().removesuffix(".gz")
    if not name.endswith(FORMATS):
        raise fault(f'"{value}" is no table of molecules', f"takes: {', '.join(FORMATS)}, each also with .gz")
    return check_file(value, info)


AnyFile = Annotated[str, AfterValidator(check_file)]
"""The name of a file, relative to the campaign file."""
TableFile = Annotated[str, AfterValidator(check_table)]
"""The name of a table of molecules, relative to the campaign file."""
