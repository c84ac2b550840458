#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attend/inspect/run.h"

namespace attend {

struct PictureOptions {
  std::optional<int64_t> attention;  ///< index in Run::attention; default: all
  std::optional<int64_t> head;       ///< default: all
  // For image models only:
  int64_t query = 0;        ///< index of the query token; 0 is [CLS]
  bool is_rollout = false;  ///< draw attention rollout instead of weights, see rollout() in attend/inspect/heads.h
};

/// Draws attention weights as heat maps with a colour bar; dark cells are large weights. For one head, each weight is a
/// cell and each row a query, labelled with tokens if there are at most 128. For several heads, a grid of thumbnails
/// with a row for each attention and a column for each head. For an image model, each map is the image, with the
/// brightness of a patch proportional to the query's weight; the largest weight has full brightness. Text may contain
/// any bytes. The SVG is self-contained. Throws ShapeError if the attention, the head or the query does not exist.
std::string picture_svg(const Run& run, const PictureOptions& options = {});

struct PngPicture {
  std::string bytes;    ///< the PNG file
  std::string warning;  ///< one line that lists characters without an installed font, and what to install; may be empty
};
/// The same drawing as PNG, at twice the resolution if that gives at most 16 million pixels. Text is drawn with
/// installed fonts, found by fontconfig; the pixels therefore depend on the machine's fonts.
PngPicture picture_png(const Run& run, const PictureOptions& options = {});

}  // namespace attend
