"""Runs a program, and hands on its standard output as long as no line is too long, and the start of its errors.

Standard library only.

    python -I line_limit.py BYTES COMMAND...

The MCP SDK holds a line of any length, so a server that writes without line breaks would fill the memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

ERROR_BYTES = 65536
"""How much of the program's standard error is handed on; the rest is read and dropped."""


def hand_on_errors(descriptor: int) -> None:
    left = ERROR_BYTES
    while text := os.read(descriptor, 8192):
        sys.stderr.buffer.write(text[:left])
        sys.stderr.buffer.flush()
        left = max(0, left - len(text))


def main(limit: int, command: list[str]) -> int:
    """Returns the program's exit code, or 1 after a line with more than `limit` bytes."""
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
    errors.join(1)  # a process that the program has left behind may hold it open
    return program.wait()


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
    except OSError as error:
        sys.exit(str(error))
