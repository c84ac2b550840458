#!/usr/bin/env bash
# offline.sh ROOT CMAKE NPM: installs the page's packages from npm's cache, as a build without a network does. Exit status
# 77: they are not in the cache.
set -euo pipefail
root=$1 cmake=$2 npm=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root/web/package.json" "$root/web/package-lock.json" "$work/"
if ! npm_config_offline=true "$cmake" -DNPM="$npm" -DFOLDER="$work" -P "$root/cmake/npm_ci.cmake" 2>"$work/errors"; then
  grep -q ENOTCACHED "$work/errors" && { echo "web: skipped, npm's cache does not hold the packages"; exit 77; }
  cat "$work/errors"
  exit 1
fi
[ -f "$work/node_modules/esbuild/package.json" ]
