#!/bin/sh
# What an image holds of Python: sh install.sh SOURCE VENV LOCK
#   SOURCE  folder of the repository
#   VENV    environment to make; it has to stay where it was made
#   LOCK    file of supply/ with the versions and hashes of all packages
# docker/Dockerfile runs it; so does a test, into an empty folder. PYTHON names another interpreter than python3.
set -eu

if [ $# -ne 3 ]; then
  echo "usage: sh install.sh SOURCE VENV LOCK" >&2
  exit 2
fi
source=$1 venv=$2 lock=$3
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
"$venv/bin/pip" install --quiet --no-cache-dir --no-deps --require-hashes --requirement "$source/supply/$lock"
"$venv/bin/pip" install --quiet --no-cache-dir --no-deps "$wheels"/sciagent-*.whl
"$venv/bin/pip" check
"$venv/bin/sciagent" --version
