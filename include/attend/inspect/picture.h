#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attend/inspect/run.h"

namespace attend {

struct PictureOptions {
  std::optional<int64_t> attention;  ///< place in Run::attention; none: all of them
  std::optional<int64_t> head;       ///< none: all of them
  // Of a model that reads pictures:
  int64_t query = 0;        ///< the token whose looks are shown; 0 is [CLS]
  bool is_rollout = false;  ///< what reaches it through all layers, see rollout() in attend/inspect/heads.h
};

/// The weights as heat maps, dark where they are large, above a bar of the colours. One head: each weight a cell, rows
/// are queries, with tokens at both sides where there are at most 128. Otherwise a grid: attentions downwards, heads
/// across, as thumbnails. For a picture each map is the picture itself, patches lit as far as the query looks at them,
/// 1 being the one it looks at most. Text may be any; nothing is loaded from elsewhere. Throws ShapeError for what is
/// not there.
std::string picture_svg(const Run& run, const PictureOptions& options = {});

struct PngPicture {
  std::string bytes;    ///< the file
  std::string warning;  ///< one line that names characters no installed font has, and what to install; else empty
};
/// The same picture as PNG, in twice the resolution where it then has at most 16 million pixels. Text is drawn with the
/// fonts installed on this machine, found by fontconfig: other fonts give other pixels.
PngPicture picture_png(const Run& run, const PictureOptions& options = {});

}  // namespace attend
