#include "tokenizer.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "attend/base/error.h"
#include "attend/text/tokenizer.h"

namespace attend::golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr const char* kJsonSuffix = ".golden.json";
constexpr const char* kSeparator = "\n__ggml_vocab_test__\n";

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  require<FormatError>(in.good(), path.string(), ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= 200 ? text : text.substr(0, 200) + "…";
}

/// Collects mismatches for a one-line report.
class Report {
 public:
  void expect_equal(const std::string& text, const char* what, const Json& got, const Json& expected) {
    ++compared_;
    if (got == expected || ++wrong_ > 1) return;
    first_ = std::string(what) + " of " + shown(text) + ": expected " + shown(expected) + ", got " + shown(got);
  }
  std::string finish() const {
    if (compared_ == 0) return "the file holds no case";
    return wrong_ <= 1 ? first_ : first_ + " (and " + std::to_string(wrong_ - 1) + " more)";
  }

 private:
  int compared_ = 0, wrong_ = 0;
  std::string first_;
};

Json tokens_of(const Tokenizer& tokenizer, const Ids& ids) {
  Json tokens = Json::array();
  for (const int32_t id : ids) tokens.push_back(tokenizer.token(id));
  return tokens;
}

/// SentencePiece prints unknown characters themselves; replaces them by the vocabulary's one unknown token.
Json as_vocabulary(const Tokenizer& tokenizer, Json pieces) {
  const int32_t unknown = tokenizer.special().unknown;
  for (Json& piece : pieces) {
    if (unknown >= 0 && !tokenizer.find(piece.get<std::string>())) piece = tokenizer.token(unknown);
  }
  return pieces;
}

std::string check_cases(const fs::path& path) {
  const auto tokenizer = load_tokenizer(path.parent_path());
  Report report;
  const Json cases = Json::parse(content_of(path)).at("cases");
  for (const Json& one : cases) {
    const std::string text = one.at("text");
    const Ids plain = tokenizer->encode(text);
    report.expect_equal(text, "ids_no_special", plain, one.at("ids_no_special"));
    if (one.contains("ids")) report.expect_equal(text, "ids", tokenizer->encode(text, true), one.at("ids"));
    report.expect_equal(text, "tokens", tokens_of(*tokenizer, plain), as_vocabulary(*tokenizer, one.at("tokens")));
    report.expect_equal(text, "decoded", tokenizer->decode(plain, true), one.at("decoded"));
  }
  return report.finish();
}

std::string check_model(const fs::path& path) {
  const std::string name = path.filename();
  const fs::path model =
      path.parent_path() / (name.substr(0, name.size() - std::string(kJsonSuffix).size()) + ".model");
  if (!fs::exists(model)) throw Skipped("there is no " + model.filename().string() + " beside it");
  const auto tokenizer = load_tokenizer(model);
  Report report;
  const Json cases = Json::parse(content_of(path)).at("cases");
  for (const Json& one : cases) {
    const std::string text = one.at("text");
    const Ids ids = tokenizer->encode(text);
    report.expect_equal(text, "ids", ids, one.at("ids"));
    report.expect_equal(text, "pieces", tokens_of(*tokenizer, ids), as_vocabulary(*tokenizer, one.at("pieces")));
  }
  return report.finish();
}

/// Checks golden.inp, texts that each end with a separator, against golden.out, the ids of one text per line.
std::string check_separated(const fs::path& path) {
  const auto tokenizer = load_tokenizer(path.parent_path());
  const std::string texts = content_of(path);
  std::istringstream lines(content_of(path.parent_path() / "golden.out"));
  Report report;
  size_t begin = 0;
  std::string line;
  for (size_t end; (end = texts.find(kSeparator, begin)) != std::string::npos; begin = end + std::strlen(kSeparator)) {
    if (!std::getline(lines, line)) return "golden.out has fewer lines than golden.inp cases";
    std::istringstream words(line);
    const Ids expected{std::istream_iterator<int32_t>(words), {}};
    const std::string text = texts.substr(begin, end - begin);
    report.expect_equal(text, "ids", tokenizer->encode(text), expected);
  }
  if (std::getline(lines, line)) return "golden.out has more lines than golden.inp cases";
  return report.finish();
}

}  // namespace

bool is_tokenizer_case(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return name == "tokenizer_cases.json" || name == "golden.inp" || name.ends_with(kJsonSuffix);
}

std::string check_tokenizer(const std::string& path) {
  const std::string name = fs::path(path).filename();
  if (name == "golden.inp") return check_separated(path);
  return name == "tokenizer_cases.json" ? check_cases(path) : check_model(path);
}

}  // namespace attend::golden
