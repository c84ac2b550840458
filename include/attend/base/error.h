#pragma once

#include <sstream>
#include <stdexcept>

namespace attend {

/// Base of everything the library throws. what() is one line: `op: what was expected, what came`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A caller's mistake: shapes, dtypes or options that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};

/// Outside bytes (a file, a header, JSON) that are not what they claim to be.
struct FormatError : Error {
  using Error::Error;
};

/// A device that is absent, out of memory, or lacks the kernel asked for.
struct DeviceError : Error {
  using Error::Error;
};

/// Throws E with `parts` one after the other.
template <class E, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw E(message.str());
}

/// Throws E built from `parts`, which are formatted only when the check fails. Where it holds nothing is called.
template <class E, class... Parts>
[[gnu::always_inline]] inline void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw_error<E>(parts...);
}

}  // namespace attend
