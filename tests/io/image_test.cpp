// Images: files written by libpng and libjpeg are read back, damaged files give one line of error, and resizing matches
// the reference.
#include "attend/io/image.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
// libjpeg needs stdio.h first.
#include <jpeglib.h>

#include <zlib.h>
#include <cstring>

#include <filesystem>
#include <fstream>

#include "attend/base/error.h"
#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

using testing::expect_error;

std::string png_of(const std::vector<uint8_t>& pixels, uint32_t width, uint32_t height, uint32_t format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width, image.height = height, image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

std::string jpeg_of(const std::vector<uint8_t>& pixels, int width, int height, int channels) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width), jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<JSAMPROW>(&pixels[static_cast<size_t>(y * width * channels)]);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return bytes;
}

Image decode(const std::string& bytes) { return decode_image(std::as_bytes(std::span(bytes)), "x"); }

/// An image whose left half is red and right half blue.
std::vector<uint8_t> halves(int width, int height) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < width * height; ++i) {
    const bool left = i % width < width / 2;
    pixels.insert(pixels.end(), {static_cast<uint8_t>(left ? 250 : 5), 10, static_cast<uint8_t>(left ? 5 : 250)});
  }
  return pixels;
}

TEST(Image, PngRoundTripsExactly) {
  const std::vector<uint8_t> pixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3, 40, 50, 60, 70, 80, 90};
  const Image image = decode(png_of(pixels, 3, 2, PNG_FORMAT_RGB));
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.pixels, pixels);
  EXPECT_EQ(image.at(1, 0, 1), 255);
  EXPECT_EQ(decode(png_of({7, 200}, 2, 1, PNG_FORMAT_GRAY)).pixels, (std::vector<uint8_t>{7, 7, 7, 200, 200, 200}));
  EXPECT_EQ(decode(png_of({9, 8, 7, 0, 6, 5, 4, 128}, 2, 1, PNG_FORMAT_RGBA)).pixels,
            (std::vector<uint8_t>{9, 8, 7, 6, 5, 4}));  // the alpha channel is dropped, not blended
}

TEST(Image, JpegIsCloseToTheOriginal) {
  const auto pixels = halves(32, 16);
  const Image image = decode(jpeg_of(pixels, 32, 16, 3));
  ASSERT_EQ(image.pixels.size(), pixels.size());
  EXPECT_NEAR(image.at(2, 2, 0), 250, 6);
  EXPECT_NEAR(image.at(30, 2, 2), 250, 6);
  const Image gray = decode(jpeg_of(std::vector<uint8_t>(64, 100), 8, 8, 1));
  EXPECT_NEAR(gray.at(4, 4, 0), 100, 2);
  EXPECT_EQ(gray.at(4, 4, 0), gray.at(4, 4, 2));
}

TEST(Image, ExifTurnsAJpegUpright) {
  const std::string plain = jpeg_of(halves(32, 16), 32, 16, 3);
  const auto turned = [&](char orientation) {
    std::string exif("Exif\0\0MM\0*\0\0\0\x8\0\x1\x1\x12\0\x3\0\0\0\x1\0", 25);
    exif += std::string(1, orientation) + std::string("\0\0\0\0\0\0", 6);
    const std::string marker{'\xff', '\xe1', '\0', static_cast<char>(exif.size() + 2)};
    return decode(plain.substr(0, 2) + marker + exif + plain.substr(2));
  };
  EXPECT_NEAR(turned(1).at(2, 8, 0), 250, 8);
  EXPECT_NEAR(turned(3).at(2, 8, 2), 250, 8);  // rotated by 180°: blue on the left
  const Image right = turned(6);               // by 90°: red on top
  EXPECT_EQ(right.width, 16);
  EXPECT_EQ(right.height, 32);
  EXPECT_NEAR(right.at(8, 2, 0), 250, 8);
  EXPECT_NEAR(turned(8).at(8, 2, 2), 250, 8);  // by 90° the other way: blue on top
}

TEST(Image, DamagedFilesAreRefusedInOneLine) {
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      decode(bytes);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("GIF89a"), "x: expected a PNG or a JPEG");
  EXPECT_EQ(message(""), "x: expected a PNG or a JPEG");
  const std::string png = png_of(std::vector<uint8_t>(300 * 200 * 3, 9), 300, 200, PNG_FORMAT_RGB);
  EXPECT_EQ(message(png.substr(0, 60)), "x: cannot read this PNG: unexpected end of file");
  EXPECT_EQ(message(png.substr(0, 10)), "x: cannot read this PNG: unexpected end of file");
  const std::string jpeg = jpeg_of(halves(64, 64), 64, 64, 3);
  EXPECT_TRUE(message(jpeg.substr(0, jpeg.size() / 2)).starts_with("x: cannot read this JPEG: "));
  EXPECT_TRUE(message(jpeg.substr(0, 30)).starts_with("x: cannot read this JPEG: "));
  EXPECT_EQ(message(jpeg_of(std::vector<uint8_t>(256, 9), 8, 8, 4)),
            "x: CMYK JPEGs are not supported; save the image as RGB");
  // An image is complete once its last row is present, with or without the end marker.
  for (size_t cut = 0; cut + 20 < png.size(); cut += 7) EXPECT_NE(message(png.substr(0, cut)), "") << cut;
  for (size_t cut = 0; cut + 2 < jpeg.size(); cut += 7) EXPECT_NE(message(jpeg.substr(0, cut)), "");
}

TEST(Image, AnAbsurdSizeIsRefusedBeforeAllocation) {
  std::string png = png_of({1, 2, 3}, 1, 1, PNG_FORMAT_RGB);
  std::memcpy(&png[16], "\0\x0f\xff\xff\0\x0f\xff\xff", 8);  // width and height
  uint32_t sum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(&png[12]), 17));
  for (int i = 0; i < 4; ++i) png[static_cast<size_t>(29 + i)] = static_cast<char>(sum >> (24 - 8 * i));
  expect_error<FormatError>([&] { decode(png); },
                            "x: image of 1048575 × 1048575 pixels is too large; the limit is 134217728 pixels");
}

/// A uniform image as a progressive JPEG: one scan for the mean, then scans of a single coefficient each.
std::string progressive_jpeg(int size, int channels, int scans) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  jpeg.image_width = jpeg.image_height = static_cast<JDIMENSION>(size);
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  for (int i = 0; i < channels; ++i) jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  std::vector<jpeg_scan_info> script{{channels, {0, 1, 2, 0}, 0, 0, 0, 0}};
  for (int i = 0; i + 1 < scans; ++i) {  // two bits of each coefficient, then the last one
    const int coefficient = 1 + i / 2;
    script.push_back({1, {0, 0, 0, 0}, coefficient, coefficient, i % 2 == 0 ? 0 : 1, i % 2 == 0 ? 1 : 0});
  }
  jpeg.scan_info = script.data();
  jpeg.num_scans = scans;
  jpeg_start_compress(&jpeg, TRUE);
  const std::vector<uint8_t> row(static_cast<size_t>(size * channels), 99);
  auto* line = const_cast<JSAMPROW>(row.data());
  for (int y = 0; y < size; ++y) jpeg_write_scanlines(&jpeg, &line, 1);
  jpeg_finish_compress(&jpeg);
  std::string result(reinterpret_cast<char*>(memory), bytes);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return result;
}

TEST(Image, AJpegOfManyScansIsRefused) {
  const auto decode = [](const std::string& jpeg) { return decode_image(std::as_bytes(std::span(jpeg)), "x"); };
  EXPECT_EQ(decode(progressive_jpeg(16, 1, 60)).at(3, 3, 0), 99);
  expect_error<FormatError>([&] { decode(progressive_jpeg(16, 1, 120)); },
                            "x: cannot read this JPEG: more than 100 scans");
}

TEST(Image, AJpegThatTakesTooMuchMemoryIsRefused) {
  constexpr int kSize = 3200;
  const std::string jpeg = progressive_jpeg(kSize, 3, 2);
  const auto bytes = std::as_bytes(std::span(jpeg));
  expect_error<FormatError>([&] { decode_image(bytes, "x", kSize * kSize); },
                            "x: cannot read this JPEG: decoding needs too much memory");
  expect_error<FormatError>([&] { decode_image(bytes, "x", kSize * kSize - 1); },
                            "x: image of 3200 × 3200 pixels is too large; the limit is 10239999 pixels");
  EXPECT_EQ(decode_image(bytes, "x").at(7, 7, 1), 99);
}

TEST(Image, ReadsFiles) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.file("a.png"), std::ios::binary) << png_of({1, 2, 3}, 1, 1, PNG_FORMAT_RGB);
  EXPECT_EQ(read_image(folder.file("a.png")).pixels, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_THROW(read_image(folder.file("none.png")), FormatError);
}

Image pattern(int64_t width, int64_t height) {
  Image image{.width = width, .height = height, .pixels = {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        image.pixels.push_back(static_cast<uint8_t>((x * 37 + y * 91 + c * 53 + x * y * 11) % 256));
      }
    }
  }
  return image;
}

/// The red channel of the pattern, 8 × 6, resized by PyTorch's antialiased interpolation in f64, which has Pillow's
/// filters; Pillow rounds after each of the two passes.
TEST(Image, ResizedAsTheReference) {
  const auto check = [](ImageSize size, Resampling resampling, const std::vector<int>& expected) {
    const Image image = resized(pattern(8, 6), size, resampling);
    ASSERT_EQ(image.pixels.size(), expected.size() * 3);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(image.pixels[i * 3], expected[i], 1) << i;
  };
  check({5, 3}, Resampling::bilinear, {83, 124, 131, 137, 113, 126, 129, 132, 120, 141, 124, 105, 131, 106, 148});
  check({5, 3}, Resampling::bicubic, {77, 127, 130, 140, 110, 129, 134, 133, 115, 143, 123, 100, 133, 100, 152});
  check({11, 9}, Resampling::bilinear,
        {0,   22,  49,  76,  103, 130, 156, 183, 210, 132, 3,   46,  71,  102, 132, 163, 130, 97,  128, 159,
         138, 87,  106, 136, 158, 165, 202, 131, 61,  97,  104, 127, 156, 167, 201, 174, 70,  112, 132, 152,
         194, 90,  64,  98,  100, 138, 144, 103, 150, 133, 116, 163, 123, 129, 167, 32,  75,  113, 136, 189,
         134, 70,  91,  142, 194, 236, 93,  140, 129, 41,  99,  135, 123, 25,  73,  131, 178, 154, 129, 99,
         74,  137, 136, 106, 76,  133, 144, 119, 199, 102, 64,  131, 198, 137, 76,  143, 210, 172, 75});
}

TEST(Image, EveryFilterKeepsAPlainPicture) {
  const Image plain{.width = 9, .height = 7, .pixels = std::vector<uint8_t>(9 * 7 * 3, 77)};
  for (const auto filter : {Resampling::nearest, Resampling::lanczos, Resampling::bilinear, Resampling::bicubic,
                            Resampling::box, Resampling::hamming}) {
    for (const ImageSize size : {ImageSize{4, 3}, ImageSize{20, 15}, ImageSize{9, 3}, ImageSize{1, 1}}) {
      for (const uint8_t value : resized(plain, size, filter).pixels) ASSERT_EQ(value, 77);
    }
  }
  const Image same = resized(pattern(4, 4), {4, 4}, Resampling::bilinear);
  EXPECT_EQ(same.pixels, pattern(4, 4).pixels);
  expect_error<ShapeError>([&] { resized(plain, {0, 3}, Resampling::box); }, "image: cannot resize to 0 × 3 pixels");
}

TEST(Image, CentreCrop) {
  const Image image = pattern(8, 6), middle = center_cropped(image, {4, 2});
  for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(middle.at(x, 1, 0), image.at(x + 2, 3, 0));
  const Image wider = center_cropped(image, {10, 6});
  EXPECT_EQ(wider.at(0, 3, 0), 0);
  EXPECT_EQ(wider.at(1, 3, 0), image.at(0, 3, 0));
}

}  // namespace
}  // namespace attend
