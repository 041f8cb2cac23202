#!/usr/bin/env bash
# Makes .venv ready for work: exactly the packages of constraints.txt and an editable install of this
# checkout. Cheap when nothing changed. A run that was cut off leaves a mark, and the next one starts
# over: pip takes a half-unpacked package for an installed one, and a half-written wheel for a whole.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

venv=.venv cache=.cache wheels=.cache/wheels log=.cache/setup.log
stamp=$venv/.setup-done mark=$venv/.setup-unfinished fetched=$wheels/.fetched

# What the virtualenv was made from: the files by content (git changes their times) and the place,
# which is written into the scripts of a virtualenv.
fingerprint() {
	pwd -P
	sha256sum pyproject.toml constraints.txt scripts/setup.sh scripts/lib.sh
}

is_ready() {
	[ -x $venv/bin/python ] && [ -x $venv/bin/kubelet ] && [ -x $venv/bin/kubeletctl ] &&
		[ -f $stamp ] && [ "$(<$stamp)" = "$(fingerprint)" ]
}

make_venv() {
	local python
	if [ -e $mark ]; then
		say "The last setup was cut off: making $venv anew"
		[ -e $fetched ] || rm -rf $wheels
		rm -rf $venv
	elif [ -e $venv ] && ! { python_is_new_enough $venv/bin/python && $venv/bin/python -m pip --version >/dev/null 2>&1; }; then
		say "$venv does not work (any more): making it anew"
		rm -rf $venv
	fi
	if [ ! -e $venv ]; then
		python=$(find_python "${PYTHON:-}" python3)
		ensure_venv_module "$python" $log
		say "Making $venv with $python ($("$python" -V))"
		# The mark comes first, so that no instant is without one or the other.
		mkdir $venv && : >$mark
		run_logged $log "$python" -m venv $venv
	fi
	: >$mark
	rm -f $stamp
}

pip() { run_logged $log $venv/bin/python -m pip --quiet --disable-pip-version-check --no-input "$@"; }

# What the wheels were fetched for.
wheels_key() {
	$venv/bin/python -c 'import sys, sysconfig; print(sys.version_info[:2], sysconfig.get_platform())'
	sha256sum constraints.txt
}

# The tools that build come first, at their pins, and build in place of an isolated environment whose
# contents nobody pinned.
fetch_wheels() {
	if [ -f $fetched ] && [ "$(<$fetched)" = "$(wheels_key)" ]; then
		pip install --no-index --find-links $wheels --constraint constraints.txt pip setuptools
		return
	fi
	rm -f $fetched
	say "Fetching $1 packages into $wheels (about half a minute)"
	pip install --constraint constraints.txt pip setuptools
	pip wheel --no-build-isolation --no-deps --find-links $wheels --wheel-dir $wheels --requirement constraints.txt
	wheels_key >$fetched
}

install_packages() {
	local count
	count=$(grep -c '==' constraints.txt)
	fetch_wheels "$count"
	say "Installing $count packages into $venv (about 20 seconds)"
	pip install --no-index --find-links $wheels --no-deps --requirement constraints.txt
	pip install --no-index --no-build-isolation --no-deps --editable .
	pip check
}

mkdir -p $cache
exec 9>$cache/setup.lock
flock --nonblock 9 || { say "Another setup is at work here: waiting for it" && flock 9; }
is_ready && exit 0

start=$SECONDS
: >$log
make_venv
install_packages
fingerprint >$stamp.new
mv $stamp.new $stamp
rm $mark
say "Ready in $((SECONDS - start)) s: $venv/bin/kubelet and $venv/bin/kubeletctl"
