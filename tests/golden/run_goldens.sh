#!/usr/bin/env bash
# run_goldens.sh GOLDENS SOURCE_DIR: checks the reference cases, or exits with 77 (skipped) where there are none.
set -euo pipefail
for shared in "${ATTEND_SHARED:-}" "$2/../shared"; do
  [ -n "$shared" ] && [ -d "$shared/goldens/ops" ] || continue
  places=("$shared/goldens/ops")
  for place in "$shared"/goldens/metrics.json "$shared"/goldens/models "$shared"/data/models "$shared"/data/tokenizers \
               "$shared"/data/corpora/sacrebleu-golden; do
    [ ! -e "$place" ] || places+=("$place")
  done
  exec "$1" "${places[@]}"
done
echo "skipped: no reference cases; set ATTEND_SHARED to the folder that holds goldens/ops, or put it at $2/../shared"
exit 77
