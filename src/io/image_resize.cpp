#include <algorithm>
#include <cmath>
#include <numbers>

#include "attend/base/error.h"
#include "attend/io/image.h"
#include "io/image_codecs.h"

// Resampling as in Pillow (src/libImaging/Resample.c): separable filters that widen when an image shrinks, weights as
// 22-bit fixed-point numbers, each pass rounded to bytes. The same arithmetic gives the same pixels.
namespace attend {
namespace {

constexpr int kBits = 32 - 8 - 2;

struct Filter {
  double support;
  double (*weight)(double x);
};

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }
double box_weight(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }
double bilinear_weight(double x) { return std::max(1 - std::abs(x), 0.0); }
double hamming_weight(double x) {
  const double far = std::abs(x);
  return far >= 1 ? 0 : sinc(far) * (0.54 + 0.46 * std::cos(std::numbers::pi * far));
}
double bicubic_weight(double x) {
  constexpr double a = -0.5;
  const double far = std::abs(x);
  if (far < 1) return ((a + 2) * far - (a + 3)) * far * far + 1;
  return far < 2 ? (((far - 5) * far + 8) * far - 4) * a : 0;
}
double lanczos_weight(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

Filter filter_of(Resampling resampling) {
  switch (resampling) {
    case Resampling::box:
      return {0.5, box_weight};
    case Resampling::bilinear:
      return {1, bilinear_weight};
    case Resampling::hamming:
      return {1, hamming_weight};
    case Resampling::bicubic:
      return {2, bicubic_weight};
    case Resampling::lanczos:
      return {3, lanczos_weight};
    case Resampling::nearest:
      break;
  }
  throw ShapeError("image: unknown resampling filter");
}

/// The source pixels that contribute to one new pixel, with their weights.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Window> windows_of(int64_t from, int64_t to, const Filter& filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), widened = std::max(scale, 1.0);
  const double support = filter.support * widened;
  std::vector<Window> windows;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    std::vector<double> shares;
    double total = 0;
    for (int64_t x = first; x < last; ++x) {
      shares.push_back(filter.weight((static_cast<double>(x) - center + 0.5) * (1 / widened)));
      total += shares.back();
    }
    Window window{.first = first, .weights = {}};
    for (const double share : shares) {
      const double value = (total != 0 ? share / total : share) * (1 << kBits);
      window.weights.push_back(static_cast<int32_t>(value < 0 ? value - 0.5 : value + 0.5));
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

/// One row or column to resample. The steps are in bytes: 3 along a row, the size of a row along a column.
struct Line {
  const uint8_t* from;
  uint8_t* to;
  int64_t from_step, to_step;
};

void resample(const Line& line, const std::vector<Window>& windows) {
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    for (int64_t c = 0; c < 3; ++c) {
      const uint8_t* pixel = line.from + window.first * line.from_step + c;
      int32_t sum = 1 << (kBits - 1);
      for (const int32_t weight : window.weights) sum += *pixel * weight, pixel += line.from_step;
      line.to[static_cast<int64_t>(i) * line.to_step + c] = static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
    }
  }
}

Image blank(int64_t width, int64_t height) {
  return {.width = width, .height = height, .pixels = std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
}

Image nearest(const Image& image, ImageSize size) {
  Image result = blank(size.width, size.height);
  const double across = static_cast<double>(image.width) / static_cast<double>(size.width);
  const double down = static_cast<double>(image.height) / static_cast<double>(size.height);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const auto from_x = std::min(static_cast<int64_t>((static_cast<double>(x) + 0.5) * across), image.width - 1);
      const auto from_y = std::min(static_cast<int64_t>((static_cast<double>(y) + 0.5) * down), image.height - 1);
      for (int64_t c = 0; c < 3; ++c) {
        result.pixels[static_cast<size_t>((y * size.width + x) * 3 + c)] = image.at(from_x, from_y, c);
      }
    }
  }
  return result;
}

}  // namespace

Image resized(const Image& image, ImageSize size, Resampling resampling) {
  require<ShapeError>(size.width >= 1 && size.height >= 1 && size.width <= kMostPixels / size.height,
                      "image: cannot resize to ", size.width, " × ", size.height, " pixels");
  if (size.width == image.width && size.height == image.height) return image;
  if (resampling == Resampling::nearest) return nearest(image, size);
  const Filter filter = filter_of(resampling);
  Image across = blank(size.width, image.height), result = blank(size.width, size.height);
  if (size.width == image.width) {
    across = image;
  } else {
    const auto windows = windows_of(image.width, size.width, filter);
    for (int64_t y = 0; y < image.height; ++y) {
      resample({&image.pixels[static_cast<size_t>(y * image.width * 3)],
                &across.pixels[static_cast<size_t>(y * size.width * 3)], 3, 3},
               windows);
    }
  }
  if (size.height == image.height) return across;
  const auto windows = windows_of(image.height, size.height, filter);
  for (int64_t x = 0; x < size.width; ++x) {
    resample({&across.pixels[static_cast<size_t>(x * 3)], &result.pixels[static_cast<size_t>(x * 3)], size.width * 3,
              size.width * 3},
             windows);
  }
  return result;
}

}  // namespace attend
