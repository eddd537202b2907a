"""Reads the arguments of a model's call strictly, as bounded JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sciagent.errors import SciagentError

MAX_CHARACTERS = 20_000
MAX_COMPLAINTS = 6  # complaints about the arguments of one call


class CallError(SciagentError):
    """A call cannot be carried out. The message says how to call correctly."""


def read_arguments(text: object) -> Mapping[str, Any]:
    """Returns the JSON object in the text; an empty text is an empty object.

    Raises CallError if the text is too long, too deeply nested or not a JSON object, or has repeated keys, NaN,
    infinite or overlong numbers, or lone surrogates, which no database can store.
    """
    if not isinstance(text, str):
        raise CallError(f"the arguments are a JSON text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise CallError(f"the arguments have {len(text)} characters; the limit is {MAX_CHARACTERS}")
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text, object_pairs_hook=_object)
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CallError(f"the arguments are not JSON: {error.msg} at {where}; write one JSON object alone") from error
    except RecursionError as error:
        raise CallError("the arguments are nested too deeply; a flat object is enough") from error
    except UnicodeEncodeError as error:
        message = "the arguments hold half of a UTF-16 surrogate pair, which is no character; leave it out"
        raise CallError(message) from error
    except ValueError as error:
        raise CallError(f"the arguments hold a number that cannot be used: {error}") from error
    if not isinstance(arguments, dict):
        raise CallError("the arguments are one JSON object with named entries, and nothing else")
    return arguments


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise CallError("an argument is given twice; give every argument once")
    return entries
