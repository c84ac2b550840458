#!/usr/bin/env bash
# ring.sh ATTEND [PROCESSES]: attention to one sequence that processes divide among themselves (default: 4), one head of
# 64. Prints time, hidden share of the ring and memory per process for sequences of 65,536, 131,072 and 262,144 tokens:
# the memory must double with the length. The last run also compares rows with attention in one process.
set -euo pipefail
attend=$(realpath "$1") processes=${2:-4}
for tokens in 65536 131072 262144; do
  check=()
  [ $tokens != 262144 ] || check=(--check)
  mpirun -n "$processes" "$attend" bench ring --tokens $tokens --heads 1 --dim 64 --device cpu "${check[@]}"
  echo
done
