#!/usr/bin/env bash
# Picks the interpreter for an installation and hands over to install.py: install.sh VERB [OPTION...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# The system's own Pythons come before those on PATH: the processes without root must be able to
# read it, and one that lives in a home directory is often closed to them.
python=$(find_python "${PYTHON:-}" /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3)
mkdir -p .cache
[ "$1" != install ] || ensure_venv_module "$python" .cache/install.log
exec "$python" scripts/install.py "$@"
