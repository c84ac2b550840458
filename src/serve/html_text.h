#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// A part of an HTML text: markup, which stays as it is, and the text behind it.
struct HtmlPiece {
  std::string markup;  ///< tags, comments, scripts, styles, and the spaces between these and the text
  std::string text;    ///< characters of entities, single spaces; may be empty in the last piece
};

/// The texts of an HTML fragment, from the first to the last. Accepts arbitrary bytes, and takes time in proportion to
/// their number.
std::vector<HtmlPiece> html_pieces(std::string_view html);
/// A text as HTML: &, < and > as entities.
std::string html_escaped(std::string_view text);

}  // namespace attend
