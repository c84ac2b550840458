#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/regex.h"

namespace attend::text {

/// Changes a text before it is split. Input and output are valid UTF-8. Throws FormatError if the text exceeds the
/// limits of TextWork.
using Normalizer = std::function<std::string(std::string_view, TextWork&)>;

/// Reads the "normalizer" of tokenizer.json; null gives an empty function. Throws FormatError, which names the
/// component, if a component is unknown or invalid.
Normalizer make_normalizer(const Json& json);

/// Reads {"String": …} or {"Regex": …}.
Pattern make_pattern(const Json& json);

/// Throws FormatError if a component contains, with all nested ones, more components than any real file has.
void require_few_components(const Json& json);

}  // namespace attend::text
