#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include "attend/base/error.h"
#include "io/image_codecs.h"

namespace attend {
namespace {

/// libjpeg's error handler, with the place to jump to on an error.
struct Failure {
  jpeg_error_mgr manager;  // must be the first member: libjpeg passes its address back
  std::jmp_buf place;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto& failure = *reinterpret_cast<Failure*>(jpeg->err);
  failure.manager.format_message(jpeg, failure.message);
  const int code = failure.manager.msg_code;
  if (code == JERR_NO_BACKING_STORE || code == JERR_OUT_OF_MEMORY) {
    std::strncpy(failure.message, "decoding needs too much memory", sizeof failure.message - 1);
  }
  std::longjmp(failure.place, 1);  // libjpeg is C: no exception may pass through it
}

/// Warnings report damaged data, which libjpeg would decode to gray areas: treat them as errors.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0) on_error(jpeg);
}

/// Limits on the scans of a progressive image: each scan is a pass over the whole image. Encoders write about ten.
constexpr int kMostScans = 100, kUsualScans = 16;
constexpr int64_t kMostScannedPixels = int64_t{1} << 30;  // of all scans together
// libjpeg holds a progressive image as coefficients of 2 bytes each until the last scan has been read.
constexpr int64_t kCoefficientBytes = 4, kOtherBytes = 16 << 20;

/// Progress callback of libjpeg.
struct Progress {
  jpeg_progress_mgr manager;  // must be the first member: libjpeg passes its address back
  int most_scans = 0;
};

void on_progress(j_common_ptr jpeg) {
  const auto& progress = *reinterpret_cast<const Progress*>(jpeg->progress);
  const auto& decompress = *reinterpret_cast<const jpeg_decompress_struct*>(jpeg);
  if (decompress.input_scan_number <= progress.most_scans) return;
  auto& failure = *reinterpret_cast<Failure*>(jpeg->err);
  std::snprintf(failure.message, sizeof failure.message, "more than %d scans", progress.most_scans);
  std::longjmp(failure.place, 1);
}

struct Decoder {
  jpeg_decompress_struct jpeg{};
  Failure failure{};
  Progress progress{};

  Decoder() {
    jpeg.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = on_error;
    failure.manager.emit_message = on_message;
  }
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }

  void limit_work(const Image& image, int64_t most_pixels) {
    const int64_t pixels = image.width * image.height;
    progress.most_scans = static_cast<int>(std::clamp<int64_t>(kMostScannedPixels / pixels, kUsualScans, kMostScans));
    progress.manager.progress_monitor = on_progress;
    jpeg.progress = &progress.manager;
    jpeg.mem->max_memory_to_use = static_cast<long>(kCoefficientBytes * most_pixels + kOtherBytes);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

// Functions that call setjmp hold no object with a destructor: jumping over a destructor is undefined behaviour.

bool read_header(Decoder& decoder, std::span<const std::byte> bytes) {
  if (setjmp(decoder.failure.place)) return false;
  jpeg_create_decompress(&decoder.jpeg);
  jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder.jpeg, TRUE);
  decoder.jpeg.out_color_space = JCS_RGB;
  return true;
}

bool read_rows(Decoder& decoder, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(decoder.failure.place)) return false;
  jpeg_start_decompress(&decoder.jpeg);
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = pixels + decoder.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&decoder.jpeg);
  return true;
}

/// Reads numbers from the TIFF block inside Exif, in the byte order that the block declares.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes), is_little_(bytes.size() > 1 && byte(0) == 'I') {}

  size_t number(size_t at, size_t count) const {
    size_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= byte(at + i) << 8 * (is_little_ ? i : count - 1 - i);
    return value;
  }

 private:
  size_t byte(size_t at) const { return at < bytes_.size() ? static_cast<size_t>(bytes_[at]) : 0; }
  std::span<const std::byte> bytes_;
  bool is_little_;
};

int orientation_in(std::span<const std::byte> tiff) {
  constexpr size_t kOrientation = 0x112, kEntryBytes = 12;
  const Tiff numbers(tiff);
  const size_t directory = numbers.number(4, 4), entries = numbers.number(directory, 2);
  for (size_t i = 0; i < entries && directory + i * kEntryBytes < tiff.size(); ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (numbers.number(entry, 2) != kOrientation) continue;
    const size_t value = numbers.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, int64_t most_pixels) {
  Decoder decoder;
  const auto refused = [&] { return std::string("cannot read this JPEG: ") + decoder.failure.message; };
  if (!read_header(decoder, bytes)) throw FormatError(refused());
  const J_COLOR_SPACE colours = decoder.jpeg.jpeg_color_space;
  require<FormatError>(colours != JCS_CMYK && colours != JCS_YCCK,
                       "CMYK JPEGs are not supported; save the image as RGB");
  Image image{.width = decoder.jpeg.image_width, .height = decoder.jpeg.image_height, .pixels = {}};
  check_image_size(image.width, image.height, most_pixels);
  decoder.limit_work(image, most_pixels);
  const auto row_bytes = static_cast<size_t>(image.width) * 3;
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  if (!read_rows(decoder, image.pixels.data(), row_bytes)) throw FormatError(refused());
  return image;
}

int jpeg_orientation(std::span<const std::byte> bytes) {
  constexpr int kExif = 0xe1, kScan = 0xda;
  const auto byte = [&](size_t at) { return at < bytes.size() ? static_cast<int>(bytes[at]) : -1; };
  for (size_t at = 2; byte(at) == 0xff && byte(at + 1) != kScan && byte(at + 3) >= 0;) {
    const auto length = static_cast<size_t>(byte(at + 2) << 8 | byte(at + 3));
    if (byte(at + 1) == kExif && length >= 8 && at + 2 + length <= bytes.size() &&
        std::memcmp(&bytes[at + 4], "Exif\0\0", 6) == 0) {
      return orientation_in(bytes.subspan(at + 10, length - 8));
    }
    at += 2 + std::max<size_t>(length, 2);
  }
  return 1;
}

}  // namespace attend
