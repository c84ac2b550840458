#include "attend/train/objective.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/models/setting_error.h"
#include "train/objectives.h"

namespace attend {
namespace {

/// The tokens between the parts of a text. Plain text is stored in pieces of about 16 KiB that end with a line. An end
/// token between pieces teaches the model how a text begins, and costs one token in several thousand.
std::vector<int32_t> separator(const Dataset& data) {
  std::vector<int32_t> ids;
  if (!data.by_line && data.training.size() <= 1) return ids;
  for (const int32_t id : {data.tokenizer->special().end, data.begin}) {
    if (id >= 0) ids.push_back(id);
  }
  return ids;
}

double stream_tokens(const TokenCache& cache, const Dataset& data) {
  return static_cast<double>(cache.total_tokens() + std::ssize(separator(data)) * cache.size());
}

/// The text must be longer than the model's context.
void check_length(const Model& model, const Dataset& data) {
  const auto training = static_cast<int64_t>(stream_tokens(data.training, data) * data.split);
  require<Error>(training > model.context(), "the training text has ", training,
                 " tokens, but needs more than the context of ", model.context());
  const double held_out = data.split < 1 ? 1 - data.split : 1;
  const auto validation = static_cast<int64_t>(stream_tokens(data.validation, data) * held_out);
  require<Error>(validation >= 2, "the validation text has ", validation, " tokens, but needs at least 2");
}

}  // namespace

BatchOptions batch_options(const Model& model, const TrainingOptions& options, Part part) {
  return {.tokens = options.batch_tokens,
          .sentences = options.batch,
          .max_length = model.context(),
          .labelled = model.kind() == ModelKind::classification,
          .shuffle = part == Part::training,
          .seed = static_cast<uint64_t>(options.seed)};
}

BatchPadding batch_padding(const Model& model) {
  if (model.device() == kCpu) return {};
  return {.length_multiple = 8, .most_length = model.context(), .rounds_rows = true};
}

WindowOptions window_options(const Model& model, const Dataset& data, const TrainingOptions& options, Part part) {
  const bool training = part == Part::training;
  return {.batch = std::max<int64_t>(options.batch, 1),
          .context = model.context(),
          .separator = separator(data),
          .from = training || data.split == 1 ? 0 : data.split,
          .to = training ? data.split : 1,
          .seed = static_cast<uint64_t>(options.seed)};
}

namespace {

/// Calls `make`. If it fails because no example fits into the model's context, throws an error that names the setting.
template <class Make>
std::unique_ptr<Objective> made_of_examples(const Model& model, const Dataset& data, Make&& make) {
  try {
    return make();
  } catch (const ShapeError&) {
    const auto too_long = [&](const TokenCache& cache, const std::vector<int64_t>& examples) {
      return std::ranges::all_of(examples, [&](int64_t example) {
        int64_t longest = 0;
        for (int64_t column = 0; column < 2; ++column) longest = std::max(longest, cache.length(example, column));
        return longest + 1 > model.context();
      });
    };
    require<SettingError>(!too_long(data.training, data.training_examples), "none of the ",
                          data.training_examples.size(), " training examples fit into a 'context' of ", model.context(),
                          " tokens");
    require<SettingError>(!too_long(data.validation, data.validation_examples), "none of the ",
                          data.validation_examples.size(), " validation examples fit into a 'context' of ",
                          model.context(), " tokens");
    throw;
  }
}

}  // namespace

std::unique_ptr<Objective> make_objective(const Model& model, const Dataset& data, const TrainingOptions& options) {
  require<Error>(model.vocab_size() >= data.tokenizer->size(), "the model's vocabulary has ", model.vocab_size(),
                 " tokens, but the tokenizer has ", data.tokenizer->size());
  if (data.kind == CorpusKind::text && model.kind() != ModelKind::translation) check_length(model, data);
  const bool pairs = data.kind == CorpusKind::pairs || data.kind == CorpusKind::tsv;
  switch (model.kind()) {
    case ModelKind::translation:
      require<Error>(pairs, "architecture ", model.architecture(),
                     " is trained on pairs: two aligned files, or one file with a tab in each line");
      return made_of_examples(model, data,
                              [&] { return pair_objective(dynamic_cast<const PairModel&>(model), data, options); });
    case ModelKind::language:
      require<Error>(data.kind == CorpusKind::text, "architecture ", model.architecture(), " is trained on plain text");
      return language_objective(dynamic_cast<const LanguageModel&>(model), data, options);
    case ModelKind::pictures:
      throw Error("image models cannot be trained");
    case ModelKind::classification:
      break;
  }
  const auto& encoder = dynamic_cast<const EncoderModel&>(model);
  require<Error>(!pairs, "an encoder is trained on labelled lines (label, tab, text) or on plain text");
  if (data.kind == CorpusKind::text) return masked_objective(encoder, data, options);
  require<Error>(encoder.labels() == data.labels, "the labels of the corpus differ from the model's");
  return label_objective(encoder, data, options);
}

}  // namespace attend
