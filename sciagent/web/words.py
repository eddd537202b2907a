"""The words of pages for names that campaign files and commands spell with underscores."""

from __future__ import annotations

import re

from sciagent.domain.properties import properties


def in_words(text: str) -> str:
    """Returns a text with spaces in the names of properties, as forms and pages write them."""
    names = "|".join(re.escape(name) for name in sorted(properties()) if "_" in name)
    return re.sub(rf"\b(?:{names})\b", lambda name: name[0].replace("_", " "), text)
