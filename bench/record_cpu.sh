#!/usr/bin/env bash
# Verifies and times the CPU backend in one call, leaves the JSON of every run in FOLDER, and prints
# a short table last. `peers` needs PyTorch for python3.
#
#   bench/record_cpu.sh RAPT FOLDER THREADS [PART...]    parts: verify limits peers prefill suites
#                                                        ladder scaling; default: all
set -euo pipefail

rapt=$(realpath "$1")
folder=$2
threads=$3
shift 3
(($#)) || set -- verify limits peers prefill suites ladder scaling
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export RAPT_TUNING= # the estimates choose
mkdir -p "$folder"

bench() { # NAME ARGS...
  local name=$1
  shift
  "$rapt" bench "$@" --seconds 0.2 --json "$folder/$name.json" >"$folder/$name.txt"
}

record_verify() { "$rapt" verify --cases 200 --threads "$threads" >"$folder/verify.txt"; }
record_limits() { "$rapt" devices --measure --threads "$threads" >"$folder/limits.txt"; }
record_peers() {
  python3 "$root/bench/peers/cpu_peers.py" --rapt "$rapt" --threads "$threads" --seconds 0.2 \
    --json "$folder/peers.json" >"$folder/peers.txt"
}
record_prefill() { # one thread and all of them in turn
  local round count
  for round in 1 2 3; do
    for count in 1 "$threads"; do
      bench "prefill-$round-threads-$count" prefill --chosen --threads "$count"
    done
  done
}
record_suites() { bench suites default decode tiny_kv wide features --threads "$threads"; }
record_ladder() { bench ladder ladder --threads "$threads"; }
record_scaling() { bench scaling scaling --threads "$threads"; }

for part; do
  echo "$part: $SECONDS s" >&2
  "record_$part"
done
for summary in verify limits suites ladder scaling; do
  [[ ! -e $folder/$summary.txt ]] || tail -n 2 "$folder/$summary.txt"
done
[[ ! -e $folder/peers.txt ]] || grep -E '^b[0-9]|^  cpu|^\*' "$folder/peers.txt"
