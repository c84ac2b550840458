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

/// The weights as heat maps, dark where they are large. One head: each weight a cell, rows are queries, with tokens at
/// both sides where there are at most 128. Otherwise a grid: attentions downwards, heads across, as thumbnails. For a
/// picture each map is the picture itself, patches lit as far as the query looks at them, 1 being the one it looks at
/// most. Text may be any; nothing is loaded from elsewhere. Throws ShapeError for what is not there.
std::string picture_svg(const Run& run, const PictureOptions& options = {});
/// The same as PNG, without text, and with a bar of the colours from 0 to 1 below.
std::string picture_png(const Run& run, const PictureOptions& options = {});

}  // namespace attend
