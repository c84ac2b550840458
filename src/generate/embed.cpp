#include "generate/embed_framed.h"

#include <cmath>
#include <functional>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"
#include "generate/numbers.h"
#include "generate/top.h"

namespace attend {
namespace {

/// Computes the hidden states of a batch of texts: [rows, longest, dim].
using Reader = std::function<Tensor(const IdRows& rows)>;

Reader reader_of(const Model& model) {
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) {
    return [=](const IdRows& rows) { return encoder->hidden({.ids = rows.ids, .lengths = rows.lengths}); };
  }
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) {
    return [=](const IdRows& rows) { return language->hidden(rows.ids); };  // causal: later padding has no effect
  }
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
    return [=](const IdRows& rows) { return pair->encode(rows.ids, rows.lengths); };
  }
  throw Error("embed: architecture " + model.architecture() + " has no text embeddings");
}

/// The model's input: an encoder reads the text inside its template, a language model the text alone.
FramedText encoded(const Model& model, const Tokenizer& tokenizer, const std::string& text, int64_t longest,
                   const GenerationRules& rules) {
  switch (model.kind()) {
    case ModelKind::translation:
      return frame_source(tokenizer, text, longest, rules.prefix);
    case ModelKind::language: {
      FramedText result{.ids = tokenizer.encode(text, true)};
      result.is_blank = result.ids.empty();
      result.is_cut = std::ssize(result.ids) > longest;
      if (result.is_cut) result.ids.resize(static_cast<size_t>(longest));
      return result;
    }
    default:
      return frame_text(tokenizer, text, longest);
  }
}

int64_t longest_of(const Model& model, const EmbedOptions& options) {
  const int64_t own = options.sentence.longest;
  return own > 0 ? std::min(own, model.context()) : model.context();
}

}  // namespace

FramedText frame_to_embed(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                          const EmbedOptions& options) {
  return encoded(model, tokenizer, text, longest_of(model, options), options.rules);
}

std::vector<float> embed_read(std::span<const float> tokens, int64_t width, const EmbedOptions& options) {
  std::vector<float> result = pooled_text(tokens, width, options.sentence);
  for (const float value : result) require_number(value, "embed");
  return result;
}

std::vector<EmbeddedText> embed_framed(const Model& model, std::vector<FramedText> texts, const EmbedOptions& options) {
  require<ShapeError>(options.batch_tokens >= 1, "embed: batch_tokens must be at least 1, got ", options.batch_tokens);
  require<ShapeError>(!options.sentence.pooling.empty(), "embed: expected at least one pooling method");
  const Reader read = reader_of(model);
  const NoGrad scope;
  const BatchInvariantScope alone;  // a text gives the same vector in any batch
  std::vector<EmbeddedText> results(texts.size());
  std::vector<std::vector<int32_t>> rows(texts.size());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    rows[i] = std::move(texts[i].ids);
    results[i].tokens = std::ssize(rows[i]);
    results[i].is_cut = texts[i].is_cut;
    lengths.push_back(results[i].tokens);
  }
  size_t width = 0;
  for (const Batch& batch : group_by_length(lengths, {.tokens = options.batch_tokens})) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) continue;
    const Tensor hidden = to(contiguous(to(read(pad_rows(rows, batch)), DType::f32)), kCpu);
    const auto values = hidden.data<const float>();
    const int64_t dim = hidden.dim(2), row_values = hidden.dim(1) * dim;
    for (size_t row = 0; row < batch.size(); ++row) {
      EmbeddedText& result = results[static_cast<size_t>(batch[row])];
      const auto tokens =
          values.subspan(row * static_cast<size_t>(row_values), static_cast<size_t>(result.tokens * dim));
      result.vector = embed_read(tokens, dim, options);
      width = result.vector.size();
    }
  }
  for (EmbeddedText& result : results) result.vector.resize(width);
  return results;
}

std::vector<EmbeddedText> embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                                const EmbedOptions& options) {
  Vocabulary::of(tokenizer, model.vocab_size());  // throws if tokenizer and model do not match
  std::vector<FramedText> framed;
  for (const std::string& text : texts) {
    framed.push_back(frame_to_embed(model, tokenizer, text, options));
  }
  return embed_framed(model, std::move(framed), options);
}

std::vector<EmbeddedText> embed_ids(const Model& model, std::span<const std::vector<int32_t>> texts,
                                    const EmbedOptions& options) {
  const auto longest = static_cast<size_t>(longest_of(model, options));
  std::vector<FramedText> framed;
  for (const std::vector<int32_t>& ids : texts) {
    for (const int32_t id : ids) {
      require<ShapeError>(id >= 0 && id < model.vocab_size(), "embed: expected token ids from 0 to ",
                          model.vocab_size() - 1, ", got ", id);
    }
    framed.push_back({.ids = ids, .is_blank = ids.empty(), .is_cut = ids.size() > longest});
    if (framed.back().is_cut) framed.back().ids.resize(longest);
  }
  return embed_framed(model, std::move(framed), options);
}

double cosine(std::span<const float> a, std::span<const float> b) {
  require<ShapeError>(a.size() == b.size(), "cosine: the vectors have ", a.size(), " and ", b.size(), " numbers");
  double product = 0, left = 0, right = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    product += x * y, left += x * x, right += y * y;
  }
  return left > 0 && right > 0 ? product / std::sqrt(left * right) : 0;
}

}  // namespace attend
