#!/usr/bin/env bash
# multi30k.sh DATA OUT: trains English to German on Multi30k (29,000 image captions) and computes BLEU on
# test_2016_flickr. DATA contains train.en, train.de, val.*, test_2016_flickr.*. `attend` must be on the PATH. Takes
# about 40 minutes on two cores.
set -euo pipefail
data=$1 out=$2
attend train transformer "$data/train.en" "$data/train.de" --validation "$data/val.en" "$data/val.de" -o "$out" \
  --preset tiny --vocabulary 10000 --batch-tokens 4096 --steps 4400 --dropout 0.25 \
  --schedule cosine --lr 2.5e-3 --lr-end 1e-5 --warmup 800 --validate-every 88 --average 10 --seed 1
attend evaluate "$out" "$data/test_2016_flickr.en" "$data/test_2016_flickr.de" --beam 5 --metric-tokenizer 13a
