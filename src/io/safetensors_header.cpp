#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "io/printable.h"

namespace attend {
namespace {

constexpr std::array<std::pair<DType, const char*>, 10> kDTypes{{{DType::f32, "F32"},
                                                                 {DType::f64, "F64"},
                                                                 {DType::f16, "F16"},
                                                                 {DType::bf16, "BF16"},
                                                                 {DType::i64, "I64"},
                                                                 {DType::i32, "I32"},
                                                                 {DType::i16, "I16"},
                                                                 {DType::i8, "I8"},
                                                                 {DType::u8, "U8"},
                                                                 {DType::boolean, "BOOL"}}};

/// A SAX handler that accepts only the values the format allows at each place. The format has only three levels (root,
/// tensor, list), so the nesting is bounded without recursion, and only the needed values are stored. nlohmann's parser
/// calls the overridden functions.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string file, SafetensorsHeader& header) : file_(std::move(file)), header_(header) {}

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool number_float(number_float_t, const string_t& text) override { return refuse(text.substr(0, 40)); }
  bool number_integer(number_integer_t value) override { return refuse(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw FormatError(file_ + ": header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { outside, root, metadata, tensor, shape, offsets };

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    require<FormatError>(false, file_, ": ", parts...);
    __builtin_unreachable();
  }
  bool refuse(const std::string& got) const;
  void finish_tensor();

  std::string file_;
  SafetensorsHeader& header_;
  Place place_ = Place::outside;
  std::unordered_set<std::string> names_;
  std::string name_, field_;  // the current tensor and its field, or __metadata__ and its key
  std::optional<std::string> dtype_;
  std::optional<std::vector<uint64_t>> shape_, offsets_;
};

/// Reports a value of the wrong type at the current place.
bool HeaderReader::refuse(const std::string& got) const {
  switch (place_) {
    case Place::outside:
      fail("header must be a JSON object, got ", got);
    case Place::root:
      if (name_ == kMetadataKey) fail("__metadata__ must be an object, got ", got);
      fail("tensor ", in_quotes(name_), ": expected an object, got ", got);
    case Place::metadata:
      fail("__metadata__: value of ", in_quotes(field_), " must be a string, got ", got);
    case Place::tensor:
      fail("tensor ", in_quotes(name_), ": ", field_, " must be a ", field_ == "dtype" ? "string" : "list", ", got ",
           got);
    case Place::shape:
    case Place::offsets:
      fail("tensor ", in_quotes(name_), ": ", field_, " must hold whole numbers from 0 to 2^63 - 1, got ", got);
  }
  return false;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ != Place::shape && place_ != Place::offsets) return refuse("a number");
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return refuse(std::to_string(value));
  const bool is_shape = place_ == Place::shape;
  auto& list = is_shape ? *shape_ : *offsets_;
  if (is_shape && list.size() == static_cast<size_t>(kMaxRank)) {
    fail("tensor ", in_quotes(name_), ": shape has more than ", kMaxRank, " axes");
  }
  if (!is_shape && list.size() == 2) fail("tensor ", in_quotes(name_), ": data_offsets must be two numbers, got more");
  list.push_back(value);
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (place_ == Place::metadata) {
    if (!header_.metadata.emplace(field_, value).second)
      fail("__metadata__: key ", in_quotes(field_), " appears twice");
    return true;
  }
  if (place_ != Place::tensor || field_ != "dtype") return refuse("a string");
  dtype_ = value;
  return true;
}

bool HeaderReader::start_object(size_t) {
  if (place_ == Place::outside) {
    place_ = Place::root;
  } else if (place_ == Place::root) {
    place_ = name_ == kMetadataKey ? Place::metadata : Place::tensor;
  } else {
    return refuse("an object");
  }
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::root) {
    name_ = name;
    if (!names_.insert(name_).second) {
      if (name_ == kMetadataKey) fail("__metadata__ appears twice");
      fail("tensor ", in_quotes(name_), " appears twice");
    }
    return true;
  }
  field_ = name;
  if (place_ == Place::metadata) return true;
  const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
  if (!known) fail("tensor ", in_quotes(name_), ": unknown field ", in_quotes(field_));
  if ((field_ == "dtype" && dtype_) || (field_ == "shape" && shape_) || (field_ == "data_offsets" && offsets_)) {
    fail("tensor ", in_quotes(name_), ": ", field_, " appears twice");
  }
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) finish_tensor();
  place_ = place_ == Place::root ? Place::outside : Place::root;
  return true;
}

bool HeaderReader::start_array(size_t) {
  if (place_ != Place::tensor || field_ == "dtype") return refuse("a list");
  place_ = field_ == "shape" ? Place::shape : Place::offsets;
  (place_ == Place::shape ? shape_ : offsets_).emplace();
  return true;
}

bool HeaderReader::end_array() {
  place_ = Place::tensor;
  return true;
}

void HeaderReader::finish_tensor() {
  const std::string who = "tensor " + in_quotes(name_);
  if (!dtype_) fail(who, ": dtype is missing");
  if (!shape_) fail(who, ": shape is missing");
  if (!offsets_) fail(who, ": data_offsets is missing");
  if (offsets_->size() != 2) fail(who, ": data_offsets must be two numbers, got ", offsets_->size());
  const auto found = std::ranges::find_if(kDTypes, [&](const auto& entry) { return *dtype_ == entry.second; });
  if (found == kDTypes.end()) {
    fail(who, ": dtype ", in_quotes(*dtype_), " is not supported (F32 F64 F16 BF16 I64 I32 I16 I8 U8 BOOL are)");
  }
  TensorInfo info{.name = name_, .dtype = found->first, .shape = {}, .begin = (*offsets_)[0], .end = (*offsets_)[1]};
  for (uint64_t dim : *shape_) info.shape.push_back(static_cast<int64_t>(dim));
  header_.tensors.push_back(std::move(info));
  dtype_.reset();
  shape_.reset();
  offsets_.reset();
}

/// The size in bytes of a tensor of this shape, or nullopt if it or one of the strides exceeds 63 bits.
std::optional<size_t> byte_size(const TensorInfo& info) {
  auto bytes = static_cast<int64_t>(size_of(info.dtype));
  for (int64_t dim : info.shape) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return std::nullopt;
  }
  return info.shape.numel() == 0 ? 0 : static_cast<size_t>(bytes);
}

void check_sizes(const TensorInfo& info, size_t data_bytes, const std::string& file) {
  const auto complain = [&](const auto&... parts) {
    require<FormatError>(false, file, ": tensor ", in_quotes(info.name), ": ", parts...);
  };
  const std::optional<size_t> needed = byte_size(info);
  if (!needed) complain("shape ", info.shape, " of ", info.dtype, " is too large");
  if (info.begin > info.end) complain("data begins at byte ", info.begin, ", after its end at ", info.end);
  if (info.end > data_bytes) complain("data ends at byte ", info.end, ", but the file has only ", data_bytes);
  if (info.end - info.begin != *needed) {
    complain("shape ", info.shape, " of ", info.dtype, " needs ", *needed, " bytes, got ", info.end - info.begin);
  }
}

/// In the order of their data, each tensor must begin where the previous one ends, and the last must end where the file
/// ends.
void check_coverage(const std::vector<TensorInfo>& tensors, size_t data_bytes, const std::string& file) {
  size_t covered = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = tensors[i];
    require<FormatError>(info.begin >= covered, file, ": tensor ", in_quotes(info.name), ": bytes ", info.begin, " to ",
                         info.end, " overlap those of tensor ", in_quotes(tensors[i == 0 ? 0 : i - 1].name));
    require<FormatError>(info.begin == covered, file, ": tensor ", in_quotes(info.name), ": bytes ", covered, " to ",
                         info.begin, " before it belong to no tensor");
    covered = info.end;
  }
  require<FormatError>(covered == data_bytes, file, ": bytes ", covered, " to ", data_bytes,
                       " after the last tensor belong to no tensor");
}

}  // namespace

const char* safetensors_name(DType dtype) {
  return std::ranges::find_if(kDTypes, [&](const auto& entry) { return entry.first == dtype; })->second;
}

SafetensorsHeader parse_header(std::string_view json, size_t data_bytes, const std::string& file) {
  require<FormatError>(json.starts_with('{'), file, ": header must begin with '{'");
  SafetensorsHeader header;
  HeaderReader reader(file, header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  for (const TensorInfo& info : header.tensors) check_sizes(info, data_bytes, file);
  std::ranges::stable_sort(header.tensors, {}, [](const TensorInfo& info) { return std::pair(info.begin, info.end); });
  check_coverage(header.tensors, data_bytes, file);
  return header;
}

std::string format_header(const SafetensorsHeader& header) {
  std::string json = "{";
  const auto key = [&](std::string_view name) {
    if (json.size() > 1) json += ',';
    json += nlohmann::json(name).dump() + ':';
  };
  if (!header.metadata.empty()) {
    key(kMetadataKey);
    json += nlohmann::json(header.metadata).dump();
  }
  for (const TensorInfo& info : header.tensors) {
    key(info.name);
    json += R"({"dtype":")" + std::string(safetensors_name(info.dtype)) + R"(","shape":)";
    json += nlohmann::json(std::vector<int64_t>(info.shape.begin(), info.shape.end())).dump();
    json += ",\"data_offsets\":[" + std::to_string(info.begin) + ',' + std::to_string(info.end) + "]}";
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian numbers");
  const uint64_t length = json.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + json;
}

}  // namespace attend
