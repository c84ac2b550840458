#!/usr/bin/env bash
# compare.sh DATA OUT: what attention is good for. Three models on the same pairs of Multi30k with like budgets, and
# their quality by the length of the sentence. About half an hour on two cores.
set -euo pipefail
data=$1 out=$2
attend compare "$data/train.en" "$data/train.de" --validation "$data/val.en" "$data/val.de" \
  --test "$data/test_2016_flickr.en" "$data/test_2016_flickr.de" -o "$out" \
  --steps 3000 --batch-tokens 1024 --vocabulary 3000 --lowercase --seed 1
