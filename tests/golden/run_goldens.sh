#!/usr/bin/env bash
# run_goldens.sh GOLDENS SOURCE_DIR [quick]: checks the repository's reference cases, and the full set if $ATTEND_SHARED
# or ../shared has it. quick: without trained models and the tokenizers of large models.
set -euo pipefail
goldens=$1 source_dir=$2 quick=${3:-}
places=("$source_dir/tests/golden/cases")
shared=${ATTEND_SHARED:-$source_dir/../shared}
more=(goldens/ops goldens/models goldens/metrics.json)
[ "$quick" = quick ] || more+=(data/models data/tokenizers data/corpora/sacrebleu-golden)
for place in "${more[@]}"; do
  [ ! -e "$shared/$place" ] || places+=("$shared/$place")
done
exec "$goldens" "${places[@]}"
