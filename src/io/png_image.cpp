#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>

#include "attend/base/error.h"
#include "io/image_codecs.h"

namespace attend {
namespace {

/// State of libpng's callbacks: the input, the read position and the error message.
struct Source {
  std::span<const std::byte> bytes;
  size_t next = 0;
  char message[160] = "";
};

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.bytes.size() - source.next) png_error(png, "unexpected end of file");
  std::memcpy(out, source.bytes.data() + source.next, count);
  source.next += count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& source = *static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source.message, message, sizeof source.message - 1);
  std::longjmp(png_jmpbuf(png), 1);  // libpng is C: no exception may pass through it
}

void on_warning(png_structp, png_const_charp) {}

/// libpng's two objects.
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Decoder(Source& source)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning)),
        info(png ? png_create_info_struct(png) : nullptr) {
    if (png) png_set_read_fn(png, &source, read_bytes);
  }
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

// Functions that call setjmp hold no object with a destructor: jumping over a destructor is undefined behaviour.

bool read_header(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_set_user_limits(decoder.png, 1 << 20, 1 << 20);
  png_set_chunk_malloc_max(decoder.png, 1 << 24);
  png_read_info(decoder.png, decoder.info);
  png_set_expand(decoder.png);
  png_set_strip_16(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, png_bytep* rows) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_read_image(decoder.png, rows);
  return true;
}

}  // namespace

Image decode_png(std::span<const std::byte> bytes, int64_t most_pixels) {
  Source source{.bytes = bytes};
  Decoder decoder(source);
  require<Error>(decoder.info != nullptr, "out of memory while reading a PNG");
  require<FormatError>(read_header(decoder), "cannot read this PNG: ", source.message);
  Image image{.width = png_get_image_width(decoder.png, decoder.info),
              .height = png_get_image_height(decoder.png, decoder.info),
              .pixels = {}};
  check_image_size(image.width, image.height, most_pixels);
  const auto row_bytes = static_cast<size_t>(image.width) * 3;
  require<FormatError>(png_get_rowbytes(decoder.png, decoder.info) == row_bytes, "cannot read this PNG");
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y) rows.push_back(image.pixels.data() + static_cast<size_t>(y) * row_bytes);
  require<FormatError>(read_rows(decoder, rows.data()), "cannot read this PNG: ", source.message);
  return image;
}

std::string encode_png(const Image& image) {
  require<ShapeError>(
      image.width >= 1 && image.height >= 1 && std::ssize(image.pixels) == image.width * image.height * 3,
      "image: expected ", image.width, " × ", image.height, " × 3 bytes, got ", image.pixels.size());
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&png, nullptr, &size, 0, image.pixels.data(), 0, nullptr);
  std::string out(size, '\0');
  const int done = png_image_write_to_memory(&png, out.data(), &size, 0, image.pixels.data(), 0, nullptr);
  require<Error>(done != 0, "image: cannot write the PNG: ", png.message);
  out.resize(size);
  return out;
}

}  // namespace attend
