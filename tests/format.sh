#!/usr/bin/env bash
# format.sh CLANG_FORMAT SOURCE: fails if a C++ file below SOURCE is not formatted; ./run format fixes it.
set -euo pipefail
cd "$2"
find src include tests examples -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | xargs "$1" --dry-run --Werror
