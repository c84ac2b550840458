#!/usr/bin/env bash
# run_goldens.sh GOLDENS SOURCE_DIR [quick|cuda]: checks the repository's reference cases, and the full set if
# $ATTEND_SHARED or ../shared has it. quick: without trained models and the tokenizers of large models. cuda: the same on
# a GPU; exits with 77 if there is none.
set -euo pipefail
goldens=$1 source_dir=$2 quick=${3:-} device=()
if [ "$quick" = cuda ]; then
  quick=quick device=(--device cuda)
  "$goldens" --device cuda --instruction-set >/dev/null || exit 77
fi
places=("$source_dir/tests/golden/cases")
shared=${ATTEND_SHARED:-$source_dir/../shared}
more=(goldens/ops goldens/models goldens/metrics.json)
[ "$quick" = quick ] || more+=(goldens/chat_templates data/models data/tokenizers data/corpora/sacrebleu-golden)
for place in "${more[@]}"; do
  [ ! -e "$shared/$place" ] || places+=("$shared/$place")
done
exec "$goldens" "${device[@]}" "${places[@]}"
