"""Runs a program, and hands on its standard output as long as no line is too long. Standard library only.

    python -I line_limit.py BYTES COMMAND...

The MCP SDK holds a line of any length, so a server that writes without line breaks would fill the memory.
"""

from __future__ import annotations

import subprocess
import sys


def main(limit: int, command: list[str]) -> int:
    """Returns the program's exit code, or 1 after a line with more than `limit` bytes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout
        while line := program.stdout.readline(limit + 1):
            if len(line) > limit:
                program.kill()
                sys.stderr.write(f"it sent more than a message may have ({limit} bytes)\n")
                return 1
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return program.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
    except OSError as error:
        sys.exit(str(error))
