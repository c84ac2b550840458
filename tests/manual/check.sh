#!/usr/bin/env bash
# check.sh PART ATTEND: what `attend manual` writes. PART is complete (every command and option is in the pages and the
# completions), man (groff reads the pages without a warning), bash, zsh or fish (the shell completes with the script).
# Exit status 77: the program that PART needs is not installed.
set -euo pipefail
part=$1 attend=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$attend" manual manual
failed=0

complain() { echo "manual: $*"; failed=1; }
needs() { command -v "$1" >/dev/null || { echo "manual: skipped, $1 is not installed"; exit 77; }; }
# expect WHAT GOT WANTED…: each wanted word is a line of GOT.
expect() {
  local what=$1 got=$2 word
  shift 2
  for word in "$@"; do
    grep -qxF -e "$word" <<<"$got" || complain "$what: expected '$word' among: $(tr '\n' ' ' <<<"$got")"
  done
}
commands() { "$attend" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'; }
options() { "$attend" "$@" --help | sed -nE 's/^  (-[a-zA-Z],)?(--[a-z0-9-]+).*/\2/p'; }

check_complete() {
  local command option page count=0
  for command in $(commands); do
    page=manual/man1/attend-$command.1
    [ -f "$page" ] || { complain "attend-$command.1 is missing"; continue; }
    grep -q "attend.-$command (1)" manual/man1/attend.1 || complain "attend.1 does not name $command"
    sed 's/\\-/-/g' "$page" >page
    sed -n "/^    $command)\$/,/^      ;;\$/p" manual/attend.bash >bash
    sed -n "/^    $command)\$/,/^      ;;\$/p" manual/_attend >zsh
    grep "__fish_seen_subcommand_from $command'" manual/attend.fish >fish
    for option in $(options "$command"); do
      count=$((count + 1))
      grep -qE -e "\\\\fB$option\\\\fR" page || complain "attend-$command.1 lacks $option"
      grep -qE -e "[ \"]$option[ \"]" bash || complain "the completion of bash lacks $command $option"
      grep -qE -e "'\*?$option\[" zsh || complain "the completion of zsh lacks $command $option"
      grep -qE -e " -l ${option#--} " fish || complain "the completion of fish lacks $command $option"
    done
  done
  [ $count -gt 100 ] || complain "only $count options were found in the help texts"
}

check_man() {
  local page
  needs groff
  for page in manual/man1/*.1; do
    groff -K utf8 -T utf8 -P-c -P-b -P-u -man -ww -rLL=80n "$page" >text 2>warnings || complain "groff failed on $page"
    [ ! -s warnings ] || { complain "groff warns:"; cat warnings; }
    grep -q SYNOPSIS text || complain "$page has no synopsis"
  done
}

check_bash() {
  local COMP_WORDS COMP_CWORD COMPREPLY
  source manual/attend.bash
  [ "$(complete -p attend)" = "complete -F _attend attend" ] || complain "bash: the completion is not registered"
  touch 'a file.txt'
  # try WORD…: what completes the last of the words, a line each
  try() {
    COMP_WORDS=(attend "$@") COMP_CWORD=$#
    _attend
    printf '%s\n' "${COMPREPLY[@]}"
  }
  expect "bash: attend tr" "$(try tr)" train translate
  expect "bash: attend help in" "$(try help in)" info inspect
  expect "bash: attend train --pre" "$(try train --pre)" --preset --precision
  expect "bash: attend train --preset" "$(try train --preset '')" tiny small base
  expect "bash: attend train --preset=t" "$(try train --preset = t)" tiny
  expect "bash: attend train --activation g" "$(try train --activation g)" gelu
  expect "bash: attend train t" "$(try train t)" transformer
  expect "bash: attend train -o a" "$(try train -o a)" 'a file.txt'
  expect "bash: attend info a" "$(try info a)" 'a file.txt'
  [ -z "$(try train --dim '')" ] || complain "bash: completes a number with $(try train --dim '')"
  [ -z "$(try ma)" ] || complain "bash: offers the hidden command"
}

check_zsh() {
  needs zsh
  zsh -f -n manual/_attend || complain "zsh: syntax error"
  # _arguments reports what it was called with.
  cat >try.zsh <<'END'
_arguments() { print -rl -- "$@"; state=arguments; return 1 }
compdef() { print -r -- "compdef $*" }
source manual/_attend
words=(train)
_attend || true
END
  local got
  got=$(zsh -f try.zsh)
  expect zsh "$got" "compdef _attend attend" "1:command:_attend_commands" '*:files:_files'
  grep -qE -e '^--preset\[.*\]:[A-Z]+:\(tiny small base\)$' <<<"$got" || complain "zsh: --preset has no choices"
}

check_fish() {
  needs fish
  mkdir home bin
  ln -s "$attend" bin/attend
  touch 'a file.txt'
  try() {
    HOME=$work/home PATH="$work/bin:$PATH" fish --no-config -c "source manual/attend.fish; complete -C '$1'" |
      cut -f 1
  }
  expect "fish: attend tr" "$(try 'attend tr')" train translate
  expect "fish: attend train --pres" "$(try 'attend train --pres')" --preset
  expect "fish: attend train --preset" "$(try 'attend train --preset ')" tiny small base
  expect "fish: attend help in" "$(try 'attend help in')" info inspect
}

"check_$part"
exit $failed
