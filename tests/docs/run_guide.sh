#!/usr/bin/env bash
# run_guide.sh GUIDE.md ATTEND: runs every command of a guide as written, in a new folder with small data.
#
# A block without a language below a block of commands shows the whole standard output of the last command.
set -euo pipefail
guide=$(realpath "$1")
bin=$(dirname "$(realpath "$2")")
work=$(mktemp -d)
printed=$(mktemp)
trap 'rm -rf "$work" "$printed"' EXIT
cd "$work"
export PATH="$bin:$PATH"

# Sentences that follow a pattern: enough to run every step, too few to learn much.
subjects_en=("A man" "A woman" "A dog" "A child"); subjects_de=("Ein Mann" "Eine Frau" "Ein Hund" "Ein Kind")
verbs_en=("runs" "sleeps" "waits" "sings" "jumps"); verbs_de=("läuft" "schläft" "wartet" "singt" "springt")
places_en=("in the park" "at home" "by the sea" "on the street"); places_de=("im Park" "zu Hause" "am Meer" "auf der Straße")
for s in 0 1 2 3; do for v in 0 1 2 3 4; do for p in 0 1 2 3; do
  echo "${subjects_en[s]} ${verbs_en[v]} ${places_en[p]}." >> all.en
  echo "${subjects_de[s]} ${verbs_de[v]} ${places_de[p]}." >> all.de
done; done; done
head -n 70 all.en > train.en; tail -n 10 all.en > test.en
head -n 70 all.de > train.de; tail -n 10 all.de > test.de
for i in $(seq 1 40); do
  printf 'The sea was calm on day %d, and the old man waited for the wind.\n海上风平浪静，老人等着风。\n' "$i"
done > novel.txt
for i in $(seq 1 40); do printf 'good\tI would buy it again, %d times. 物有所值\nbad\tBroke after %d days. 太差了\n' "$i" "$i"; done > reviews.tsv

count=0 block='' shown=''
while IFS= read -r line; do
  case "$block:$line" in
    ':```sh') block=commands ;;
    ':```') block=output shown='' ;;
    ':```'*) block=other ;;
    'output:```')
      block=''
      diff <(printf '%s' "$shown") "$printed" || { echo "$guide: '$command' does not print the block below it" >&2; exit 1; } ;;
    *':```') block='' ;;
    commands:) ;;
    commands:*)
      command=$line
      echo "\$ $command"
      bash -o pipefail -c "$command" < /dev/null | tee "$printed" || { echo "failed: $command" >&2; exit 1; }
      count=$((count + 1)) ;;
    output:*) shown+=$line$'\n' ;;
  esac
done < "$guide"
[ -z "$block" ] || { echo "$guide: a block does not end" >&2; exit 1; }
[ "$count" -gt 0 ] || { echo "$guide: no commands found" >&2; exit 1; }
echo "$count commands ran"
