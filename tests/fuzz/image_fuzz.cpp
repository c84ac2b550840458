// Any bytes either decode to an image or throw FormatError with one line. An image has as many pixels as it declares.
#include <cstdlib>
#include <cstring>

#include "attend/base/error.h"
#include "attend/io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    constexpr int64_t kMostPixels = 1 << 24;  // larger images take the same code path, only longer
    const attend::Image image = attend::decode_image(std::as_bytes(std::span(data, size)), "fuzz", kMostPixels);
    if (image.pixels.size() != static_cast<size_t>(image.width * image.height * 3)) std::abort();
    if (image.width * image.height < 1 << 16) attend::resized(image, {5, 3}, attend::Resampling::bicubic);
  } catch (const attend::FormatError& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  return 0;
}
