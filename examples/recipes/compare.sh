#!/usr/bin/env bash
# compare.sh DATA OUT: the effect of attention. Trains three models on the same Multi30k pairs with equal budgets and
# compares their quality by sentence length. Takes about half an hour on two cores.
set -euo pipefail
data=$1 out=$2
attend compare "$data/train.en" "$data/train.de" --validation "$data/val.en" "$data/val.de" \
  --test "$data/test_2016_flickr.en" "$data/test_2016_flickr.de" -o "$out" \
  --steps 3000 --batch-tokens 1024 --vocabulary 3000 --lowercase --seed 1
