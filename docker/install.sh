#!/bin/sh
# What an image holds of Python: sh install.sh SOURCE VENV [EXTRAS]
#   SOURCE  folder of the repository
#   VENV    environment to make; it has to stay where it was made
#   EXTRAS  of pyproject.toml, with commas
# docker/Dockerfile runs it; so does a test, into an empty folder. PYTHON names another interpreter than python3.
# Where SOURCE has docker/constraints.txt (the `installed.txt` of an earlier image), the same versions are installed.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: sh install.sh SOURCE VENV [EXTRAS]" >&2
  exit 2
fi
source=$1 venv=$2 extras=${3:-}
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# Debian keeps ensurepip in a package of its own; without it the pip that is there fills the environment
"$python" -m venv "$venv" 2> /dev/null || {
  "$python" -m venv --clear --without-pip "$venv"
  "$python" -m pip --python "$venv/bin/python" install --quiet pip
}
"$venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$wheels" "$source"
set -- "$wheels"/sciagent-*.whl
wheel=$1
if [ -f "$source/docker/constraints.txt" ]; then
  set -- --constraint "$source/docker/constraints.txt"
else
  set --
fi
"$venv/bin/pip" install --quiet --no-cache-dir "$@" "$wheel${extras:+[$extras]}"
"$venv/bin/pip" check
"$venv/bin/pip" freeze --exclude sciagent > "$venv/installed.txt"
"$venv/bin/sciagent" --version
