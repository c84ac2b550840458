#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Draws text with the installed fonts. The only part of the library that uses FreeType and fontconfig.
namespace attend {

/// A rendered line of text. `ink` is the coverage of each pixel, 0 to 255, row by row from the top. The top left pixel
/// is `left` pixels to the right of the start of the baseline and `top` pixels above it.
struct TextBitmap {
  int64_t left = 0, top = 0, width = 0, height = 0;
  int64_t advance = 0;  ///< length of the baseline
  std::vector<uint8_t> ink;
};

/// Draws each character with the first installed font that has it, preferring DejaVu Sans and Noto Sans CJK.
/// Right-to-left text is reordered and Arabic letters are joined; ligatures and the reordering of Indic scripts are not
/// supported. The same text and fonts give the same pixels.
class TextRenderer {
 public:
  /// `size`: pixels per em.
  explicit TextRenderer(int64_t size);
  ~TextRenderer();
  TextRenderer(const TextRenderer&) = delete;
  TextRenderer& operator=(const TextRenderer&) = delete;

  bool has_fonts() const;
  /// Characters that no installed font has become boxes. Without any font the bitmap is empty.
  TextBitmap draw(std::string_view text);
  /// The characters drawn as boxes so far, each once.
  const std::u32string& missing() const;

 private:
  struct Fonts;
  std::unique_ptr<Fonts> fonts_;
};

}  // namespace attend
