#!/usr/bin/env bash
# check.sh ROOT STATIC_LIBRARY SHARED_LIBRARY [CLANG]: what the shared library exports is names.txt, and, where there is
# clang, every function that a public header declares. `check.sh --update …` writes names.txt.
set -euo pipefail
update=no
[ "$1" != --update ] || { update=yes; shift; }
root=$1 static=$2 shared=$3 clang=${4:-}
list=$root/tests/exports/names.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Functions by name, without their parameters; those of templates and inline ones depend on the compiler.
nm -DC --defined-only "$shared" | sed -nE 's/^[0-9a-f]+ [TDBR] ([^(]*).*/\1/p' | sed 's/\[abi:cxx11\]//' |
  LC_ALL=C sort -u >"$work/names"
if [ $update = yes ]; then
  cp "$work/names" "$list"
  exit
fi
if ! diff -u --label tests/exports/names.txt --label exported "$list" "$work/names"; then
  echo "exports: the shared library exports other names than tests/exports/names.txt. If that is intended, run"
  echo "  cmake --build build/release --target update_exports"
  failed=1
fi

nm -D --defined-only "$shared" | awk '{print $3}' | LC_ALL=C sort -u >"$work/exported"
if grep -vE '^_Z(T[ISV])?NK?6attend' "$work/exported"; then
  echo "exports: these symbols are not in namespace attend"
  failed=1
fi
for type in 5Error 10ShapeError 11FormatError 11DeviceError; do
  grep -qx "_ZTIN6attend${type}E" "$work/exported" ||
    { echo "exports: the typeinfo of attend::${type##*[0-9]} is missing; users could not catch it"; failed=1; }
done

if [ -z "$clang" ]; then
  echo "exports: clang is not installed, so the declarations of the headers were not compared"
else
  (cd "$root/include" && find attend -name '*.h' -printf '#include "%p"\n') >"$work/all.cpp"
  # The filter takes what is declared inside namespace attend, with the names that the linker sees.
  "$clang" -std=c++20 -I"$root/include" -fsyntax-only -Xclang -ast-dump=json -Xclang -ast-dump-filter=attend:: \
    "$work/all.cpp" | sed -nE 's/^ *"mangledName": "([^"]*)".*/\1/p' | LC_ALL=C sort -u >"$work/declared"
  nm --defined-only "$static" 2>/dev/null | awk '$2 == "T" {print $3}' | LC_ALL=C sort -u >"$work/defined"
  LC_ALL=C comm -12 "$work/declared" "$work/defined" >"$work/wanted"
  [ -s "$work/wanted" ] || { echo "exports: clang found no declarations"; failed=1; }
  if LC_ALL=C comm -23 "$work/wanted" "$work/exported" | c++filt | grep .; then
    echo "exports: public headers declare these functions, but the shared library does not export them"
    failed=1
  fi
fi
exit $failed
