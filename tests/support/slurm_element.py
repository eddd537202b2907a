"""What an array element runs in the tests: `python slurm_element.py ELEMENTS`; an element is a verb and a word."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from sciagent.execution.slurm.array_folders_submission_and_polling import own_element


def _stop(number: int, frame: FrameType | None) -> None:
    print("told to stop", flush=True)
    sys.exit(0)  # as a good worker does: what it had is written down


def main() -> None:
    verb, word = own_element(Path(sys.argv[1]))
    print(json.dumps({"verb": verb, "environment": dict(os.environ)}), flush=True)
    if verb == "exit":
        sys.exit(int(word))
    if verb == "die":
        os.kill(os.getpid(), int(word))
    if verb == "hold":
        held = bytearray(int(word) * 1_000_000)
        time.sleep(60 + len(held) * 0)
    if verb == "work":
        signal.signal(signal.SIGTERM, _stop)
        print("at work", flush=True)
        time.sleep(float(word))
    if verb == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(float(word))


if __name__ == "__main__":
    main()
