#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja/objects.h"

namespace attend::jinja {

/// A method of a str, list, tuple, dict or number, bound to it; undefined for one that would change the value; nullopt
/// if there is no such method.
std::optional<Value> method(Interpreter& interpreter, const Value& value, std::string_view name);

using MethodBody = Value (*)(Interpreter&, const Value& self, const Arguments& arguments);
/// A method of str; null if there is none.
MethodBody text_method(std::string_view name);

}  // namespace attend::jinja
