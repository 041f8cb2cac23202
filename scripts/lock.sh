#!/usr/bin/env bash
# Writes constraints.txt: one exact version of every package that pyproject.toml's ranges lead to,
# those of the dependencies and of the build tools included, found by a real installation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

log=.cache/lock.log
mkdir -p .cache
: >$log
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(find_python "${PYTHON:-}")
ensure_venv_module "$python" $log

say "Resolving the ranges of pyproject.toml in a temporary virtualenv (about a minute)"
run_logged $log "$python" -m venv "$work/venv"
"$python" - >"$work/ranges.txt" <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    document = tomllib.load(file)
ranges = [*document["build-system"]["requires"], *document["project"]["dependencies"]]
for group in document["project"].get("optional-dependencies", {}).values():
    ranges += group
print("pip", *ranges, sep="\n")
PYTHON
pip() { "$work/venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }
run_logged $log pip install --upgrade pip setuptools
run_logged $log pip install --upgrade --upgrade-strategy eager --no-build-isolation --requirement "$work/ranges.txt"
{
	echo "# Every package at one version, those that others need included. Written by 'make lock' from the"
	echo "# ranges in pyproject.toml: change the ranges, not this file."
	pip freeze --all | LC_ALL=C sort --ignore-case
} >"$work/constraints.txt"
chmod 0644 "$work/constraints.txt"
mv "$work/constraints.txt" constraints.txt
say "constraints.txt holds $(grep -c '==' constraints.txt) packages; 'make setup' installs them"
