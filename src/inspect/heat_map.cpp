#include "inspect/heat_map.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "attend/inspect/arrays.h"
#include "attend/text/segment.h"
#include "inspect/summaries.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr int64_t kLabelled = 128, kMostCells = 512, kThumbnail = 64;
constexpr int64_t kThumbnailSize = 96, kSmallPicture = 144, kLargePicture = 448;
constexpr int64_t kMapGap = 12;
constexpr int64_t kTitle = 40;        // height above a map: the layer's name, and below it the head's
constexpr double kLongestLabel = 30;  // in em

std::string head_name(int64_t head) { return "head " + std::to_string(head); }

/// Width to reserve for a line of text: its estimated width plus a margin, since fonts differ.
int64_t room_for(const std::string& text) {
  return static_cast<int64_t>(text_width(text) * static_cast<double>(kFontSize + 1)) + kMapGap;
}

/// The label of a token; long tokens are shortened.
std::string label_of(const ShownToken& token) {
  if (token.text == " ") return "␣";
  const std::string text = visible(token.text);
  if (text_width(text) <= kLongestLabel) return text;
  std::string kept;
  for (const std::string& character : graphemes(text)) {
    if (text_width(kept + character) > kLongestLabel) break;
    kept += character;
  }
  return kept + "…";
}

std::vector<std::string> labels_of(const RunSide& side) {
  std::vector<std::string> labels;
  for (const ShownToken& token : side.tokens) labels.push_back(label_of(token));
  return labels;
}

int64_t widest(const std::vector<std::string>& labels) {
  int64_t width = 0;
  for (const std::string& label : labels) width = std::max(width, room_for(label));
  return width;
}

/// Adds a left-aligned label and widens the picture to fit it.
void add_line(HeatPicture& picture, PictureLabel label) {
  picture.width = std::max(picture.width, label.x + room_for(label.text) + kMapGap);
  picture.labels.push_back(std::move(label));
}

/// Labels the rows and columns of a single-map picture with their tokens.
void add_tokens(HeatPicture& picture, const std::vector<std::string>& rows, const std::vector<std::string>& columns) {
  constexpr int64_t kToBaseline = 15, kToMap = 6;
  const HeatMap& map = picture.maps[0];
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const int64_t y = map.y + i * map.height / map.rows + kToBaseline;
    picture.labels.push_back({.text = rows[static_cast<size_t>(i)], .x = map.x - kToMap, .y = y, .ends_here = true});
  }
  for (int64_t i = 0; i < std::ssize(columns); ++i) {
    const int64_t x = map.x + i * map.width / map.columns + kToBaseline;
    picture.labels.push_back(
        {.text = columns[static_cast<size_t>(i)], .x = x, .y = map.y - kToMap, .runs_upward = true});
  }
}

/// The head shown by a single-map picture; `attention` is an index into Run::attention.
struct Chosen {
  int64_t attention = 0, head = 0;
};

HeatPicture one_head(const Run& run, const Chosen& chosen) {
  const RunAttention& attention = attention_at(run, chosen.attention);
  const std::string name = std::to_string(chosen.attention) + "/" + std::to_string(chosen.head);
  const int64_t longest = std::max(attention.queries(), attention.keys());
  require<ShapeError>(longest <= kMostCells, "inspect: a picture of one head shows at most ", kMostCells,
                      " tokens, got ", longest, "; leave out the head to draw all heads as thumbnails");
  const Array weights = run_array(run, "weights/" + name);
  const int64_t cell = longest <= kLabelled ? 22 : 2;
  std::vector<std::string> rows, columns;
  if (longest <= kLabelled) {
    rows = labels_of(run.sides[static_cast<size_t>(attention.query_side)]);
    columns = labels_of(run.sides[static_cast<size_t>(attention.key_side)]);
  }
  HeatPicture picture;
  HeatMap map{.title = attention.trace.path,
              .detail = head_name(chosen.head),
              .rows = weights.shape[0],
              .columns = weights.shape[1],
              .values = weights.values};
  map.x = kMapGap + widest(rows), map.y = kMapGap + kTitle + widest(columns);
  map.width = map.columns * cell, map.height = map.rows * cell;
  picture.width = map.x + map.width + kMapGap, picture.height = map.y + map.height + kMapGap;
  add_line(picture, {.text = map.title, .x = kMapGap, .y = kMapGap + kTitle - 24});
  add_line(picture, {.text = map.detail, .x = kMapGap, .y = kMapGap + kTitle - 7});
  picture.maps.push_back(std::move(map));
  add_tokens(picture, rows, columns);
  return picture;
}

/// A cell in the grid of maps, all of the same size.
struct MapPlace {
  int64_t row = 0, column = 0, size = 0;
};
void place(HeatPicture& picture, HeatMap map, const MapPlace& at) {
  map.x = kMapGap + at.column * (at.size + kMapGap);
  map.y = kMapGap + kTitle + at.row * (at.size + kMapGap + kTitle);
  map.width = map.height = at.size;
  picture.width = std::max(picture.width, map.x + map.width + kMapGap);
  picture.height = std::max(picture.height, map.y + map.height + kMapGap);
  const bool is_first = picture.maps.empty() || picture.maps.back().title != map.title;
  if (is_first) add_line(picture, {.text = map.title, .x = kMapGap, .y = map.y - 24});
  add_line(picture, {.text = map.detail, .x = map.x, .y = map.y - 7});
  picture.maps.push_back(std::move(map));
}

/// Adds a colour bar below the maps. On top of an image, weights are shown relative to the largest one.
void add_legend(HeatPicture& picture) {
  constexpr int64_t kSteps = 64, kWidest = 256, kHeight = 14, kBeside = 16;
  HeatMap& legend = picture.legend;
  legend = {.title = {}, .detail = {}, .rows = 1, .columns = kSteps, .values = {}};
  for (int64_t i = 0; i < kSteps; ++i) legend.values.push_back(static_cast<float>(i) / (kSteps - 1));
  const std::string most = picture.under ? "max" : "1";
  legend.x = kMapGap + kBeside, legend.y = picture.height, legend.height = kHeight;
  picture.width = std::max(picture.width, legend.x + kSteps + room_for(most) + kMapGap);
  legend.width = std::min(kWidest, picture.width - legend.x - room_for(most) - kMapGap);
  const int64_t baseline = legend.y + kHeight - 3;
  add_line(picture, {.text = "0", .x = kMapGap, .y = baseline});
  add_line(picture, {.text = most, .x = legend.x + legend.width + kMapGap / 2, .y = baseline});
  picture.height = legend.y + kHeight + kMapGap;
}

HeatPicture overview(const Run& run, std::optional<int64_t> only) {
  HeatPicture picture;
  int64_t row = 0;
  for (int64_t a = 0; a < std::ssize(run.attention); ++a) {
    if (only && *only != a) continue;
    const RunAttention& attention = run.attention[static_cast<size_t>(a)];
    const Array all = run_array(run, "thumbnails/" + std::to_string(kThumbnail) + "/" + std::to_string(a));
    const auto size = static_cast<ptrdiff_t>(all.shape[1] * all.shape[2]);
    for (int64_t head = 0; head < attention.heads(); ++head) {
      const auto first = all.values.begin() + static_cast<ptrdiff_t>(head) * size;
      place(picture,
            {.title = attention.trace.path,
             .detail = head_name(head),
             .rows = all.shape[1],
             .columns = all.shape[2],
             .values = {first, first + size}},
            {.row = row, .column = head, .size = kThumbnailSize});
    }
    ++row;
  }
  return picture;
}

/// The weights of one query over the image's patches, divided by the largest. Tokens that are not patches are left out.
HeatMap patch_map(const Run& run, const std::string& array, int64_t query) {
  const RunSide& side = run.sides[0];
  const auto tokens = std::ssize(side.tokens);
  require<ShapeError>(query >= 0 && query < tokens, "inspect: there is no token ", query, "; the image has ", tokens,
                      ", counted from 0");
  HeatMap map{.title = {},
              .detail = side.tokens[static_cast<size_t>(query)].text,
              .rows = side.picture->rows,
              .columns = side.picture->columns,
              .values = run_array(run, array, {.first_row = query, .end_row = query + 1, .end_column = {}}).values};
  map.values.erase(map.values.begin());
  const float most = std::max(*std::ranges::max_element(map.values), 1e-30f);
  for (float& value : map.values) value /= most;
  return map;
}

HeatPicture over_picture(const Run& run, const PictureOptions& options) {
  HeatPicture picture;
  picture.under = &run.sides[0].picture->image;
  if (options.is_rollout) {
    HeatMap map = patch_map(run, "rollout/" + run.attention.at(0).stack, options.query);
    map.title = "rollout";
    place(picture, std::move(map), {.size = kLargePicture});
    return picture;
  }
  const int64_t size = options.head ? kLargePicture : kSmallPicture;
  int64_t row = 0;
  for (int64_t a = 0; a < std::ssize(run.attention); ++a) {
    if (options.attention && *options.attention != a) continue;
    const RunAttention& attention = run.attention[static_cast<size_t>(a)];
    for (int64_t head = 0, column = 0; head < attention.heads(); ++head) {
      if (options.head && *options.head != head) continue;
      HeatMap map = patch_map(run, "weights/" + std::to_string(a) + "/" + std::to_string(head), options.query);
      map.title = attention.trace.path;
      map.detail = head_name(head) + " · " + map.detail;
      place(picture, std::move(map), {.row = row, .column = column++, .size = size});
    }
    ++row;
  }
  return picture;
}

/// A colour scale from white through green to dark blue, interpolated linearly between five colours. Its steps are
/// distinguishable with every kind of colour vision.
Colour colour_of(double weight) {
  constexpr std::array<std::array<double, 3>, 5> kCorners{
      {{255, 255, 255}, {199, 233, 220}, {84, 174, 186}, {32, 98, 156}, {8, 29, 88}}};
  const double place = weight * (kCorners.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), kCorners.size() - 2);
  Colour colour{};
  for (size_t i = 0; i < 3; ++i) {
    const double mixed = std::lerp(kCorners[below][i], kCorners[below + 1][i], place - static_cast<double>(below));
    colour[i] = static_cast<unsigned char>(std::lround(mixed));
  }
  return colour;
}

}  // namespace

/// On top of an image, weights go from a dark veil to a light tint, so that high weights stand out on black images and
/// on white ones.
Paint paint_of(float weight, bool is_laid_over) {
  const double share = std::clamp(static_cast<double>(weight), 0.0, 1.0);
  if (!is_laid_over) return {.colour = colour_of(share)};
  constexpr std::array<double, 3> kTint{255, 158, 44};
  Paint paint{.opacity = std::lerp(0.8, 0.2, share)};
  for (size_t i = 0; i < 3; ++i) paint.colour[i] = static_cast<unsigned char>(std::lround(kTint[i] * share));
  return paint;
}

HeatPicture heat_picture(const Run& run, const PictureOptions& options) {
  require<ShapeError>(!options.head || options.attention,
                      "inspect: a head was given without its layer: give the layer too");
  require<ShapeError>(!run.attention.empty(), "inspect: the model has no attention to draw");
  if (options.attention) {
    const RunAttention& attention = attention_at(run, *options.attention);
    if (options.head) check_head(attention, *options.head);
  }
  const bool is_over_picture = run.sides[0].picture.has_value();
  require<ShapeError>(is_over_picture || (options.query == 0 && !options.is_rollout),
                      "inspect: query and rollout pictures need an image model, and this model reads text");
  HeatPicture picture = is_over_picture ? over_picture(run, options)
                        : options.head  ? one_head(run, {*options.attention, *options.head})
                                        : overview(run, options.attention);
  add_legend(picture);
  return picture;
}

}  // namespace attend
