"""`sciagent top`: what goes on, live in the terminal."""

from __future__ import annotations

import contextlib
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from sciagent.cli.cluster.screen import frame
from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json
from sciagent.errors import LedgerAwayError

if TYPE_CHECKING:
    from sciagent.report.live.watching import Frame, Sparing
    from sciagent.store.database.ledger import Ledger


def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.2, max=3600, help="Seconds between looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print a single look, and end.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Campaigns that run, queues, workers and what each runs, and what failed last; `q` or Ctrl-C ends it.

    Reads only; nothing is disturbed. Totals of large campaigns are counted less often, so that looking costs little.
    """
    from sciagent.report.live.watching import Sparing

    opened, sparing, console = open_ledger(ledger), Sparing(), Console()
    if once or json:
        snapshot = _look(opened, sparing)
        put_json(snapshot) if json else console.print(frame(snapshot, console.width, None))
        return
    import sqlalchemy as sa
    from rich.live import Live

    with _keys() as quits, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            begun = time.monotonic()
            try:
                live.update(frame(_look(opened, sparing), console.width, console.height), refresh=True)
            except (sa.exc.SQLAlchemyError, LedgerAwayError) as error:  # it may come back
                why = str(getattr(error, "orig", None) or error).strip()[:300]
                live.update(Text(f"the ledger does not answer: {why}", style="bold red"), refresh=True)
            if quits(max(0.05, interval - (time.monotonic() - begun))):
                return


def _look(opened: Ledger, sparing: Sparing) -> Frame:
    from sciagent.report.live.watching import look

    with opened.read() as connection:
        return look(connection, sparing)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds and says whether `q` was typed meanwhile."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError, termios.error):  # no terminal: only a signal ends it
        yield lambda seconds: threading.Event().wait(seconds)
        return
    try:
        tty.setcbreak(sys.stdin)
        yield _typed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _typed(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in ("q", "Q", ""):
            return True
    return False
