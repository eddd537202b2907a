"""Runs a program and limits its output: BYTES for each line, and ERROR_BYTES for its standard error.

This file is run as a script, and uses the standard library only.

    python -I bound_mcp_server_output.py BYTES COMMAND...

The MCP SDK stores lines of any length, so a server that writes no line breaks would fill the memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

ERROR_BYTES = 65536
"""Bytes of the program's standard error that are passed on; the rest is read and dropped."""
READ_BYTES = 8192
"""Largest number of bytes that are read at a time."""
JOIN_SECONDS = 1.0
"""Longest wait for the rest of the standard error when the program has ended."""


def hand_on_errors(descriptor: int) -> None:
    """Copies the program's standard error, up to ERROR_BYTES."""
    bytes_left = ERROR_BYTES
    while text := os.read(descriptor, READ_BYTES):
        sys.stderr.buffer.write(text[:bytes_left])
        sys.stderr.buffer.flush()
        bytes_left = max(0, bytes_left - len(text))


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
    errors.join(JOIN_SECONDS)  # a process that outlives the program may keep the pipe open
    return program.wait()


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
    except OSError as error:
        sys.exit(str(error))
