#include <algorithm>
#include <cmath>

#include "attend/hub/hub.h"
#include "hub/hub_config.h"

namespace attend {
namespace {

using hub::HubConfig;

constexpr double kMostSize = 1 << 14;

/// "size" and "crop_size" are a number, or an object with height and width.
ImageSize size_of(const HubConfig& config, const char* key, int64_t otherwise) {
  if (!config.has(key)) return {otherwise, otherwise};
  if (config.json()[key].is_number()) {
    const int64_t size = config.size(key, kMostSize);
    return {size, size};
  }
  const HubConfig section = config.section(key);
  return {section.size("width", kMostSize), section.size("height", kMostSize)};
}

/// A number for each channel.
std::vector<double> channels_of(const HubConfig& config, const char* key, size_t channels, double otherwise) {
  if (!config.has(key)) return std::vector<double>(channels, otherwise);
  const Json& list = config.json()[key];
  const auto fits = [](const Json& value) { return value.is_number() && std::abs(value.get<double>()) <= 1e6; };
  if (fits(list)) return std::vector<double>(channels, list.get<double>());
  if (!list.is_array() || list.size() != channels || !std::ranges::all_of(list, fits)) {
    config.refuse("'" + std::string(key) + "' must be " + (channels == 1 ? "one number" : "three numbers"));
  }
  return list.get<std::vector<double>>();
}

}  // namespace

ImagePreparation read_image_preparation(const std::string& folder, int64_t image_size, int64_t channel_count) {
  const auto channels = static_cast<size_t>(channel_count);
  const HubConfig config = HubConfig::read(folder, "preprocessor_config.json");
  if (channels != 1 && channels != 3) {
    config.refuse("the model expects images with " + std::to_string(channels) + " channels; PNG and JPEG have 1 or 3");
  }
  ImagePreparation result;
  result.is_resized = config.flag("do_resize", true);
  const bool by_edge = config.has("size") && config.json()["size"].contains("shortest_edge");
  if (by_edge) {
    result.shortest_edge = config.section("size").size("shortest_edge", kMostSize);
  } else {
    result.size = size_of(config, "size", image_size);
  }
  result.resampling = static_cast<Resampling>(config.count("resample", 5, 2));
  if (config.flag("do_center_crop", false)) result.crop = size_of(config, "crop_size", image_size);
  result.factor = config.flag("do_rescale", true) ? config.number("rescale_factor", 1.0 / 255, 0, 1e6) : 1;
  if (config.flag("do_normalize", true)) {
    result.mean = channels_of(config, "image_mean", channels, 0.5);
    result.deviation = channels_of(config, "image_std", channels, 0.5);
  } else {
    result.mean.assign(channels, 0), result.deviation.assign(channels, 1);
  }
  if (std::ranges::any_of(result.deviation, [](double value) { return !(value > 0); })) {
    config.refuse("'image_std' must be greater than 0");
  }
  const ImageSize last = result.crop.width > 0 ? result.crop : result.size;
  const bool fits = last.width == image_size && last.height == image_size && (!by_edge || result.crop.width > 0);
  if (!fits || (!result.is_resized && result.crop.width == 0)) {
    config.refuse("images are not resized to the " + std::to_string(image_size) + " × " + std::to_string(image_size) +
                  " pixels that the model expects");
  }
  return result;
}

}  // namespace attend
