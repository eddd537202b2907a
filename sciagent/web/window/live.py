"""Tells open pages that something has changed. One reader a server asks the ledger once a second, whoever looks on.

It streams ticks, not events: a page fetches itself again, so that nothing can be missed, and no stream holds a
connection to the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import StreamingResponse

from sciagent.domain.people import Right
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.web.rules import Pages, RouteRule

LOOK_SECONDS = 1.0
BEAT_SECONDS = 15.0  # after which a stream sends a comment, so that a proxy leaves it open
pages = Pages()


class Ticker:
    """A number that grows when the ledger has changed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.tick = 0
        self._seen: tuple[object, ...] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def has_stopped(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            with contextlib.suppress(sa.exc.SQLAlchemyError):  # a database that restarts; the next look finds it
                self.look()

    def look(self) -> None:
        """Reads what changes with evidence, acts of people, decisions, and states of campaigns."""
        newest = [sa.select(sa.func.max(table.c.id)).scalar_subquery() for table in (t.event, t.decision, t.attempt)]
        changed = sa.select(sa.func.max(t.campaign.c.updated_at)).scalar_subquery()
        with self._ledger.read() as connection:
            counters = connection.execute(sa.select(t.watermark.c.value).order_by(t.watermark.c.id)).scalars().all()
            seen = (*counters, *connection.execute(sa.select(*newest, changed)).one())
        if seen != self._seen:
            self._seen = seen
            self.tick += 1


@pages.get("/live", RouteRule(Right.READ))
async def live(request: Request) -> StreamingResponse:
    """Streams the tick as server-sent events."""
    ticker: Ticker = request.app.state.site.ticker

    async def ticks() -> AsyncIterator[str]:
        sent, silent = -1, 0.0
        while not ticker.has_stopped:
            if ticker.tick != sent:
                sent, silent = ticker.tick, 0.0
                yield f"data: {sent}\n\n"
            elif silent >= BEAT_SECONDS:
                silent = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(LOOK_SECONDS / 4)
            silent += LOOK_SECONDS / 4

    return StreamingResponse(ticks(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
