#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "attend/base/error.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/training/trained_document.h"
#include "text/training/trainers.h"

namespace attend::text {
namespace {

constexpr int64_t kLongestLine = 1000000;  // in bytes; longer lines are skipped

/// Passes lines to the trainer. Stores an exception of the line source, so that it is rethrown after training instead
/// of passing through the library.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const LineSource& lines) : lines_(lines) { Next(); }
  bool done() const override { return !line_; }
  void Next() override {
    try {
      line_ = lines_();
    } catch (...) {
      failure_ = std::current_exception();
      line_.reset();
    }
  }
  const std::string& value() const override { return *line_; }
  sentencepiece::util::Status status() const override { return {}; }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const LineSource& lines_;
  std::optional<std::string> line_;
  std::exception_ptr failure_;
};

/// Decoding must restore the text: no normalisation, spaces are kept, and rare characters become bytes. One thread and
/// no sampling, so that the same lines give the same model.
std::unordered_map<std::string, std::string> trainer_options(const TokenizerTraining& options) {
  return {{"model_type", "unigram"},
          {"vocab_size", std::to_string(options.vocabulary)},
          {"hard_vocab_limit", "false"},
          {"character_coverage", std::to_string(options.coverage)},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "true"},
          {"remove_extra_whitespaces", "false"},
          {"pad_id", "0"},
          {"unk_id", "1"},
          {"bos_id", "2"},
          {"eos_id", "3"},
          {"control_symbols", kSpecialNames[4]},
          {"max_sentence_length", std::to_string(kLongestLine)},
          {"shuffle_input_sentence", "false"},
          {"num_threads", "1"},
          {"minloglevel", "3"}};
}

/// Turns SentencePiece's report, `Internal: file(line) [failed check] reason`, into an error that the user can act on.
[[noreturn]] void refuse(std::string report, int64_t vocabulary) {
  std::ranges::replace(report, '\n', ' ');
  const std::string too_small = "smaller than required_chars. ", versus = " vs ";
  if (const size_t at = report.find(too_small); at != std::string::npos) {
    const size_t least = report.find(versus, at);
    throw_error<Error>("tokenizer: sentencepiece needs a vocabulary of at least ",
                       least == std::string::npos ? 0 : std::atoll(report.c_str() + least + versus.size()),
                       " tokens for this corpus (its characters, 256 bytes and the special tokens), got ", vocabulary);
  }
  require<Error>(report.find("sentences_.empty()") == std::string::npos,
                 "tokenizer: sentencepiece found no usable line in the corpus: all lines are blank or longer than ",
                 kLongestLine, " bytes");
  const size_t reason = report.rfind("] ");
  throw_error<Error>("tokenizer: sentencepiece cannot learn ", vocabulary,
                     " tokens from this corpus: ", reason == std::string::npos ? report : report.substr(reason + 2));
}

}  // namespace

Trained train_sentencepiece(const LineSource& lines, const TokenizerTraining& options) {
  Lines iterator(lines);
  require<Error>(!iterator.done(), "tokenizer: the corpus is empty");
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(trainer_options(options), &iterator, &model);
  iterator.rethrow();
  if (!status.ok()) refuse(status.ToString(), options.vocabulary);
  Json config = trained_config();
  config["tokenizer_class"] = "LlamaTokenizer";
  config["add_bos_token"] = config["add_eos_token"] = true;
  config["legacy"] = false;
  if (options.lowercase) config["do_lower_case"] = true;
  return std::make_shared<SentencePieceTokenizer>(std::move(model), TokenizerConfig{config, {}, {}});
}

}  // namespace attend::text
