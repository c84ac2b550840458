#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

// The token sequences models are trained on, in one place.
namespace attend {

struct EncodedText {
  std::vector<int32_t> ids;
  bool is_blank = false;  ///< no token but the special ones
  bool is_cut = false;    ///< pieces were left out to fit `longest`
};

/// What an encoder of pairs reads: pieces, end. At most `longest` ids.
EncodedText encode_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// What a classifier reads: begin, pieces, end, where the vocabulary has them. At most `longest` ids.
EncodedText encode_classified(const Tokenizer& tokenizer, std::string_view text, int64_t longest);

}  // namespace attend
