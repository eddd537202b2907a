"""Logging of long-running commands: text on a terminal, JSON elsewhere, both with the fields of the event."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer


class LogFormat(StrEnum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="auto: text on a terminal, JSON lines elsewhere.")
]


def set_up(form: LogFormat = LogFormat.AUTO, level: int = logging.INFO) -> None:
    """Sends log messages to stderr. Must be called once, before the first message."""
    is_text = form is LogFormat.TEXT or (form is LogFormat.AUTO and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines() if is_text else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # alembic logs every plug-in at level INFO


def about(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of a message logged with `extra={"about": {...}}`: event, campaign, job, fence, worker, ..."""
    return dict(getattr(record, "about", None) or {})


class JsonLines(logging.Formatter):
    """Formats a message as one line of JSON: time (UTC), level, event, message, the event's fields, logger."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        of = about(record)
        first = {"time": at, "level": record.levelname.lower(), "event": of.pop("event", None)}
        line = {k: v for k, v in first.items() if v} | {"message": record.getMessage()} | of | {"logger": record.name}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Formats a message for people: local time, level unless it is info, message, the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        more = " ".join(f"{name}={value}" for name, value in about(record).items() if name != "event")
        text = f"{at} {level}{record.getMessage()}" + (f"  [{more}]" if more else "")
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")
