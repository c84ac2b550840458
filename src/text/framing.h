#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

// The token sequences that models read and write: the special tokens before and after a text. Training and inference
// share these functions.
namespace attend {

/// The special tokens before and after the pieces of a text; -1: none.
struct Frame {
  int32_t before = -1, after = -1;

  int64_t size() const { return (before >= 0 ? 1 : 0) + (after >= 0 ? 1 : 0); }
};
/// The frame of a source or target of an encoder–decoder.
Frame pair_frame(const SpecialTokens& special);
/// The frame of a text that an encoder classifies, embeds or fills in.
Frame encoder_frame(const SpecialTokens& special);
/// The first token of an encoder–decoder's decoder: the begin token, or the end token if there is no begin token; -1:
/// none.
int32_t decoder_start(const SpecialTokens& special);
/// The token that starts a new text of a language model: the end token, which training puts between texts, or the begin
/// token if there is no end token; -1: none.
int32_t text_start(const SpecialTokens& special);
/// The begin token, if the tokenizer's template puts it before a text and it differs from the end token; otherwise -1.
int32_t template_begin(const Tokenizer& tokenizer);

struct FramedText {
  std::vector<int32_t> ids;
  bool is_blank = false;  ///< the text itself has no pieces
  bool is_cut = false;    ///< pieces were dropped to fit `longest`
};

/// Puts a frame around pieces. Drops pieces at the end to keep at most `longest` ids.
FramedText framed(std::vector<int32_t> pieces, const Frame& frame, int64_t longest);
/// A source of an encoder–decoder, with the prefix before the text. is_blank ignores the prefix.
FramedText frame_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest,
                        const std::string& prefix = "");
/// A target of an encoder–decoder, without the token that the decoder reads first.
FramedText frame_target(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// A text for an encoder.
FramedText frame_text(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// A text with masks for an encoder. The name of the mask token is a mask even if the tokenizer reads the names of
/// special tokens as ordinary text. A space before it then belongs to the masked word.
FramedText frame_masked(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// The prompt of a language model: its pieces, or text_start() for an empty prompt. With `uses_template`, the frame is
/// the tokenizer's template without its end token. Throws FormatError if the prompt is empty and there is no start
/// token.
std::vector<int32_t> frame_prompt(const Tokenizer& tokenizer, std::string_view prompt, bool uses_template = false);

}  // namespace attend
