#include "cli/commands.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "attend/base/error.h"
#include "attend/data/lines.h"
#include "attend/io/json.h"
#include "attend/text/readable_token.h"
#include "attend/text/segment.h"
#include "attend/text/tokenizer.h"
#include "cli/command_line.h"
#include "cli/shared_options.h"
#include "io/scratch_folder.h"

namespace attend::cli {
namespace {
using Ids = std::vector<int32_t>;

constexpr const char* kTokenizeExamples = R"(
Examples:
  attend tokenize --train corpus.txt --kind bpe --vocabulary 8000 -o tokenizer
  attend tokenize tokenizer "今天天气很好" "Hello, world!"
  attend tokenize tokenizer --ids < text.txt | attend tokenize tokenizer --decode
  attend tokenize tokenizer --bench text.txt

Each text argument, or each line of standard input, is encoded separately. Tokens are printed in readable form. --json
prints one object per text, with the tokens as the vocabulary spells them: {"text", "ids", "tokens"}; with --bench,
{"mb_per_second", "bytes", "tokens", "seconds"}; with --train, {"kind", "vocabulary", "seconds", "folder"}.)";

struct TokenizeArguments {
  std::string tokenizer, bench, kind = "bpe", output;
  std::vector<std::string> texts, corpus;
  TokenizerTraining training;
  bool ids = false, json = false, decode = false, special = false, lossy = false, overwrite = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Calls visit for each text argument or, without any, each line of standard input.
template <class Visit>
void for_each_text(const TokenizeArguments& arguments, Visit&& visit) {
  for (const std::string& text : arguments.texts) visit(text);
  if (!arguments.texts.empty()) return;
  LineReader lines("-", {.lossy = arguments.lossy});
  for (std::string line; lines.next(line);) visit(line);
}

void print_encoded(const Tokenizer& tokenizer, const TokenizeArguments& arguments, const std::string& text) {
  const Ids ids = tokenizer.encode(text, arguments.special);
  if (arguments.json) {
    std::vector<std::string> tokens;
    for (const int32_t id : ids) tokens.push_back(tokenizer.token(id));
    std::cout << Json{{"text", text}, {"ids", ids}, {"tokens", tokens}}.dump() << '\n';
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    std::cout << (i > 0 ? " " : "");
    std::cout << (arguments.ids ? std::to_string(ids[i]) : visible(readable_token(tokenizer, ids[i])));
  }
  std::cout << '\n';
}

Ids parse_ids(const std::string& text) {
  std::istringstream words(text);
  Ids ids;
  for (std::string word; words >> word;) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    require<FormatError>(error == std::errc() && end == word.data() + word.size() && id >= 0,
                         "tokenize: expected token ids, got '", visible(word), "'");
    ids.push_back(id);
  }
  return ids;
}

void print_decoded(const Tokenizer& tokenizer, const TokenizeArguments& arguments, const std::string& line) {
  const Ids ids = parse_ids(line);
  for (const int32_t id : ids) tokenizer.token(id);  // throws for an id out of range
  const std::string text = tokenizer.decode(ids, arguments.special);
  if (arguments.json)
    std::cout << Json{{"text", text}, {"ids", ids}}.dump() << '\n';
  else
    std::cout << text << '\n';
}

/// Joins ids given as separate arguments into one text.
std::vector<std::string> joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += word + " ";
  return words.empty() ? words : std::vector{all};
}

std::string whole_file(const TokenizeArguments& arguments) {
  LineReader lines(arguments.bench, {.lossy = arguments.lossy});
  std::string all;
  for (std::string line; lines.next(line);) all.append(line).append("\n");
  require<FormatError>(!all.empty(), arguments.bench, ": the file is empty");
  return all;
}

/// Reports the fastest of many rounds, which other processes disturb least.
void run_bench(const Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  constexpr double kEnough = 2;
  const std::string text = whole_file(arguments);
  double best = 1e300, total = 0;
  size_t tokens = 0;
  for (int rounds = 0; rounds < 3 || total < kEnough; ++rounds) {
    const auto start = std::chrono::steady_clock::now();
    tokens = tokenizer.encode(text).size();
    const double seconds = seconds_since(start);
    best = std::min(best, seconds);
    total += seconds;
  }
  const double rate = static_cast<double>(text.size()) / best / 1e6;
  if (arguments.json) {
    std::cout << Json{{"mb_per_second", rate}, {"bytes", text.size()}, {"tokens", tokens}, {"seconds", best}} << '\n';
  } else {
    std::cout << "tokenize " << std::fixed << std::setprecision(1) << rate << " MB/s on one thread (" << text.size()
              << " bytes, " << tokens << " tokens)\n";
  }
}

/// Rejects a folder that holds a model: with another vocabulary, the model's token ids would mean other words.
void refuse_model(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string(), kind = entry.path().extension().string();
    const bool is_weights = kind == ".safetensors" || kind == ".gguf" || kind == ".onnx" ||
                            (kind == ".bin" && !name.starts_with("tok"));  // llama2.c's tokenizers: tokenizer.bin
    const bool is_model = is_weights || name == "config.json" || name == "training.json";
    require<Error>(!is_model, folder, ": holds a model (", name,
                   "), which needs the tokenizer it was trained with; choose another folder with -o, or replace the "
                   "tokenizer with --overwrite");
  }
}

void run_training(TokenizeArguments& arguments) {
  if (arguments.output.empty()) throw UsageError("--train requires -o FOLDER for the trained tokenizer");
  if (!arguments.tokenizer.empty()) throw UsageError("--train cannot be combined with a tokenizer to load");
  arguments.training.kind = tokenizer_kind(arguments.kind);
  if (!arguments.overwrite) refuse_model(arguments.output);
  const FolderLock lock(arguments.output);
  require<Error>(!lock.is_busy(), arguments.output, ": another process is training this model");
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = train_tokenizer(line_source(arguments.corpus, {.lossy = arguments.lossy}), arguments.training);
  std::filesystem::create_directories(arguments.output);
  tokenizer->save(arguments.output);
  const double seconds = seconds_since(start);
  if (arguments.json) {
    std::cout << Json{{"kind", arguments.kind},
                      {"vocabulary", tokenizer->size()},
                      {"seconds", seconds},
                      {"folder", arguments.output}}
              << '\n';
  } else {
    std::cout << arguments.output << ": " << tokenizer->size() << " tokens, trained in " << std::fixed
              << std::setprecision(1) << seconds << " s\n";
  }
}

void run_tokenize(TokenizeArguments& arguments) {
  if (!arguments.corpus.empty()) return run_training(arguments);
  if (arguments.texts == std::vector<std::string>{"-"}) arguments.texts.clear();  // standard input
  if (arguments.tokenizer.empty()) throw UsageError("expected a tokenizer, a model folder, or --train FILE");
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  if (!arguments.bench.empty()) return run_bench(*tokenizer, arguments);
  if (arguments.decode) arguments.texts = joined(arguments.texts);
  for_each_text(arguments, [&](const std::string& text) {
    arguments.decode ? print_decoded(*tokenizer, arguments, text) : print_encoded(*tokenizer, arguments, text);
  });
}

void add_training_options(Command& command, TokenizeArguments& arguments) {
  TokenizerTraining& training = arguments.training;
  command
      .add_option("--train", arguments.corpus,
                  "Text files to train a tokenizer on, may be gzip-compressed; - is standard input")
      ->type_name("FILE");
  command
      .add_option("--kind", arguments.kind,
                  "Kind of tokenizer to train: char, word, bpe, wordpiece or sentencepiece (default: bpe)")
      ->check(one_of({"char", "word", "bpe", "wordpiece", "sentencepiece"}))
      ->type_name("NAME");
  command.add_option("--vocabulary", training.vocabulary, "Maximum vocabulary size (default: 8000)")
      ->check(whole_number(6, 4'000'000))
      ->type_name("N");
  command
      .add_option("--min-count", training.min_count,
                  "Minimum count of a character, word or merge; not for sentencepiece (default: 2)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  add_lowercase(command, training.lowercase);
  command.add_option("-o,--output", arguments.output, "Folder for the trained tokenizer")->type_name("FOLDER");
  command.add_flag("--overwrite", arguments.overwrite, "Replace the tokenizer even if the folder holds a model");
}

}  // namespace

void add_tokenize(Command& app) {
  Command* command = app.add_subcommand("tokenize", "Convert text to tokens and back, or train a tokenizer");
  const auto arguments = std::make_shared<TokenizeArguments>();
  command->add_option("tokenizer", arguments->tokenizer, "Model folder or tokenizer file")->type_name("MODEL");
  command->add_option("text", arguments->texts, "Texts to encode (default, or -: the lines of standard input)")
      ->type_name("TEXT");
  command->add_flag("--ids", arguments->ids, "Print token ids instead of tokens");
  command->add_flag("--decode", arguments->decode, "Convert token ids to text");
  command->add_flag("--special", arguments->special, "Add special tokens; with --decode, keep them");
  add_json(*command, arguments->json, "Print one JSON object per line");
  add_lossy(*command, arguments->lossy);
  command->add_option("--bench", arguments->bench, "File to encode repeatedly to measure the speed")->type_name("FILE");
  add_training_options(*command, *arguments);
  command->footer(kTokenizeExamples);
  command->callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace attend::cli
