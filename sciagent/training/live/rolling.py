"""Starts what samples the answers and rolls out the groups: in this process, by a server, in actors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event

from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.live import tasks as live_tasks
from sciagent.training.live.engines import Engine, InProcessEngine
from sciagent.training.live.settings import LiveWish
from sciagent.training.live.waves import LocalWaves, Waves


@contextmanager
def started(
    wish: LiveWish,
    ledger: Ledger,
    spec: RewardSpec,
    context: int,
    run: str,
    engine: Engine | None,
    stopping: Event | None,
) -> Iterator[tuple[Engine, Waves]]:
    """Yields the engine and what rolls out the groups. At the end the ladder decides about all candidates.

    engine: None for the one that the wish names. The other parameters are those of `LocalWaves`.
    """
    if not wish.actors:
        with closing(engine or _engine_of(wish)) as own, live_tasks.driven(wish, ledger) as tasks:
            yield own, LocalWaves(wish, ledger, tasks, spec, context, run, stopping)
        return
    from sciagent.training.live.actors import RolloutActors, SentEngine

    served = engine or (_engine_of(wish) if wish.endpoint else None)
    with closing(RolloutActors(wish, ledger, spec, context, run, stopping)) as actors:
        with closing(SentEngine(served, actors)) as sent:
            yield sent, actors
        actors.finish()


def _engine_of(wish: LiveWish) -> Engine:
    if wish.endpoint is None:
        return InProcessEngine(is_beside=wish.ahead > 0)
    from sciagent.training.live.served import ServedEngine

    return ServedEngine(wish.endpoint, wish.name, wish.out / "adapters", versions=wish.lag + 1)
