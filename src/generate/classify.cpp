#include "attend/generate/classify.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/precision.h"
#include "attend/ops/softmax.h"
#include "generate/id_rows.h"
#include "generate/numbers.h"
#include "generate/top.h"
#include "text/framing.h"

namespace attend {
namespace {

void decide(Classified& result, std::span<const double> scores) {
  for (const double score : scores) require_number(score, "classify");
  result.scores.assign(scores.begin(), scores.end());
  result.label = std::ranges::max_element(result.scores) - result.scores.begin();
}

/// The model's input for each text; empty for a blank text.
struct Readings {
  std::vector<std::vector<int32_t>> ids, types;  // `types` is empty unless the model has several token types
  std::vector<bool> is_cut;
};

std::vector<Classified> classify_readings(const EncoderModel& model, const Readings& readings, int64_t batch_tokens) {
  require<ShapeError>(batch_tokens >= 1, "classify: batch_tokens must be at least 1, got ", batch_tokens);
  const NoGrad scope;
  const BatchInvariantScope alone;  // a text has the same scores in any batch
  std::vector<Classified> results(readings.ids.size());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < results.size(); ++i) {
    lengths.push_back(std::ssize(readings.ids[i]));
    results[i].tokens = lengths[i];
    results[i].is_cut = readings.is_cut[i];
  }
  for (const Batch& batch : group_by_length(lengths, {.tokens = batch_tokens})) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) continue;  // a batch of blank texts: these are grouped together
    const IdRows read = pad_rows(readings.ids, batch);
    TextInputs inputs{.ids = read.ids, .lengths = read.lengths};
    if (!readings.types.empty()) inputs.types = pad_rows(readings.types, batch).ids;
    const Tensor scores = score_labels(model.classify(inputs), model.label_scores());
    const auto values = scores.to_vector<double>();
    const auto width = static_cast<size_t>(scores.dim(1));
    for (size_t row = 0; row < batch.size(); ++row) {
      decide(results[static_cast<size_t>(batch[row])], std::span(values).subspan(row * width, width));
    }
  }
  return results;
}

}  // namespace

std::vector<Classified> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> texts, int64_t batch_tokens) {
  Vocabulary::of(tokenizer, model.vocab_size());  // throws if tokenizer and model do not match
  Readings readings;
  for (const std::string& one : texts) {
    FramedText text = frame_text(tokenizer, one, model.context());
    readings.ids.push_back(text.is_blank ? std::vector<int32_t>{} : std::move(text.ids));
    readings.is_cut.push_back(text.is_cut);
  }
  return classify_readings(model, readings, batch_tokens);
}

std::vector<Classified> classify_pairs(const EncoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> lines, int64_t batch_tokens) {
  Vocabulary::of(tokenizer, model.vocab_size());
  Readings readings;
  for (const std::string& line : lines) {
    const size_t tab = line.find('\t');
    require<FormatError>(line.empty() || tab != std::string::npos,
                         "classify: a pair needs a tab between its texts, got '", line.substr(0, 60), "'");
    EncodedPair pair;
    if (!line.empty()) pair = tokenizer.encode_pair(line.substr(0, tab), line.substr(tab + 1), model.context());
    readings.ids.push_back(std::move(pair.ids));
    readings.is_cut.push_back(pair.is_cut);
    if (model.token_types() > 1) readings.types.push_back(std::move(pair.types));
  }
  return classify_readings(model, readings, batch_tokens);
}

Classified classify(const ImageModel& model, const ImagePreparation& preparation, const Image& image) {
  const NoGrad scope;
  Classified result;
  decide(result, softmax(model.classify(preparation.pixels(image))).to_vector<double>());
  result.tokens = model.context();
  return result;
}

}  // namespace attend
