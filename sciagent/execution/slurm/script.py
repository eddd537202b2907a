"""The batch script. Its text is fixed, except for the site's modules and variables, which are checked when read.

The script gets the command as arguments. Each element finds its task in a file, by the element's number.

The script does not run in a login shell: a user's profile may take long, and Slurm's warning kills a script whose traps
are not set yet. Modules need the system's profile, which is read after the traps are set.

Before the end of the wall time Slurm sends USR1 to the script. The script sends TERM to the command, waits for it and
ends with 124, whatever the command's exit code. Otherwise a job stopped at its time limit would count as COMPLETED.
"""

from __future__ import annotations

import shlex

from sciagent.execution.slurm.site import SiteProfile

WARNING_SIGNAL = "USR1"
TIMED_OUT_CODE = 124  # exit code of timeout(1)
NO_MODULE_CODE = 69  # EX_UNAVAILABLE

_HEAD = """\
#!/bin/bash
# One element of an array of sciagent: FOLDER COMMAND...
folder=$1
shift
element=$SLURM_ARRAY_TASK_ID
umask 077
export SLURM_EXPORT_ENV=ALL
warned=false stopped=false heard=yes child=

tell() { [ -z "$child" ] || kill -TERM "$child" 2> /dev/null; }
trap 'heard=yes warned=true; : > "$folder/warned.$element"; tell' USR1
trap 'heard=yes stopped=true; tell' TERM

finish() {
  printf '{"code": %d, "warned": %s, "stopped": %s}\\n' "$1" "$warned" "$stopped" > "$folder/exit.$element.part"
  mv -f "$folder/exit.$element.part" "$folder/exit.$element"
  [ "$warned" = false ] || exit TIMED_OUT_CODE
  exit "$1"
}
""".replace("TIMED_OUT_CODE", str(TIMED_OUT_CODE))

_TAIL = """
"$@" &
child=$!
[ "$warned$stopped" = falsefalse ] || tell
while [ "$heard" = yes ]; do  # a signal ends `wait` early
  heard=no
  wait "$child"
  code=$?
done
finish "$code"
"""


def render(site: SiteProfile) -> str:
    """Returns the batch script of a site."""
    profile = [". /etc/profile", "umask 077"] if site.modules else []
    modules = [f"module load {shlex.quote(name)} || finish {NO_MODULE_CODE}" for name in site.modules]
    variables = [f"export {name}={shlex.quote(value)}" for name, value in site.environment.items()]
    return _HEAD + "".join(f"{line}\n" for line in [*profile, *modules, *variables]) + _TAIL
