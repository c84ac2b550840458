#pragma once

#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>

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

/// A reference to a part of a message: any value that can be written to a stream.
class MessagePart {
 public:
  template <class T>
  MessagePart(const T& value)  // NOLINT(google-explicit-constructor)
      : value_(&value), write_([](std::ostream& out, const void* at) { out << *static_cast<const T*>(at); }) {}
  MessagePart(const char* text) : value_(text), write_(write_text) {}  // NOLINT(google-explicit-constructor)

  void write(std::ostream& out) const { write_(out, value_); }

 private:
  static void write_text(std::ostream& out, const void* text);

  const void* value_;
  void (*write_)(std::ostream& out, const void* value);
};

/// The concatenation of `parts`. It is not a template, because formatting the message of each check in place would take
/// a tenth of the time of compiling attend.
std::string message_of(std::initializer_list<MessagePart> parts);

namespace detail {

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_message(std::initializer_list<MessagePart> parts) {
  throw E(message_of(parts));
}

}  // namespace detail

/// Throws E. Its message is the concatenation of `parts`.
template <class E, class... Parts>
[[noreturn, gnu::always_inline]] inline void throw_error(const Parts&... parts) {
  detail::throw_message<E>({MessagePart(parts)...});
}

/// Throws E with the message `parts` unless `ok`. Formats `parts` only if the check fails; a passing check makes no
/// call.
template <class E, class... Parts>
[[gnu::always_inline]] inline void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    detail::throw_message<E>({MessagePart(parts)...});
}

}  // namespace attend
