#include "generate/classify_read.h"

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

/// A batch of the inputs with the given indices.
TextInputs inputs_of(std::span<const ClassifierInput> inputs, const Batch& batch) {
  std::vector<std::vector<int32_t>> ids, types;
  for (const int64_t index : batch) {
    const ClassifierInput& input = inputs[static_cast<size_t>(index)];
    ids.push_back(input.ids);
    if (!input.types.empty()) types.push_back(input.types);
  }
  const IdRows read = pad_rows(ids);
  TextInputs result{.ids = read.ids, .lengths = read.lengths};
  if (!types.empty()) result.types = pad_rows(types).ids;
  return result;
}

}  // namespace

ClassifierInput read_text(const EncoderModel& model, const Tokenizer& tokenizer, const std::string& text) {
  FramedText framed = frame_text(tokenizer, text, model.context());
  return {.ids = framed.is_blank ? std::vector<int32_t>{} : std::move(framed.ids), .is_cut = framed.is_cut};
}

ClassifierInput read_pair(const EncoderModel& model, const Tokenizer& tokenizer, const std::string& line) {
  const size_t tab = line.find('\t');
  require<FormatError>(line.empty() || tab != std::string::npos,
                       "classify: a pair needs a tab between its texts, got '", line.substr(0, 60), "'");
  if (line.empty()) return {};
  EncodedPair pair = tokenizer.encode_pair(line.substr(0, tab), line.substr(tab + 1), model.context());
  ClassifierInput result{.ids = std::move(pair.ids), .is_cut = pair.is_cut};
  if (model.token_types() > 1) result.types = std::move(pair.types);
  return result;
}

std::vector<Classified> classify_read(const EncoderModel& model, std::span<const ClassifierInput> inputs,
                                      int64_t batch_tokens) {
  require<ShapeError>(batch_tokens >= 1, "classify: batch_tokens must be at least 1, got ", batch_tokens);
  const NoGrad scope;
  const BatchInvariantScope alone;  // a text has the same scores in any batch
  std::vector<Classified> results(inputs.size());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < results.size(); ++i) {
    lengths.push_back(std::ssize(inputs[i].ids));
    results[i].tokens = lengths[i];
    results[i].is_cut = inputs[i].is_cut;
  }
  for (const Batch& batch : group_by_length(lengths, {.tokens = batch_tokens})) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) continue;  // a batch of blank texts: these are grouped together
    const Tensor scores = score_labels(model.classify(inputs_of(inputs, batch)), model.label_scores());
    const auto values = scores.to_vector<double>();
    const auto width = static_cast<size_t>(scores.dim(1));
    for (size_t row = 0; row < batch.size(); ++row) {
      decide(results[static_cast<size_t>(batch[row])], std::span(values).subspan(row * width, width));
    }
  }
  return results;
}

std::vector<Classified> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                 std::span<const std::string> texts, int64_t batch_tokens) {
  Vocabulary::of(tokenizer, model.vocab_size());  // throws if tokenizer and model do not match
  std::vector<ClassifierInput> inputs;
  for (const std::string& text : texts) inputs.push_back(read_text(model, tokenizer, text));
  return classify_read(model, inputs, batch_tokens);
}

std::vector<Classified> classify_pairs(const EncoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> lines, int64_t batch_tokens) {
  Vocabulary::of(tokenizer, model.vocab_size());
  std::vector<ClassifierInput> inputs;
  for (const std::string& line : lines) inputs.push_back(read_pair(model, tokenizer, line));
  return classify_read(model, inputs, batch_tokens);
}

Classified classify(const ImageModel& model, const ImagePreparation& preparation, const Image& image) {
  const NoGrad scope;
  Classified result;
  decide(result, softmax(model.classify(preparation.pixels(image))).to_vector<double>());
  result.tokens = model.context();
  return result;
}

}  // namespace attend
