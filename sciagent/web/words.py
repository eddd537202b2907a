"""The words of pages for names that campaign files and commands spell with underscores."""

from __future__ import annotations

import re

from sciagent.domain.properties import properties

_NAME = re.compile(r"\w*_\w*")


def in_words(text: str) -> str:
    """Returns a text with spaces in the names of properties, as forms and pages write them."""
    known = properties()
    return _NAME.sub(lambda name: name[0].replace("_", " ") if name[0] in known else name[0], text)
