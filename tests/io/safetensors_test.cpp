#include "attend/io/safetensors.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "testing/gradients.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

/// A tensor of any dtype with bytes 0, 1, 2, … (0 and 1 for booleans).
Tensor counting(DType dtype, const Shape& shape) {
  Tensor result = empty(shape, {.dtype = dtype});
  auto* bytes = static_cast<uint8_t*>(result.raw());
  const size_t count = static_cast<size_t>(result.numel()) * size_of(dtype);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(dtype == DType::boolean ? i % 2 : i);
  return result;
}

std::string bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype())};
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

size_t entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64,
                          DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

TEST(Safetensors, RoundTripOfEveryDType) {
  const TemporaryFolder folder;
  const std::string path = folder.file("all.safetensors");
  std::vector<NamedTensor> tensors;
  for (DType dtype : kAll) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{3, 5}, Shape{2, 0, 7}, Shape{1, 1, 1, 1, 1, 1, 1, 3}}) {
      tensors.emplace_back(std::string(name_of(dtype)) + std::to_string(tensors.size()), counting(dtype, shape));
    }
  }
  const Metadata metadata{{"format", "pt"}, {"引号\"\n", "值"}};
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const Tensor got = file.tensor(name);
    EXPECT_EQ(got.dtype(), expected.dtype()) << name;
    EXPECT_EQ(got.shape(), expected.shape()) << name;
    EXPECT_EQ(bytes_of(got), bytes_of(expected)) << name;
  }
}

TEST(Safetensors, NoTensorsAtAll) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("none"), {});
  EXPECT_EQ(read_all(folder.file("none")), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(SafetensorsFile::open(folder.file("none")).tensors().empty());
}

TEST(Safetensors, TheBytesDoNotDependOnTheOrder) {
  const TemporaryFolder folder;
  const NamedTensor a{"a", counting(DType::i8, {3})}, b{"b", counting(DType::f32, {2})},
      c{"c", counting(DType::f32, {1})};
  write_safetensors(folder.file("1"), std::vector{a, b, c}, {{"k", "v"}});
  write_safetensors(folder.file("2"), std::vector{c, b, a}, {{"k", "v"}});
  EXPECT_EQ(read_all(folder.file("1")), read_all(folder.file("2")));
  const SafetensorsFile file = SafetensorsFile::open(folder.file("1"));
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "c", "a"}));
}

TEST(Safetensors, MappedTensorsAliasTheFileOutliveItAndAreReadOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  write_safetensors(path, std::vector<NamedTensor>{{"w", tensor<float>({1, 2, 3}, {3})}});
  Tensor first, second;
  {
    const SafetensorsFile file = SafetensorsFile::open(path);
    first = file.tensor("w");
    second = file.tensor("w");
  }
  EXPECT_EQ(first.raw(), second.raw());
  EXPECT_EQ(first.to_vector(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(first.data<const float>()[2], 3);
  expect_error<ShapeError>([&] { first.data<float>(); },
                           "tensor: a tensor in a mapped file is read-only; use data<const T>() or clone() it");
  first.clone().data<float>()[0] = 7;
  write_safetensors(path, std::vector<NamedTensor>{{"w", tensor<float>({9}, {1})}});
  EXPECT_EQ(first.to_vector(), (std::vector<float>{1, 2, 3})) << "replacing the file must not reach open mappings";
}

TEST(Safetensors, StridedTensorsAreWrittenDense) {
  const TemporaryFolder folder;
  const Tensor matrix = tensor<float>({1, 2, 3, 4}, {2, 2}).as_strided({2, 2}, {1, 2}, 0);
  write_safetensors(folder.file("x"), std::vector<NamedTensor>{{"t", matrix}});
  EXPECT_EQ(SafetensorsFile::open(folder.file("x")).tensor("t").to_vector(), (std::vector<float>{1, 3, 2, 4}));
}

/// A file with this JSON header and `data` zero bytes.
std::string raw_file(const std::string& json, size_t data) {
  uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json + std::string(data, '\0');
}

SafetensorsFile parse(const std::string& bytes) { return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "f"); }

TEST(Safetensors, MisalignedDataIsCopied) {
  const TemporaryFolder folder;
  const std::string json = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (size_t pad = 0; pad < 8; ++pad) {
    write_all(folder.file("x"), raw_file(json + std::string(pad, ' '), 8));
    EXPECT_EQ(SafetensorsFile::open(folder.file("x")).tensor("w").to_vector(), (std::vector<float>{0, 0})) << pad;
  }
}

TEST(Safetensors, ZeroAxesAndSharedOffsetsOfEmptyTensors) {
  const std::string bytes = raw_file(R"({"a":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
                                     R"("b":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                                     R"("c":{"dtype":"F64","shape":[0],"data_offsets":[1,1]}})",
                                     1);
  const SafetensorsFile file = parse(bytes);
  EXPECT_EQ(file.tensor("a").shape(), (Shape{0, 4}));
  EXPECT_EQ(file.tensor("b").item(), 0);
  EXPECT_EQ(file.tensor("c").numel(), 0);
}

struct Refusal {
  std::string bytes, message;
};

/// A header whose only tensor 'w' has these fields.
std::string tensor_file(const std::string& fields, size_t data = 8) {
  return raw_file(R"({"w":{)" + fields + "}}", data);
}

std::vector<Refusal> refusals() {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string two = R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":)";
  std::string long_header(8, '\0'), over_limit(8, '\0');
  const uint64_t lie = 21, huge = 100'000'001;
  std::memcpy(long_header.data(), &lie, 8);
  std::memcpy(over_limit.data(), &huge, 8);
  const std::string deep = std::string(100000, '[');
  return {
      {"", "f: expected at least 8 bytes, got 0"},
      {"1234567", "f: expected at least 8 bytes, got 7"},
      {long_header + std::string(20, ' '), "f: header of 21 bytes is cut off after 20"},
      {over_limit, "f: header of 100000001 bytes exceeds the limit of 100000000"},
      {std::string(8, '\xff'), "f: header of 18446744073709551615 bytes exceeds the limit of 100000000"},
      {raw_file("", 0), "f: header must begin with '{'"},
      {raw_file(" {}", 0), "f: header must begin with '{'"},
      {raw_file("[]", 0), "f: header must begin with '{'"},
      {raw_file("{", 0), "f: header is not valid JSON at byte 2"},
      {raw_file("{}x", 0), "f: header is not valid JSON at byte 3"},
      {raw_file("{\"\xff\":1}", 0), "f: header is not valid JSON at byte 3"},
      {raw_file(R"({"w":1e999})", 0), "f: header is not valid JSON at byte 10"},
      {raw_file(R"({"w":)" + deep, 0), "f: tensor 'w': expected an object, got a list"},
      {raw_file(R"({"w":3})", 0), "f: tensor 'w': expected an object, got a number"},
      {raw_file(R"({"w":null})", 0), "f: tensor 'w': expected an object, got null"},
      {raw_file(R"({"w":true})", 0), "f: tensor 'w': expected an object, got a boolean"},
      {raw_file(R"({"w":"x"})", 0), "f: tensor 'w': expected an object, got a string"},
      {raw_file(R"({"w\n":3})", 0), "f: tensor 'w\\x0a': expected an object, got a number"},
      {raw_file("{\"" + std::string(200, 'n') + "\":3}", 0),
       "f: tensor '" + std::string(80, 'n') + "…': expected an object, got a number"},
      {tensor_file(""), "f: tensor 'w': dtype is missing"},
      {tensor_file(R"("dtype":"F32")"), "f: tensor 'w': shape is missing"},
      {tensor_file(R"("dtype":"F32","shape":[2])"), "f: tensor 'w': data_offsets is missing"},
      {tensor_file(good + R"(,"extra":1)"), "f: tensor 'w': unknown field 'extra'"},
      {tensor_file(good + R"(,"shape":[2])"), "f: tensor 'w': shape appears twice"},
      {tensor_file(good + R"(,"dtype":"F32")"), "f: tensor 'w': dtype appears twice"},
      {tensor_file(good + R"(,"data_offsets":[0,8])"), "f: tensor 'w': data_offsets appears twice"},
      {raw_file(R"({"w":{)" + good + R"(},"w":{)" + good + "}}", 8), "f: tensor 'w' appears twice"},
      {tensor_file(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"),
       "f: tensor 'w': dtype 'F8_E4M3' is not supported (F32 F64 F16 BF16 I64 I32 I16 I8 U8 BOOL are)"},
      {tensor_file(R"("dtype":7,"shape":[8],"data_offsets":[0,8])"),
       "f: tensor 'w': dtype must be a string, got a number"},
      {tensor_file(R"("dtype":["F32"],"shape":[8],"data_offsets":[0,8])"),
       "f: tensor 'w': dtype must be a string, got a list"},
      {tensor_file(R"("dtype":"F32","shape":2)"), "f: tensor 'w': shape must be a list, got a number"},
      {tensor_file(R"("dtype":"F32","shape":{"a":2})"), "f: tensor 'w': shape must be a list, got an object"},
      {tensor_file(R"("dtype":"F32","shape":[-2])"),
       "f: tensor 'w': shape must hold whole numbers from 0 to 2^63 - 1, got -2"},
      {tensor_file(R"("dtype":"F32","shape":[2.5])"),
       "f: tensor 'w': shape must hold whole numbers from 0 to 2^63 - 1, got 2.5"},
      {tensor_file(R"("dtype":"F32","shape":["2"])"),
       "f: tensor 'w': shape must hold whole numbers from 0 to 2^63 - 1, got a string"},
      {tensor_file(R"("dtype":"F32","shape":[[2]])"),
       "f: tensor 'w': shape must hold whole numbers from 0 to 2^63 - 1, got a list"},
      {tensor_file(R"("dtype":"F32","shape":[9223372036854775808])"),
       "f: tensor 'w': shape must hold whole numbers from 0 to 2^63 - 1, got 9223372036854775808"},
      {tensor_file(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1])"), "f: tensor 'w': shape has more than 8 axes"},
      {tensor_file(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       "f: tensor 'w': shape [4294967296, 4294967296] of f32 is too large"},
      {tensor_file(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])", 0),
       "f: tensor 'w': shape [0, 4294967296, 4294967296] of f32 is too large"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
       "f: tensor 'w': data_offsets must be two numbers, got 1"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"),
       "f: tensor 'w': data_offsets must be two numbers, got more"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[-1,8])"),
       "f: tensor 'w': data_offsets must hold whole numbers from 0 to 2^63 - 1, got -1"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "f: tensor 'w': data begins at byte 8, after its end at 0"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7),
       "f: tensor 'w': data ends at byte 8, but the file has only 7"},
      {tensor_file(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       "f: tensor 'w': shape [3] of f32 needs 12 bytes, got 8"},
      {tensor_file(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"),
       "f: tensor 'w': shape [] of f32 needs 4 bytes, got 8"},
      {raw_file(R"({"w":{)" + good + "}" + two + "[4,12]}}", 12),
       "f: tensor 'b': bytes 4 to 12 overlap those of tensor 'w'"},
      {raw_file(R"({"w":{)" + good + "}" + two + "[0,8]}}", 8),
       "f: tensor 'b': bytes 0 to 8 overlap those of tensor 'w'"},
      {raw_file(R"({"w":{)" + good + "}" + two + "[9,17]}}", 17),
       "f: tensor 'b': bytes 8 to 9 before it belong to no tensor"},
      {tensor_file(good, 9), "f: bytes 8 to 9 after the last tensor belong to no tensor"},
      {raw_file(R"({"__metadata__":3})", 0), "f: __metadata__ must be an object, got a number"},
      {raw_file(R"({"__metadata__":[]})", 0), "f: __metadata__ must be an object, got a list"},
      {raw_file(R"({"__metadata__":{"k":3}})", 0), "f: __metadata__: value of 'k' must be a string, got a number"},
      {raw_file(R"({"__metadata__":{"k":{}}})", 0), "f: __metadata__: value of 'k' must be a string, got an object"},
      {raw_file(R"({"__metadata__":{"k":"a","k":"b"}})", 0), "f: __metadata__: key 'k' appears twice"},
      {raw_file(R"({"__metadata__":{},"__metadata__":{}})", 0), "f: __metadata__ appears twice"},
  };
}

TEST(Safetensors, RefusesInvalidFilesWithOneLine) {
  for (const Refusal& refusal : refusals()) {
    expect_error<FormatError>([&] { parse(refusal.bytes); }, refusal.message);
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("x"), std::vector<NamedTensor>{{"w", counting(DType::f32, {3})}}, {{"k", "v"}});
  const std::string whole = read_all(folder.file("x"));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(parse(whole.substr(0, size)), FormatError) << size;
  }
}

TEST(Safetensors, RefusesBooleansOtherThanZeroAndOne) {
  std::string bytes = tensor_file(R"("dtype":"BOOL","shape":[4],"data_offsets":[0,4])", 4);
  bytes[bytes.size() - 2] = 7;
  expect_error<FormatError>([&] { parse(bytes).tensor("w"); },
                            "f: tensor 'w': booleans must be 0 or 1, element 2 is 7");
}

TEST(Safetensors, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  expect_error<FormatError>([&] { SafetensorsFile::open(missing); },
                            missing + ": cannot open: No such file or directory");
  expect_error<FormatError>([&] { SafetensorsFile::open(folder.path()); },
                            folder.path() + ": expected a regular file, got a folder");
  write_all(folder.file("x"), "");
  expect_error<FormatError>([&] { SafetensorsFile::open(folder.file("x")); },
                            folder.file("x") + ": expected at least 8 bytes, got 0");
  const std::string good = tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  expect_error<FormatError>([&] { parse(good).tensor("v"); }, "f: there is no tensor 'v'");
}

TEST(SafetensorsWriter, RefusesTheCallersMistakes) {
  const TemporaryFolder folder;
  const Tensor one = zeros({1});
  const auto write = [&](std::vector<NamedTensor> tensors, const Metadata& metadata = {}) {
    write_safetensors(folder.file("x"), tensors, metadata);
  };
  expect_error<ShapeError>([&] { write({{"a", one}, {"a", one}}); }, "write_safetensors: two tensors are named 'a'");
  expect_error<ShapeError>([&] { write({{"a", Tensor()}}); }, "write_safetensors: tensor 'a' is empty");
  expect_error<ShapeError>(
      [&] {
        write({{"__metadata__", one}});
      },
      "write_safetensors: the name '__metadata__' is reserved");
  expect_error<ShapeError>(
      [&] {
        write({{"\xc0\xaf", one}});
      },
      "write_safetensors: name '\\xc0\\xaf' is not valid UTF-8");
  expect_error<ShapeError>(
      [&] {
        write({}, {{"k", "\xed\xa0\x80"}});
      },
      "write_safetensors: metadata value '\\xed\\xa0\\x80' is not valid UTF-8");
  EXPECT_EQ(entries(folder.path()), 0u);
}

/// Runs f in a child process with a limit on file size; returns the child's wait status.
template <class F>
int in_child_with_limit(rlim_t bytes, F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(SafetensorsWriter, AFullDiskLeavesTheOldFileAndNoOther) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  write_safetensors(path, std::vector<NamedTensor>{{"w", ones({2})}});
  const std::string before = read_all(path);
  const std::vector<NamedTensor> large{{"w", zeros({10000})}};
  const int status = in_child_with_limit(4096, [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    try {
      write_safetensors(path, large);
    } catch (const Error& error) {
      return error.what() == path + ": cannot write: File too large" ? 0 : 1;
    }
    return 2;
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_all(path), before);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(SafetensorsWriter, KilledHalfWayLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  write_safetensors(path, std::vector<NamedTensor>{{"w", ones({2})}});
  const std::string before = read_all(path);
  const std::vector<NamedTensor> large{{"w", zeros({10000})}};
  const int status = in_child_with_limit(4096, [&] {
    std::signal(SIGXFSZ, SIG_DFL);
    write_safetensors(path, large);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_all(path), before);
  write_safetensors(path, large);
  EXPECT_EQ(SafetensorsFile::open(path).tensor("w").numel(), 10000);
}

TEST(SafetensorsWriter, AMissingFolder) {
  const TemporaryFolder folder;
  const std::string path = folder.file("no/such/file");
  expect_error<Error>([&] { write_safetensors(path, {}); }, path + ": cannot create: No such file or directory");
}

TEST(SafetensorsWriter, ANameTakenByAFolderLeavesNoFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("taken");
  std::filesystem::create_directory(path);
  expect_error<Error>([&] { write_safetensors(path, {}); }, path + ": cannot create: a folder has this name");
  EXPECT_EQ(entries(folder.path()), 1u);
}

}  // namespace
}  // namespace attend
