# Shared by the shell scripts beside it; sourced, never run.
# shellcheck shell=bash

say() { printf '==> %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
	printf 'error: %s\n' "$1" >&2
	shift
	[ $# -eq 0 ] || printf '       %s\n' "$@" >&2
	exit 1
}

# What this release needs; pyproject.toml's requires-python says the same.
readonly PYTHON_MAJOR=3 PYTHON_MINOR=11

python_is_new_enough() {
	"$1" -c "import sys; sys.exit(sys.version_info < ($PYTHON_MAJOR, $PYTHON_MINOR))" 2>/dev/null
}

# find_python NAMED [CANDIDATE...]: prints the interpreter that was named, or, with an empty name, the
# first that runs and is new enough. From 3.12 on the processes share more of their memory, so those
# come before the system's own; 3.14 comes last, because it was not tried.
find_python() {
	local named=$1 candidate
	shift
	local -a candidates=("$@" python3.13 python3.12 python3 python3.11 python3.14)
	[ -z "$named" ] || candidates=("$named")
	for candidate in "${candidates[@]}"; do
		if command -v "$candidate" >/dev/null && python_is_new_enough "$candidate"; then
			command -v "$candidate"
			return
		fi
	done
	die "no Python $PYTHON_MAJOR.$PYTHON_MINOR or newer found (looked at: ${candidates[*]})" \
		"On Debian 12 or newer: apt-get install python3 python3-venv" \
		"Or name one: make setup PYTHON=/path/to/python3"
}

# run_logged LOG COMMAND...: quiet when it works, the end of its output when it does not.
run_logged() {
	local log=$1 status=0
	shift
	printf '$ %s\n' "$*" >>"$log"
	"$@" >>"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 0 ]; then
		tail -n 25 "$log" >&2
		die "'$(basename "$1") ${*:2:3} ...' failed with status $status; all of its output is in $log"
	fi
}

# ensure_venv_module PYTHON LOG: Debian ships the module that makes virtualenvs apart from Python.
ensure_venv_module() {
	local python=$1 log=$2 version package
	"$python" -c 'import ensurepip, venv' 2>/dev/null && return
	version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	package="python$version-venv"
	[ "$(readlink -f "$(command -v "$python")")" != "$(readlink -f /usr/bin/python3)" ] || package=python3-venv
	if ! command -v apt-get >/dev/null; then
		die "$python cannot make virtualenvs (no ensurepip)" "Install your system's $package, then try again."
	elif [ "$(id -u)" -ne 0 ]; then
		die "$python cannot make virtualenvs (no ensurepip)" "Run as root: apt-get install $package" "Then try again."
	fi
	say "Installing the system package $package (about half a minute)"
	export DEBIAN_FRONTEND=noninteractive
	run_logged "$log" apt-get update -q
	run_logged "$log" apt-get install -q -y --no-install-recommends "$package"
	"$python" -c 'import ensurepip, venv' 2>/dev/null ||
		die "$python still cannot make virtualenvs after installing $package" "Name another one: make setup PYTHON=/usr/bin/python3"
}
