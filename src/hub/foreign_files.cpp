#include "hub/foreign_files.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "attend/base/error.h"
#include "attend/io/image.h"
#include "io/printable.h"

namespace attend::hub {
namespace {

namespace fs = std::filesystem;
using View = std::string_view;

constexpr size_t kHeadBytes = 4096;
constexpr int kMostEntries = 10'000;  // of a folder that are examined
constexpr const char* kWanted = "a Hugging Face folder (config.json, model.safetensors and tokenizer files)";
constexpr const char* kPickle =
    "reading it can run arbitrary code; if you trust it, convert it with transformers: "
    "from_pretrained(FOLDER).save_pretrained(FOLDER)";

/// The first bytes of a regular file, and its size.
struct Head {
  std::string bytes;
  uintmax_t size = 0;
};
Head head_of(const fs::path& path) {
  std::error_code error;
  Head head;
  if (!fs::is_regular_file(path, error)) return head;
  head.size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  head.bytes.resize(kHeadBytes);
  in.read(head.bytes.data(), kHeadBytes);
  head.bytes.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return head;
}

template <class T>
T number_at(View bytes, size_t at) {
  T value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool is_safetensors(const Head& head) {
  const auto length = number_at<uint64_t>(head.bytes, 0);
  return head.size > 8 && length >= 2 && length <= head.size - 8 && View(head.bytes).substr(8).starts_with("{");
}

/// CTranslate2 files begin with the format version and the name of the model kind: "TransformerSpec".
bool is_ctranslate2(View bytes) {
  const auto version = number_at<uint32_t>(bytes, 0);
  const auto length = number_at<uint16_t>(bytes, 4);
  if (version < 1 || version > 100 || length < 5 || length > 100 || bytes.size() < 6u + length) return false;
  return bytes.substr(6, length - 1u).ends_with("Spec") && bytes[5u + length] == '\0';
}

/// An ONNX file begins with its version, a small number, followed by the name of the producer, or by the graph.
bool is_onnx(const Head& head) {
  constexpr uint8_t kVersion = 0x08, kProducer = 0x12, kGraph = 0x3a, kOperators = 0x42;
  const View bytes = head.bytes;
  const auto version = number_at<uint8_t>(bytes, 1), tag = number_at<uint8_t>(bytes, 2);
  const size_t length = number_at<uint8_t>(bytes, 3);
  if (number_at<uint8_t>(bytes, 0) != kVersion || version < 1 || version > 32 || head.size < 5 + length) return false;
  if (tag != kProducer) return tag == kGraph || tag == kOperators;
  const View producer = bytes.substr(4, length);
  return producer.size() == length && std::ranges::all_of(producer, [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool is_pickle(View bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         View("}c(]X\x95\x8a").find(bytes[2]) != View::npos;
}

std::string zip_text(View bytes) {
  if (bytes.find("data.pkl") != View::npos || bytes.find("constants.pkl") != View::npos) {
    return std::string("is a PyTorch file with a pickle in it; ") + kPickle;
  }
  if (bytes.find(".npy") != View::npos) {
    return std::string("is an archive of NumPy arrays, as used by Marian, which cannot be read; ") +
           "convert it with transformers, or download " + kWanted;
  }
  return "is a ZIP archive; unpack it and give the folder";
}

/// Advice for a weights file; names its folder if that is a model.
std::string safetensors_text(const fs::path& path) {
  const fs::path parent = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  std::error_code error;
  if (fs::exists(parent / "config.json", error)) {
    return "is only the weights file; give its folder instead: " + parent.string();
  }
  return "is a safetensors file, which has weights but not the model's architecture; put it as model.safetensors "
         "beside its config.json and tokenizer files, and give that folder";
}

std::string text_of(const Head& head, const fs::path& path) {
  const View bytes = head.bytes;
  const auto begins = [&](View magic) { return bytes.starts_with(magic); };
  const std::string instead = std::string("which cannot be read; download the model as ") + kWanted;
  if (begins("GGUF")) return "is a GGUF file of llama.cpp, " + instead;
  for (const View magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (begins(magic)) return "is a GGML file of an older llama.cpp, " + instead;
  }
  if (is_safetensors(head)) return safetensors_text(path);
  if (is_ctranslate2(bytes)) return "is a CTranslate2 model, " + instead;
  if (begins(View("PK\x03\x04", 4))) return zip_text(bytes);
  if (is_pickle(bytes)) return std::string("is a pickle, the format of older PyTorch files; ") + kPickle;
  if (begins("\x89HDF\r\n\x1a\n")) return "is an HDF5 file of Keras or TensorFlow, " + instead;
  if (bytes.substr(std::min<size_t>(4, bytes.size())).starts_with("TFL3"))
    return "is a TensorFlow Lite file, " + instead;
  if (begins("version https://git-lfs")) {
    return "is a Git LFS pointer, not the file itself; run git lfs pull in the folder";
  }
  if (begins("<!DOCTYPE") || begins("<!doctype") || begins("<html")) {
    return "is a web page, not a model; download the file itself";
  }
  if (begins("\x1f\x8b") || (bytes.size() > 262 && bytes.substr(257, 5) == "ustar")) {
    return "is an archive; unpack it and give the folder";
  }
  if (is_image(std::as_bytes(std::span(bytes)))) return "is an image, not a model";
  if (is_onnx(head)) return "is an ONNX file, " + instead;
  return "";
}

bool holds_model(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error) && (fs::exists(folder / "model.safetensors", error) ||
                                                       fs::exists(folder / "model.safetensors.index.json", error));
}

struct Content {
  std::vector<fs::path> files, folders;
};
Content content_of(const fs::path& folder) {
  Content content;
  std::error_code error;
  int count = 0;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (++count > kMostEntries) break;
    std::error_code ignored;
    if (entry->is_directory(ignored)) content.folders.push_back(entry->path());
    if (entry->is_regular_file(ignored)) content.files.push_back(entry->path());
  }
  std::ranges::sort(content.files);
  std::ranges::sort(content.folders);
  return content;
}

/// Models in subfolders, and in the snapshots of Hugging Face's own cache.
std::vector<std::string> models_inside(const fs::path& folder) {
  std::vector<std::string> found;
  for (const fs::path& inner : content_of(folder).folders) {
    if (holds_model(inner)) found.push_back(inner.string());
    if (inner.filename() != "snapshots") continue;
    for (const fs::path& snapshot : content_of(inner).folders) {
      if (holds_model(snapshot)) found.push_back(snapshot.string());
    }
  }
  return found;
}

}  // namespace

std::string foreign_file(const std::string& path) { return text_of(head_of(path), path); }

std::string foreign_folder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::path(folder) / "adapter_config.json", error)) {
    return "holds an adapter (LoRA), which is not a whole model; merge it into its base model with PEFT: "
           "merge_and_unload(), then save_pretrained(FOLDER)";
  }
  for (const fs::path& file : content_of(folder).files) {
    const Head head = head_of(file);
    if (is_image(std::as_bytes(std::span(head.bytes)))) continue;
    const std::string name = file.filename().string();
    if (is_safetensors(head)) {
      if (name == "model.safetensors") continue;
      return "has no model.safetensors, but " + in_quotes(name) + ": rename it if it holds all weights";
    }
    if (const std::string text = text_of(head, file); !text.empty()) {
      return "is not a model folder: its file " + in_quotes(name) + " " + text;
    }
    if (name == "saved_model.pb")
      return std::string("is a SavedModel of TensorFlow, which cannot be read; download the model as ") + kWanted;
  }
  const std::vector<std::string> inside = models_inside(folder);
  if (inside.empty()) return "";
  return "is not a model folder, but contains " + std::string(inside.size() > 1 ? "models" : "a model") + "; give " +
         inside[0] + (inside.size() > 1 ? " or another one" : "");
}

void refuse_foreign(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const std::string text = foreign_folder(path);
    if (!text.empty()) throw FormatError(path + ": " + text);
    const char* missing = fs::exists(fs::path(path) / "config.json", error) ? "model.safetensors" : "config.json";
    throw FormatError(path + ": this is not a model folder, it has no " + missing);
  }
  if (!fs::is_regular_file(path, error)) throw FormatError(path + ": expected a model folder");
  if (fs::file_size(path, error) == 0) throw FormatError(path + ": is an empty file; expected a model folder");
  const std::string text = foreign_file(path);
  throw FormatError(path + ": " + (text.empty() ? "is a file of unknown format; expected a model folder" : text));
}

}  // namespace attend::hub
