#include "text/tokenizers/special_tokens.h"

#include <filesystem>
#include <initializer_list>

#include "attend/base/error.h"
#include "io/mapped_file.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {
namespace {

Json read_optional_json(const std::string& path) {
  if (!std::filesystem::exists(path)) return nullptr;
  try {
    return parse_json(read_text_file(path));
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

/// The token's name from "bos_token": "<s>" or from {"content": "<s>", …}.
std::string name_in(const Json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_object() ? field<std::string>(*found, "content", "") : "";
}

/// The decoder's start token, if one of the files sets it; otherwise -1.
int32_t start_in(const Json& generation, const Json& model) {
  for (const Json* file : {&generation, &model}) {
    const auto id =
        file->is_object() && file->contains("decoder_start_token_id") ? (*file)["decoder_start_token_id"] : Json();
    if (id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < kMostTokens) {
      return static_cast<int32_t>(id.get<int64_t>());
    }
  }
  return -1;
}

using Names = std::initializer_list<const char*>;

int32_t first_of(const TokenizerConfig& files, const FindToken& find, Names keys, Names common) {
  for (const char* key : keys) {
    for (const Json* file : {&files.config, &files.special_map}) {
      const std::string name = name_in(*file, key);
      const int32_t id = name.empty() ? -1 : find(name);
      if (id >= 0) return id;
    }
  }
  for (const char* name : common) {
    if (const int32_t id = find(name); id >= 0) return id;
  }
  return -1;
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const MappedFile file = map_file(path);
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

TokenizerConfig read_tokenizer_config(const std::string& folder) {
  const std::string base = folder.empty() ? "" : folder + "/";
  TokenizerConfig files{read_optional_json(base + "tokenizer_config.json"),
                        read_optional_json(base + "special_tokens_map.json"), read_optional_json(base + "config.json")};
  files.start = start_in(read_optional_json(base + "generation_config.json"), files.model);
  return files;
}

SpecialTokens find_special_tokens(const TokenizerConfig& files, const FindToken& find) {
  SpecialTokens found;
  found.pad = first_of(files, find, {"pad_token"}, {"<pad>", "[PAD]", "<|pad|>"});
  found.unknown = first_of(files, find, {"unk_token"}, {"<unk>", "[UNK]"});
  found.begin = first_of(files, find, {"bos_token", "cls_token"},
                         {"<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>"});
  found.end = first_of(files, find, {"eos_token", "sep_token"},
                       {"</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>"});
  found.mask = first_of(files, find, {"mask_token"}, {"<mask>", "[MASK]"});
  if (files.start >= 0) found.begin = files.start;
  return found;
}

}  // namespace attend::text
