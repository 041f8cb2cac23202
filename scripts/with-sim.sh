#!/usr/bin/env bash
# with-sim.sh PYTHON DIRECTORY COMMAND...: start the simulated runtime, then become COMMAND, which is
# told where it is. The simulator keeps its state in DIRECTORY and ends when COMMAND does.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python=$1 directory=$2
shift 2
mkdir -p "$directory"
socket=$directory/sim.sock

say "Starting the simulated runtime on $socket"
# shellcheck disable=SC2086 # SIM_ARGS holds several words
exec {ready}< <(exec "$python" -m tests.sim --socket "$socket" --state "$directory/state.json" \
	--die-with-parent ${SIM_ARGS:-} 2>>"$directory/sim.log")
if ! read -r -t 30 _ <&"$ready"; then
	tail -n 20 "$directory/sim.log" >&2
	die "the simulated runtime did not start; its log is $directory/sim.log"
fi
exec {ready}<&-
exec "$@" "--container-runtime-endpoint=unix://$socket"
