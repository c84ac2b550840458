// Pictures of attention weights: one layout, written as SVG and as PNG.
#include "attend/inspect/picture.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "inspect/heat_map.h"
#include "inspect/inspect_testing.h"
#include "inspect/text_renderer.h"
#include "io/svg_text.h"
#include "testing/gradients.h"

namespace attend::testing {
namespace {

Image decoded(const PngPicture& picture) { return decode_image(std::as_bytes(std::span(picture.bytes)), "png"); }

/// A rectangle of the layout.
struct Box {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  bool has(int64_t x, int64_t y) const { return x >= left && x < right && y >= top && y < bottom; }
};

Box box_of(const HeatMap& map) { return {map.x, map.y, map.x + map.width, map.y + map.height}; }

/// The area that a label's ink may cover.
Box box_of(const PictureLabel& label) {
  const auto length = static_cast<int64_t>(text_width(label.text) * (kFontSize + 1)) + 8;
  if (label.runs_upward) return {label.x - 11, label.y - length, label.x + 4, label.y + 1};
  const int64_t left = label.ends_here ? label.x - length : label.x - 1;
  return {left, label.y - 11, left + length + 1, label.y + 4};
}

bool is_dark(const Image& image, int64_t x, int64_t y) { return image.at(x, y, 0) < 100; }

int64_t dark_pixels(const Image& image, const Box& box, int64_t scale) {
  int64_t count = 0;
  for (int64_t y = box.top * scale; y < box.bottom * scale; ++y) {
    for (int64_t x = box.left * scale; x < box.right * scale; ++x) count += is_dark(image, x, y) ? 1 : 0;
  }
  return count;
}

/// Expects ink in the area of every label, and none outside maps and labels.
void expect_text(const attend::Run& run, const PictureOptions& options) {
  const HeatPicture layout = heat_picture(run, options);
  const std::string svg = picture_svg(run, options);
  const Image image = decoded(picture_png(run, options));
  const int64_t scale = image.width / layout.width;
  ASSERT_EQ(image.width, scale * layout.width);
  ASSERT_EQ(image.height, scale * layout.height);
  std::vector<Box> boxes{box_of(layout.legend)};
  for (const HeatMap& map : layout.maps) boxes.push_back(box_of(map));
  for (const PictureLabel& label : layout.labels) {
    EXPECT_NE(svg.find(">" + xml_text(label.text) + "</text>"), std::string::npos) << label.text;
    const Box box = boxes.emplace_back(box_of(label));
    EXPECT_TRUE(box.left >= 0 && box.top >= 0 && box.right <= layout.width && box.bottom <= layout.height)
        << label.text;
    EXPECT_GE(dark_pixels(image, box, scale), 3 * scale) << label.text << " at " << label.x << ", " << label.y;
  }
  int64_t outside = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const auto holds = [&](const Box& box) { return box.has(x / scale, y / scale); };
      outside += image.at(x, y, 0) < 250 && std::ranges::none_of(boxes, holds) ? 1 : 0;
    }
  }
  EXPECT_EQ(outside, 0);
}

TEST(Picture, ShowsTokensAsText) {
  const InspectedModel model = tiny_inspected("transformer");
  const attend::Run run = tiny_run(model, {.text = "a<b", .target = "&"});
  const std::string one = picture_svg(run, {.attention = static_cast<int64_t>(run.attention.size()) - 1, .head = 0});
  EXPECT_NE(one.find("&lt;"), std::string::npos);
  EXPECT_NE(one.find("&amp;"), std::string::npos);
  EXPECT_NE(one.find("cross_attention, head 0"), std::string::npos);
  EXPECT_EQ(one.find("<b"), std::string::npos);
  const std::string all = picture_svg(run);
  size_t maps = 0;
  for (size_t at = all.find("<title>"); at != std::string::npos; at = all.find("<title>", at + 1)) ++maps;
  size_t heads = 0;
  for (const RunAttention& attention : run.attention) heads += static_cast<size_t>(attention.heads());
  EXPECT_EQ(maps, heads);
  expect_error<ShapeError>(
      [&] { picture_svg(run, {.attention = 99}); },
      "inspect: there is no attention 99; the run has " + std::to_string(run.attention.size()) + ", counted from 0");
  expect_error<ShapeError>([&] { picture_svg(run, {.head = 0}); },
                           "inspect: a head was given without its layer: give the layer too");
}

TEST(Picture, PngHasTheTextOfTheSvg) {
  if (!TextRenderer(kFontSize).has_fonts()) GTEST_SKIP() << "no fonts are installed (Debian: fonts-dejavu-core)";
  const attend::Run pair = tiny_run(tiny_inspected("transformer"), {.text = "Hm, a w&d.", .target = "MW gj|"});
  expect_text(pair, {});
  for (int64_t a = 0; a < std::ssize(pair.attention); ++a) expect_text(pair, {.attention = a, .head = 1});
  const attend::Run seen = capture(tiny_vision(), {.text = "motley.png", .picture = motley_picture(9, 12)});
  expect_text(seen, {});
  expect_text(seen, {.attention = 1, .head = 0, .query = 3});
}

TEST(Picture, PngIsTheSameEveryTime) {
  const attend::Run run = tiny_run(tiny_inspected("gpt"), {.text = "hello 今天"});
  for (const PictureOptions& options : {PictureOptions{}, PictureOptions{.attention = 0, .head = 1}}) {
    const PngPicture png = picture_png(run, options);
    EXPECT_EQ(png.bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
    EXPECT_EQ(picture_png(run, options).bytes, png.bytes);
  }
}

TEST(Picture, LargePngsAreNotDoubled) {
  const attend::Run run = tiny_run(tiny_inspected("gpt", {{"context", "128"}}), {.text = std::string(96, 'a')});
  const PictureOptions options{.attention = 0, .head = 0};
  EXPECT_EQ(decoded(picture_png(run, options)).width, heat_picture(run, options).width);
}

TEST(Picture, LongTokensAreShortened) {
  attend::Run run = tiny_run(tiny_inspected("gpt"), {.text = "abc"});
  std::string& text = run.sides[0].tokens[1].text;
  for (int i = 0; i < 100000; ++i) text += "天";
  const HeatPicture layout = heat_picture(run, {.attention = 0, .head = 0});
  EXPECT_LT(layout.width, 600);
  EXPECT_LT(layout.height, 600);
  EXPECT_TRUE(std::ranges::any_of(layout.labels, [](const auto& label) { return label.text.ends_with("天…"); }));
}

TEST(TextRenderer, CharactersWithoutAFontAreBoxes) {
  TextRenderer renderer(24);
  if (!renderer.has_fonts()) GTEST_SKIP() << "no fonts are installed (Debian: fonts-dejavu-core)";
  const TextBitmap letters = renderer.draw("ab"), box = renderer.draw("\U000F0000\U000F0000");
  EXPECT_EQ(renderer.missing(), U"\U000F0000");
  EXPECT_GT(letters.advance, 16);
  EXPECT_GT(letters.width, 16);
  EXPECT_EQ(box.height, 18);
  EXPECT_EQ(box.ink[0], 255);
  EXPECT_EQ(box.ink[static_cast<size_t>(9 * box.width + 9)], 0);
  EXPECT_TRUE(renderer.draw("").ink.empty());
  EXPECT_EQ(renderer.draw("\u200d").advance, 0);  // a joiner is invisible
}

TEST(TextRenderer, TriesFurtherFonts) {
  if (!std::filesystem::exists("/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf"))
    GTEST_SKIP() << "DejaVu Serif is not installed (Debian: fonts-dejavu-core)";
  TextRenderer renderer(24);
  EXPECT_FALSE(renderer.draw("a⤀").ink.empty());  // DejaVu Sans lacks this arrow, DejaVu Serif has it
  EXPECT_EQ(renderer.missing(), U"");
}

TEST(TextRenderer, RightToLeftTextIsReordered) {
  TextRenderer renderer(24);
  if (!renderer.has_fonts()) GTEST_SKIP() << "no fonts are installed (Debian: fonts-dejavu-core)";
  const TextBitmap natural = renderer.draw("אבג"), forced = renderer.draw("\u202dגבא\u202c");
  EXPECT_EQ(natural.ink, forced.ink);
  EXPECT_NE(natural.ink, renderer.draw("גבא").ink);
}

}  // namespace
}  // namespace attend::testing
