#include "attend/train/objective.h"

#include "attend/base/error.h"
#include "train/objectives.h"

namespace attend {

std::unique_ptr<Objective> make_objective(const Model& model, const Dataset& data, const TrainingOptions& options) {
  require<Error>(model.words() >= data.tokenizer->size(), "the model knows ", model.words(),
                 " words but the tokenizer has ", data.tokenizer->size());
  const bool pairs = data.kind == CorpusKind::pairs || data.kind == CorpusKind::tsv;
  switch (model.task()) {
    case Task::translation:
      require<Error>(pairs, "a model of architecture ", model.architecture(),
                     " learns from pairs: two aligned files, or one of lines with a tab");
      return pair_objective(dynamic_cast<const PairModel&>(model), data, options);
    case Task::language:
      require<Error>(data.kind == CorpusKind::text, "a model of architecture ", model.architecture(),
                     " learns from plain text");
      return language_objective(dynamic_cast<const LanguageModel&>(model), data, options);
    case Task::classification:
      break;
  }
  const auto& encoder = dynamic_cast<const EncoderModel&>(model);
  require<Error>(!pairs, "an encoder learns from labelled lines (label, tab, text) or from plain text");
  if (data.kind == CorpusKind::text) return masked_objective(encoder, data, options);
  require<Error>(encoder.labels() == data.labels, "the labels of the corpus are not those of the model");
  return label_objective(encoder, data, options);
}

void require_longer_than_context(const TextWindows& text, const Model& model) {
  require<Error>(text.tokens() > model.context(), "the text to learn from has ", text.tokens(),
                 " tokens, it needs more than the context of ", model.context());
}

}  // namespace attend
