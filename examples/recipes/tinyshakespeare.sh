#!/usr/bin/env bash
# tinyshakespeare.sh TEXT OUT: trains a character-level language model on tinyshakespeare (1.1 MB). Takes about a minute
# on two cores.
set -euo pipefail
text=$1 out=$2
attend train gpt "$text" -o "$out" --tokenizer char --preset tiny --context 64 --batch 12 --steps 2000 --dropout 0 \
  --lr 3e-3 --seed 1
attend generate "$out" "ROMEO:" --tokens 300 --temperature 0.8
