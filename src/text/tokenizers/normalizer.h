#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/regex.h"

namespace attend::text {

/// Changes a text before it is cut. Takes and gives valid UTF-8. Throws FormatError where the text costs more than it
/// may: see TextWork.
using Normalizer = std::function<std::string(std::string_view, TextWork&)>;

/// The "normalizer" of tokenizer.json; null gives an empty function. Throws FormatError naming a component that is not
/// known, or wrong in itself.
Normalizer make_normalizer(const Json& json);

/// {"String": …} or {"Regex": …}.
Pattern make_pattern(const Json& json);

/// Throws FormatError if a list of components, and all in them, are more than any real file has.
void require_few_components(const Json& json);

}  // namespace attend::text
