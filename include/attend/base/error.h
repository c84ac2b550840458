#pragma once

#include <sstream>
#include <stdexcept>

namespace attend {

/// Base class of every exception the library throws. what() is one line: `op: what was expected, what came`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller passed shapes, dtypes or options that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};

/// External data (a file, a header, JSON) is malformed.
struct FormatError : Error {
  using Error::Error;
};

/// A device is absent, out of memory, or does not have the requested kernel.
struct DeviceError : Error {
  using Error::Error;
};

/// Throws E. Its message is the concatenation of `parts`.
template <class E, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw E(message.str());
}

/// Throws E with the message `parts` unless `ok`. Formats `parts` only if the check fails; a passing check makes no
/// call.
template <class E, class... Parts>
[[gnu::always_inline]] inline void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw_error<E>(parts...);
}

}  // namespace attend
