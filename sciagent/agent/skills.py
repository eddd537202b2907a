"""Skills of a proposing model: texts that stand in its prompt, read from files when the campaign is read."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from sciagent.inputs.names_outside_the_file import Outside
from sciagent.inputs.yaml_validation import fault

MOST = 8000  # characters of a skill
MAX_BYTES = 4 * MOST  # a character has at most 4 bytes in UTF-8
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$"


class Skill(BaseModel):
    """A text that tells a model how to proceed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=_NAME, description="Name of the file, without its ending.")
    text: str = Field(min_length=1, max_length=MOST, description="What the model is told.")

    @property
    def label(self) -> str:
        """The name with the first digits of the text's hash, as it is stored in data sets."""
        text_hash = hashlib.sha256(self.text.encode()).hexdigest()
        return f"{self.name}@{text_hash[:8]}"

    @property
    def prompt_text(self) -> str:
        """The text as it stands in the prompt."""
        return f"Skill {self.name}:\n{self.text}"


def _read(value: Any, info: ValidationInfo) -> Any:
    """Returns the name and text of a skill file. A value that is no file name stays as it is. Raises a fault for a file
    that is not a skill. value: the file's name, or a skill that was read before."""
    base = (info.context or {}).get("base")
    if not isinstance(value, str) or base is None:
        return value
    path = Path(base) / value
    if not re.match(_NAME, path.stem):
        raise fault(f'"{value}" is no name of a skill', "takes letters, digits, and - _ . between them")
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise fault(f'"{value}" cannot be read: {reason}') from None
    if not 1 <= len(text) <= MOST:
        raise fault(f'"{value}" has {len(text)} characters', f"takes 1 to {MOST}")
    return {"name": path.stem, "text": text}


SkillFile = Annotated[Skill, BeforeValidator(_read, json_schema_input_type=str), Outside.FILE]
"""A file with a skill, relative to the campaign file; its text is copied into the campaign."""


def labels(settings: Any) -> str | None:
    """Returns the labels of the skills in the settings of an episode; None without skills."""
    skill_labels = [Skill.model_validate(skill).label for skill in settings.get("skills") or ()]
    return ", ".join(skill_labels) or None
