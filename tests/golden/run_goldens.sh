#!/usr/bin/env bash
# run_goldens.sh GOLDENS SOURCE_DIR [quick|cuda|chat]: checks the repository's reference cases, and the full set if
# $ATTEND_SHARED or ../shared has it. quick: without trained models and the tokenizers of large models. cuda: the same on
# a GPU; exits with 77 if there is none. chat: the full set of chat templates alone; exits with 77 if there is none.
set -euo pipefail
goldens=$1 source_dir=$2 quick=${3:-} device=()
if [ "$quick" = cuda ]; then
  quick=quick device=(--device cuda)
  "$goldens" --device cuda --instruction-set >/dev/null || exit 77
fi
if [ "$quick" = chat ]; then
  folder=${ATTEND_SHARED:-$source_dir/../shared}/goldens/chat_templates
  [ -e "$folder" ] || { echo "skipped: there is no $folder"; exit 77; }
  exec "$goldens" "$folder"
fi
places=("$source_dir/tests/golden/cases")
shared=${ATTEND_SHARED:-$source_dir/../shared}
more=(goldens/ops goldens/models goldens/metrics.json)
[ "$quick" = quick ] || more+=(data/models data/tokenizers data/corpora/sacrebleu-golden)
for place in "${more[@]}"; do
  [ ! -e "$shared/$place" ] || places+=("$shared/$place")
done
exec "$goldens" "${device[@]}" "${places[@]}"
