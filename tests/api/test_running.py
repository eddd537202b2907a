"""One run of a campaign in this process: how it is stopped, and that nothing is lost by it."""

from __future__ import annotations

import os
import signal
import threading
import time

from sciagent import Campaign


def test_a_run_in_another_thread_is_stopped_and_goes_on_later(toys: Campaign) -> None:
    runner = threading.Thread(target=toys.run, kwargs={"progress": False})
    runner.start()
    while toys.state == "created":
        time.sleep(0.02)
    toys.stop(now=True)
    runner.join(30)
    assert toys.state in ("interrupted", "finished")
    assert toys.run(progress=False).state == "finished"


def test_an_interrupt_ends_a_run_cleanly(toys: Campaign) -> None:
    def interrupt() -> None:
        while toys.state == "created":
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt).start()
    assert toys.run(progress=False).state == "interrupted"
    assert signal.getsignal(signal.SIGINT) is handler
    assert toys.run(progress=False).state == "finished"
