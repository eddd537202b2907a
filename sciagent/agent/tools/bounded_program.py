"""Runs a program and limits its output: the length of each line, and the size of its standard error.

Uses the standard library only.

    python -I bounded_program.py BYTES COMMAND...

The MCP SDK stores lines of any length, so a server that writes no line breaks would fill the memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

ERROR_BYTES = 65536
"""Bytes of the program's standard error that are passed on; the rest is read and dropped."""


def hand_on_errors(descriptor: int) -> None:
    left = ERROR_BYTES
    while text := os.read(descriptor, 8192):
        sys.stderr.buffer.write(text[:left])
        sys.stderr.buffer.flush()
        left = max(0, left - len(text))


def main(limit: int, command: list[str]) -> int:
    """Runs the program and returns its exit code, or 1 after a line longer than `limit` bytes."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout and program.stderr
    errors = threading.Thread(target=hand_on_errors, args=[program.stderr.fileno()], daemon=True)
    errors.start()
    while line := program.stdout.readline(limit + 1):
        if len(line) > limit:
            program.kill()
            sys.stderr.write(f"it sent more than a message may have ({limit} bytes)\n")
            return 1
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    errors.join(1)  # a process that outlives the program may keep the pipe open
    return program.wait()


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
    except OSError as error:
        sys.exit(str(error))
