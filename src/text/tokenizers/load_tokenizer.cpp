#include <filesystem>
#include <sstream>

#include "attend/base/error.h"
#include "attend/text/tokenizer.h"
#include "io/printable.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/tokenizers/llama2c_tokenizer.h"
#include "text/tokenizers/marian_tokenizer.h"
#include "text/training/trained_document.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using text::TokenizerConfig;
using Loaded = std::shared_ptr<const Tokenizer>;

std::vector<std::string> lines_of(const std::string& content) {
  std::vector<std::string> lines;
  std::istringstream in(content);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Converts GPT-2's vocab.json and merges.txt to an equivalent tokenizer.json.
std::string json_from_merges(const std::string& vocabulary, const std::string& merges) {
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  Json model{{"type", "BPE"}, {"vocab", text::parse_json(vocabulary)}, {"merges", Json::array()}};
  for (const std::string& line : lines_of(merges)) {
    if (!line.empty() && !line.starts_with("#version")) model["merges"].push_back(line);
  }
  Json json{{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", byte_level},
            {"decoder", byte_level},
            {"model", model},
            {"added_tokens", Json::array()}};
  for (const char* name : {"<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
    const auto id = text::field<int64_t>(model["vocab"], name, -1);
    if (id >= 0) json["added_tokens"].push_back(text::added_special(name, id));
  }
  return json.dump();
}

/// Converts BERT's vocab.txt, one token per line, to an equivalent tokenizer.json.
std::string json_from_vocabulary(const std::string& vocabulary, const TokenizerConfig& files) {
  Json json{{"version", "1.0"},
            {"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", text::field(files.config, "tokenize_chinese_chars", true)},
              {"strip_accents", nullptr},
              {"lowercase", text::field(files.config, "do_lower_case", true)}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", Json::object()}}},
            {"added_tokens", Json::array()}};
  Json& tokens = json["model"]["vocab"];
  int64_t next = 0;
  for (const std::string& line : lines_of(vocabulary)) {
    require<FormatError>(valid_utf8_prefix(line) == line.size(), "token ", next, " is not UTF-8");
    tokens[line] = next++;
  }
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const auto id = text::field<int64_t>(tokens, name, -1);
    if (id >= 0) json["added_tokens"].push_back(text::added_special(name, id));
  }
  const auto cls = text::field<int64_t>(tokens, "[CLS]", -1), sep = text::field<int64_t>(tokens, "[SEP]", -1);
  if (cls >= 0 && sep >= 0) {
    json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", sep}}, {"cls", {"[CLS]", cls}}};
  }
  return json.dump();
}

Loaded load_file(const fs::path& path) {
  const TokenizerConfig files = text::read_tokenizer_config(path.parent_path());
  const std::string content = text::read_text_file(path);
  const std::string name = path.filename();
  if (path.extension() == ".model" || path.extension() == ".spm") {
    return std::make_shared<text::SentencePieceTokenizer>(content, files);
  }
  if (path.extension() == ".bin") {
    TokenizerConfig beside = files;
    if (!beside.config.is_object())
      beside.config = Json{{"add_bos_token", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    return std::make_shared<text::SentencePieceTokenizer>(text::sentencepiece_from_llama2c(content), beside);
  }
  if (path.extension() == ".txt") {
    return std::make_shared<text::JsonTokenizer>(json_from_vocabulary(content, files), files);
  }
  const fs::path merges = path.parent_path() / "merges.txt", source = path.parent_path() / "source.spm";
  if (name == "vocab.json" && fs::exists(source)) {
    const std::string target = path.parent_path() / "target.spm";
    text::MarianFiles marian{text::read_text_file(source), text::read_text_file(target), content};
    return std::make_shared<text::MarianTokenizer>(std::move(marian), files);
  }
  if (name == "vocab.json" && fs::exists(merges)) {
    return std::make_shared<text::JsonTokenizer>(json_from_merges(content, text::read_text_file(merges)), files);
  }
  return std::make_shared<text::JsonTokenizer>(content, files);
}

fs::path file_in(const fs::path& folder) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {  // llama2.c: tokenizer.bin, tok512.bin
    const std::string name = entry.path().filename();
    if (name.starts_with("tok") && name.ends_with(".bin")) return entry.path();
  }
  throw FormatError(folder.string() +
                    ": expected a tokenizer: tokenizer.json, tokenizer.model, spiece.model, vocab.json or vocab.txt");
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  require<FormatError>(fs::exists(path), path, ": no such file or folder");
  const fs::path file = fs::is_directory(path) ? file_in(path) : fs::path(path);
  try {
    return load_file(file);
  } catch (const JsonError& error) {
    throw FormatError(file.string() + ": not a valid tokenizer: " + error.what());
  } catch (const FormatError& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(file.parent_path().string() + "/") ? what : file.string() + ": " + what);
  }
}

}  // namespace attend
