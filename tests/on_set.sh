#!/usr/bin/env bash
# on_set.sh SET GOLDENS COMMAND…: runs a test limited to one instruction set. Exits with 77 (skipped) if the processor
# does not have the set, or if it is the processor's widest, on which the test runs anyway.
set -euo pipefail
widest=$(env -u ATTEND_CPU "$2" --instruction-set)
[ "$widest" != "$1" ] || { echo "skipped: $1 is the widest set of this processor, which the unlimited tests use"; exit 77; }
export ATTEND_CPU=$1
goldens=$2
shift 2
if ! answer=$("$goldens" --instruction-set 2>&1); then
  echo "$answer"
  [[ $answer == *"this processor does not have $ATTEND_CPU;"* ]] && exit 77
  exit 1
fi
[ "$answer" = "$ATTEND_CPU" ] || { echo "expected the instruction set $ATTEND_CPU, got $answer"; exit 1; }
echo "instruction set: $answer"
exec "$@"
