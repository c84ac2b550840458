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
constexpr int64_t kTitle = 40;  // above a map: the layer's name, and the head's below it

std::string head_name(int64_t head) { return "head " + std::to_string(head); }

std::vector<std::string> labels_of(const RunSide& side) {
  std::vector<std::string> labels;
  for (const ShownToken& token : side.tokens) labels.push_back(token.text == " " ? "␣" : visible(token.text));
  return labels;
}

int64_t widest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels) width = std::max(width, text_width(label));
  return static_cast<int64_t>(width * 13) + 12;
}

/// The place in Run::attention and the head of a picture's only map.
struct Chosen {
  int64_t attention = 0, head = 0;
};

HeatPicture one_head(const Run& run, const Chosen& chosen) {
  const RunAttention& attention = attention_at(run, chosen.attention);
  const std::string name = std::to_string(chosen.attention) + "/" + std::to_string(chosen.head);
  const int64_t longest = std::max(attention.queries(), attention.keys());
  require<ShapeError>(longest <= kMostCells, "inspect: a picture of one head shows at most ", kMostCells,
                      " tokens, got ", longest, "; all heads together are drawn small");
  const Array weights = run_array(run, "weights/" + name);
  HeatPicture picture;
  picture.cell = longest <= kLabelled ? 22 : 2;
  HeatMap map{.title = attention.trace.path,
              .detail = head_name(chosen.head),
              .rows = weights.shape[0],
              .columns = weights.shape[1],
              .values = weights.values};
  int64_t left = kMapGap, top = kMapGap + kTitle;
  if (picture.cell > 2) {
    picture.row_labels = labels_of(run.sides[static_cast<size_t>(attention.query_side)]);
    picture.column_labels = labels_of(run.sides[static_cast<size_t>(attention.key_side)]);
    left += widest(picture.row_labels);
    top += widest(picture.column_labels);
  }
  map.x = left, map.y = top;
  map.width = map.columns * picture.cell, map.height = map.rows * picture.cell;
  picture.width = left + map.width + kMapGap, picture.height = top + map.height + kMapGap;
  picture.maps.push_back(std::move(map));
  return picture;
}

/// Where a map is drawn: columns and rows of maps of one size.
struct MapPlace {
  int64_t row = 0, column = 0, size = 0;
};
void place(HeatPicture& picture, HeatMap map, const MapPlace& at) {
  map.x = kMapGap + at.column * (at.size + kMapGap);
  map.y = kMapGap + kTitle + at.row * (at.size + kMapGap + kTitle);
  map.width = map.height = at.size;
  picture.width = std::max(picture.width, map.x + map.width + kMapGap);
  picture.height = std::max(picture.height, map.y + map.height + kMapGap);
  picture.maps.push_back(std::move(map));
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

/// The weights of one row over the patches, the largest as 1; what is not a patch is left out.
HeatMap patch_map(const Run& run, const std::string& array, int64_t query) {
  const RunSide& side = run.sides[0];
  const auto tokens = std::ssize(side.tokens);
  require<ShapeError>(query >= 0 && query < tokens, "inspect: there is no token ", query, "; the picture has ", tokens,
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

/// From white to a dark blue through green, in steps that are read alike with every kind of colour vision: corners of
/// the scale, mixed linearly.
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

/// Over a picture from a dark veil to a light tint, so that both black and white ones show what is lit.
Paint paint_of(float weight, bool is_laid_over) {
  const double share = std::clamp(static_cast<double>(weight), 0.0, 1.0);
  if (!is_laid_over) return {.colour = colour_of(share)};
  constexpr std::array<double, 3> kTint{255, 158, 44};
  Paint paint{.opacity = std::lerp(0.8, 0.2, share)};
  for (size_t i = 0; i < 3; ++i) paint.colour[i] = static_cast<unsigned char>(std::lround(kTint[i] * share));
  return paint;
}

HeatPicture heat_picture(const Run& run, const PictureOptions& options) {
  require<ShapeError>(!options.head || options.attention, "inspect: a head belongs to a layer: choose one too");
  require<ShapeError>(!run.attention.empty(), "inspect: the model has no attention to draw");
  if (options.attention) {
    const RunAttention& attention = attention_at(run, *options.attention);
    if (options.head) check_head(attention, *options.head);
  }
  if (run.sides[0].picture) return over_picture(run, options);
  require<ShapeError>(options.query == 0 && !options.is_rollout,
                      "inspect: a query and rollout are drawn over pictures, which this model does not read");
  if (!options.head) return overview(run, options.attention);
  return one_head(run, {*options.attention, *options.head});
}

}  // namespace attend
