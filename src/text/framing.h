#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

// The token sequences that models read and write: which special tokens stand around a text. Training and inference both
// frame their texts here.
namespace attend {

/// Special tokens around the pieces of a text; -1: none.
struct Frame {
  int32_t before = -1, after = -1;

  int64_t size() const { return (before >= 0 ? 1 : 0) + (after >= 0 ? 1 : 0); }
};
/// Around the source and the target of an encoder–decoder.
Frame pair_frame(const SpecialTokens& special);
/// Around a text that an encoder classifies, embeds or fills in.
Frame encoder_frame(const SpecialTokens& special);
/// The token that a decoder of pairs reads first: begin, or the end in a vocabulary without begin; -1: none.
int32_t decoder_start(const SpecialTokens& special);
/// The token before a new text of a language model: training puts the end between texts; a vocabulary without an end
/// has the begin. -1: none.
int32_t text_start(const SpecialTokens& special);
/// The begin token that the tokenizer's template puts before a text, unless it is the end as well; -1: none.
int32_t template_begin(const Tokenizer& tokenizer);

struct FramedText {
  std::vector<int32_t> ids;
  bool is_blank = false;  ///< the text has no pieces of its own
  bool is_cut = false;    ///< pieces were left out to fit `longest`
};

/// Pieces within a frame, at most `longest` ids.
FramedText framed(std::vector<int32_t> pieces, const Frame& frame, int64_t longest);
/// A source of an encoder–decoder, with the prefix before the text. The prefix alone leaves a text blank.
FramedText frame_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest,
                        const std::string& prefix = "");
/// A target of an encoder–decoder, without the token that the decoder reads first.
FramedText frame_target(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// A text for an encoder.
FramedText frame_text(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// A text with masks for an encoder. The name of the mask token is a mask even if the tokenizer reads the names of
/// special tokens as plain characters; a blank before it then belongs to the masked word.
FramedText frame_masked(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// The prompt of a language model: its pieces, or text_start() for an empty prompt. With `uses_template` the frame is
/// that of the tokenizer's template, without its end. Throws FormatError if there is nothing to start from.
std::vector<int32_t> frame_prompt(const Tokenizer& tokenizer, std::string_view prompt, bool uses_template = false);

}  // namespace attend
