#pragma once

#include <span>
#include <vector>

#include "text/json_fields.h"
#include "text/vocabulary.h"

namespace attend::text {

/// What a tokenizer puts around a text: ids, and kNone where the text goes.
using TextTemplate = std::vector<int32_t>;

/// The "post_processor" of tokenizer.json, as far as it concerns a single text. Throws FormatError naming one that is
/// not known.
TextTemplate make_template(const Json& json);

std::vector<int32_t> fill(const TextTemplate& around, std::span<const int32_t> ids);

}  // namespace attend::text
