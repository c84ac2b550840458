#include <sentencepiece_trainer.h>

#include <algorithm>
#include <map>

#include "attend/base/error.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/trained_document.h"
#include "text/trainers.h"

namespace attend::text {
namespace {

/// Hands lines to the trainer; what a line throws comes out of train_sentencepiece, not through the library.
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

/// Text must come back as it was: nothing is normalised, blanks stay, and rare characters become bytes. One thread,
/// and no sampling: the same lines give the same model.
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
          {"max_sentence_length", "1000000"},
          {"shuffle_input_sentence", "false"},
          {"num_threads", "1"},
          {"minloglevel", "3"}};
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

Trained train_sentencepiece(const LineSource& lines, const TokenizerTraining& options) {
  Lines iterator(lines);
  require<Error>(!iterator.done(), "tokenizer: the corpus is empty");
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(trainer_options(options), &iterator, &model);
  iterator.rethrow();
  require<Error>(status.ok(), "tokenizer: SentencePiece cannot learn ", options.vocabulary,
                 " tokens from this corpus: ", one_line(status.ToString()));
  Json config = trained_config();
  config["tokenizer_class"] = "LlamaTokenizer";
  config["add_bos_token"] = config["add_eos_token"] = true;
  config["legacy"] = false;
  if (options.lowercase) config["do_lower_case"] = true;
  return std::make_shared<SentencePieceTokenizer>(std::move(model), TokenizerConfig{config, {}, {}});
}

}  // namespace attend::text
