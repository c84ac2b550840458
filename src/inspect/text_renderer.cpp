#include "inspect/text_renderer.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include <unicode/ubidi.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/ushape.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <map>
#include <span>

#include "attend/text/utf8.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr int64_t kUnit = 64;  // FreeType's unit is 1/64 of a pixel

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using Pattern = std::unique_ptr<FcPattern, Destroy<FcPatternDestroy>>;

/// A font file. It is opened when a character first needs it.
struct Font {
  std::string file;
  int index = 0;
  const FcCharSet* characters = nullptr;
  FT_Face face = nullptr;
  bool is_broken = false;
};

/// A drawn glyph, or the box for a missing one, positioned in its line.
struct Piece {
  int64_t left = 0, top = 0, width = 0, height = 0;
  std::vector<uint8_t> ink;
};

/// Replaces Arabic letters by their contextual (joined) forms.
icu::UnicodeString joined(const icu::UnicodeString& text) {
  icu::UnicodeString result;
  UErrorCode error = U_ZERO_ERROR;
  const int32_t room = 2 * text.length() + 1;
  const int32_t length = u_shapeArabic(text.getBuffer(), text.length(), result.getBuffer(room), room,
                                       U_SHAPE_LETTERS_SHAPE | U_SHAPE_TEXT_DIRECTION_LOGICAL, &error);
  result.releaseBuffer(U_SUCCESS(error) ? length : 0);
  return U_SUCCESS(error) ? result : text;
}

/// The characters in visual order, left to right.
std::u32string in_visual_order(std::string_view utf8) {
  icu::UnicodeString text =
      icu::UnicodeString::fromUTF8(icu::StringPiece(utf8.data(), static_cast<int32_t>(utf8.size())));
  const std::unique_ptr<UBiDi, Destroy<ubidi_close>> order(ubidi_open());
  UErrorCode error = U_ZERO_ERROR;
  const icu::UnicodeString logical = joined(text);
  ubidi_setPara(order.get(), logical.getBuffer(), logical.length(), UBIDI_DEFAULT_LTR, nullptr, &error);
  const int32_t room = logical.length() + 1;
  icu::UnicodeString visual;
  const int32_t length = ubidi_writeReordered(order.get(), visual.getBuffer(room), room,
                                              UBIDI_DO_MIRRORING | UBIDI_REMOVE_BIDI_CONTROLS, &error);
  visual.releaseBuffer(U_SUCCESS(error) ? length : 0);
  if (U_SUCCESS(error)) text = visual;
  std::u32string result;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 code = text.char32At(i);
    if (!u_hasBinaryProperty(code, UCHAR_DEFAULT_IGNORABLE_CODE_POINT)) result += static_cast<char32_t>(code);
  }
  return result;
}

/// The outline of a rectangle, for a character that cannot be drawn.
Piece box(int64_t width, int64_t height) {
  const int64_t line = std::max<int64_t>(1, height / 16);
  Piece piece{.top = height, .width = width, .height = height, .ink = {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const bool is_edge = x < line || y < line || x + line >= width || y + line >= height;
      piece.ink.push_back(is_edge ? 255 : 0);
    }
  }
  return piece;
}

Piece piece_of(const FT_GlyphSlotRec& glyph, int64_t left) {
  const FT_Bitmap& bitmap = glyph.bitmap;
  Piece piece{.left = left + glyph.bitmap_left,
              .top = glyph.bitmap_top,
              .width = bitmap.width,
              .height = bitmap.rows,
              .ink = {}};
  for (unsigned y = 0; y < bitmap.rows; ++y) {
    const std::span row(bitmap.buffer + static_cast<ptrdiff_t>(y) * bitmap.pitch, bitmap.width);
    piece.ink.insert(piece.ink.end(), row.begin(), row.end());
  }
  return piece;
}

TextBitmap joined_pieces(std::span<const Piece> pieces) {
  TextBitmap text;
  if (pieces.empty()) return text;
  int64_t right = pieces[0].left, bottom = -pieces[0].top;
  text.left = right, text.top = -bottom;
  for (const Piece& piece : pieces) {
    text.left = std::min(text.left, piece.left);
    text.top = std::max(text.top, piece.top);
    right = std::max(right, piece.left + piece.width);
    bottom = std::max(bottom, piece.height - piece.top);
  }
  text.width = right - text.left, text.height = bottom + text.top;
  text.ink.resize(static_cast<size_t>(text.width * text.height));
  for (const Piece& piece : pieces) {
    for (int64_t i = 0; i < std::ssize(piece.ink); ++i) {
      const int64_t x = piece.left - text.left + i % piece.width, y = text.top - piece.top + i / piece.width;
      uint8_t& ink = text.ink[static_cast<size_t>(y * text.width + x)];
      ink = static_cast<uint8_t>(std::min(255, ink + piece.ink[static_cast<size_t>(i)]));
    }
  }
  return text;
}

}  // namespace

struct TextRenderer::Fonts {
  int64_t size = 0;
  std::unique_ptr<FcConfig, Destroy<FcConfigDestroy>> config;
  std::unique_ptr<FcFontSet, Destroy<FcFontSetSortDestroy>> sorted;  // owns the sets that Font::characters point to
  std::unique_ptr<FT_LibraryRec_, Destroy<FT_Done_FreeType>> library;
  std::vector<Font> list;
  std::map<char32_t, std::pair<Font*, FT_UInt>> chosen;
  std::u32string missing;

  explicit Fonts(int64_t pixels) : size(pixels), config(FcInitLoadConfigAndFonts()) {
    FT_Library opened = nullptr;
    if (FT_Init_FreeType(&opened) == 0) library.reset(opened);
    if (config && library) find_fonts();
  }

  /// Lists all fonts, in order of preference.
  void find_fonts() {
    const Pattern wanted(FcPatternCreate());
    for (const char* family : {"DejaVu Sans", "Noto Sans CJK SC", "sans-serif"}) {
      FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(family));
    }
    FcPatternAddBool(wanted.get(), FC_SCALABLE, FcTrue);
    FcConfigSubstitute(config.get(), wanted.get(), FcMatchPattern);
    FcDefaultSubstitute(wanted.get());
    FcResult result = FcResultMatch;
    sorted.reset(FcFontSort(config.get(), wanted.get(), FcFalse, nullptr, &result));
    if (!sorted) return;
    for (FcPattern* pattern : std::span(sorted->fonts, static_cast<size_t>(sorted->nfont))) {
      FcChar8* file = nullptr;
      FcCharSet* characters = nullptr;
      Font font;
      if (FcPatternGetString(pattern, FC_FILE, 0, &file) != FcResultMatch) continue;
      if (FcPatternGetCharSet(pattern, FC_CHARSET, 0, &characters) != FcResultMatch) continue;
      FcPatternGetInteger(pattern, FC_INDEX, 0, &font.index);
      font.file = reinterpret_cast<const char*>(file);
      font.characters = characters;
      list.push_back(std::move(font));
    }
  }

  /// Opens the font on the first call. False for bitmap fonts (colour emoji, for example), which cannot be scaled.
  bool is_usable(Font& font) {
    if (!font.face && !font.is_broken) {
      font.is_broken = FT_New_Face(library.get(), font.file.c_str(), font.index, &font.face) != 0 ||
                       !FT_IS_SCALABLE(font.face) || FT_Set_Pixel_Sizes(font.face, 0, static_cast<FT_UInt>(size)) != 0;
    }
    return !font.is_broken;
  }

  /// The font that has the character, and the glyph's index. The font is null if no font has it.
  std::pair<Font*, FT_UInt> choose(char32_t code) {
    const auto [place, is_new] = chosen.try_emplace(code, nullptr, 0);
    if (!is_new) return place->second;
    for (Font& font : list) {
      if (!FcCharSetHasChar(font.characters, code) || !is_usable(font)) continue;
      if (const FT_UInt glyph = FT_Get_Char_Index(font.face, code); glyph != 0) return place->second = {&font, glyph};
    }
    missing += code;
    return place->second;
  }

  /// Draws a character at `place`, in 1/64 of a pixel, and advances `place` past it.
  Piece draw(char32_t code, int64_t& place) {
    const auto [font, glyph] = choose(code);
    const int64_t whole = place / kUnit, part = place % kUnit;
    if (font && FT_Load_Glyph(font->face, glyph, FT_LOAD_NO_BITMAP | FT_LOAD_TARGET_LIGHT) == 0) {
      FT_GlyphSlotRec& slot = *font->face->glyph;
      FT_Outline_Translate(&slot.outline, part, 0);
      place += slot.linearHoriAdvance / 1024;  // from 1/65536 of a pixel
      return FT_Render_Glyph(&slot, FT_RENDER_MODE_NORMAL) == 0 ? piece_of(slot, whole) : Piece{};
    }
    std::string character;
    append_utf8(character, code);
    const auto width = static_cast<int64_t>(text_width(character) * static_cast<double>(size));
    place += width * kUnit;
    Piece piece = box(width - std::max<int64_t>(1, size / 8), size * 3 / 4);
    piece.left = whole;
    return piece;
  }

  ~Fonts() {
    for (const Font& font : list) {
      if (font.face) FT_Done_Face(font.face);
    }
  }
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;
};

TextRenderer::TextRenderer(int64_t size) : fonts_(std::make_unique<Fonts>(size)) {}
TextRenderer::~TextRenderer() = default;

bool TextRenderer::has_fonts() const { return !fonts_->list.empty(); }
const std::u32string& TextRenderer::missing() const { return fonts_->missing; }

TextBitmap TextRenderer::draw(std::string_view text) {
  if (!has_fonts()) return {};
  std::vector<Piece> pieces;
  int64_t place = 0;
  for (const char32_t code : in_visual_order(text)) pieces.push_back(fonts_->draw(code, place));
  std::erase_if(pieces, [](const Piece& piece) { return piece.ink.empty(); });
  TextBitmap bitmap = joined_pieces(pieces);
  bitmap.advance = (place + kUnit - 1) / kUnit;
  return bitmap;
}

}  // namespace attend
