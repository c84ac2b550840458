#!/usr/bin/env bash
# compile_samples.sh SOURCE COMPILER FLAGS…: compiles every ```cpp block of the documents below SOURCE, without linking.
#
# A block with `int main` or `#include` lines starts a file of its own. A block without them continues the file of the
# block before it, as the body of a function. Lines that readers need not see go into comments before the block:
#   <!-- sample: #include "hub/architecture.h" -->
# A block that differs from an earlier one only in comments, as in a translation, is compiled once.
set -euo pipefail
source=$(realpath "$1")
compiler=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"

# Writes WORK/00001.cpp, …; #line makes the compiler name the document and its line.
awk -v work="$work" '
  function open_file() { close(out); out = sprintf("%s/%05d.cpp", work, ++files) }
  FNR == 1 { hidden = ""; in_block = 0; out = "" }
  /^ *<!-- sample: .* -->$/ { sub(/^ *<!-- sample: /, ""); sub(/ -->$/, ""); hidden = hidden $0 "\n"; next }
  /^ *```cpp$/ { in_block = 1; first = FNR + 1; code = hidden; is_file = hidden ~ /#include/; hidden = ""
                 code = code "#line " first " \"" FILENAME "\"\n"; next }
  in_block && /^ *```$/ {
    in_block = 0; blocks++
    if (is_file || out == "") open_file()
    print (is_file ? code : "void sample_" first "() {\n" code "}") > out
    next
  }
  in_block { if (/^#include/ || /int main/) is_file = 1; code = code $0 "\n" }
  END { print blocks + 0 > (work "/count") }
' $(find README*.md CONTRIBUTING.md docs examples -name '*.md' | sort)

failed=0 compiled=0
declare -A known
for file in "$work"/*.cpp; do
  content=$(sed -E -e '/^#line/d' -e 's@//.*@@' -e 's/ +$//' -e 's/sample_[0-9]+/sample/' "$file" | sha256sum)
  [ -z "${known[$content]:-}" ] || continue
  known[$content]=1
  "${compiler[@]}" -fsyntax-only "$file" || { echo "does not compile: $(grep -m 1 '^#line' "$file")" >&2; failed=1; }
  compiled=$((compiled + 1))
done
[ "$(cat "$work/count")" -gt 0 ] || { echo "no samples found in $source" >&2; exit 1; }
echo "$(cat "$work/count") samples in $compiled files"
exit $failed
