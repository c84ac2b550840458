#!/usr/bin/env bash
# check_outputs.sh DOCUMENT.md ATTEND: runs every command of a document (`$ attend …` in a code block) and compares.
#
# The lines below a command in its block must be its whole output; a line that ends in … gives the beginning of a line.
# A block without a command shows consecutive lines of the previous command's output.
set -euo pipefail
document=$(realpath "$1")
bin=$(dirname "$(realpath "$2")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export PATH="$bin:$PATH" COLUMNS=100
touch printed
failed=0 commands=0 compared=0 line_number=0

complain() {
  echo "$document:$1: $2" >&2
  failed=1
}

# Whether $1 is the expected line $2, which may end in ….
is_same() { [ "$1" = "$2" ] || { [[ "$2" == *… ]] && [[ "$1" == "${2%…}"* ]]; }; }

# Compares the lines of `block` with all of `printed`, or with any consecutive part of it.
compare() {
  local lines=() start i
  mapfile -t lines < printed
  for ((start = 0; start == 0 || start + ${#block[@]} <= ${#lines[@]}; ++start)); do
    for ((i = 0; i < ${#block[@]}; ++i)); do is_same "${lines[start + i]:-}" "${block[i]}" || break; done
    ((i == ${#block[@]})) && { [ "$1" = part ] || ((i == ${#lines[@]})); } && { compared=$((compared + 1)); return; }
    [ "$1" = part ] || break
  done
  complain "$line_number" "the block that ends here is not what '${command:-nothing}' prints:"
  cat printed >&2
}

# Compares the lines below a command, if there are any.
compare_whole() { if ((has_command && !is_skipped && ${#block[@]})); then compare whole; fi; }

block=() indent='' in_block=0 has_command=0 is_skipped=0 command=''
while IFS= read -r line; do
  line_number=$((line_number + 1))
  if ((!in_block)) && [[ "$line" =~ ^(\ *)\`\`\`([a-z]*)$ ]]; then
    in_block=1 indent=${BASH_REMATCH[1]} language=${BASH_REMATCH[2]} block=() has_command=0 is_skipped=0
  elif ((in_block)) && [ "$line" = "$indent\`\`\`" ]; then
    in_block=0
    if ((has_command)); then compare_whole; elif [ -z "$language" ]; then compare part; fi
  elif ((in_block)) && [[ "$line" == "$indent\$ "* ]]; then
    compare_whole
    command=${line#"$indent\$ "} command=${command#./run } block=() has_command=1 is_skipped=0
    if [[ "$command" == *'| jq '* ]] && ! command -v jq > /dev/null; then
      echo "skipped, jq is not installed: $command"
      is_skipped=1
      continue
    fi
    bash -o pipefail -c "$command" > printed 2>&1 < /dev/null || true
    commands=$((commands + 1))
  elif ((in_block)); then
    block+=("${line#"$indent"}")
  fi
done < "$document"
((commands > 0 && compared > 0)) || { echo "$document: no commands and outputs found" >&2; exit 1; }
echo "$commands commands ran, $compared blocks compared"
exit $failed
