// The headers that most files include, precompiled once per part of the build (see src/CMakeLists.txt). No file relies
// on this header: each includes what it uses, and ATTEND_PRECOMPILE=OFF builds without it.

// libstdc++'s Bessel functions and the like, which every file that includes <cmath> would instantiate.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/io/json.h"
#include "attend/tensor/creation.h"
#include "attend/tensor/tensor.h"
