#pragma once

#include "chat/jinja/objects.h"

namespace attend::jinja {

/// str.format(): {}, {0}, {name.attribute[key]!r:>10.2f}.
Value format_braces(const Value& text, const Arguments& arguments, Interpreter& interpreter);

}  // namespace attend::jinja
