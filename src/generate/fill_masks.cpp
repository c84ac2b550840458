#include "attend/generate/fill_masks.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/id_rows.h"
#include "generate/numbers.h"
#include "generate/top.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr size_t kMasksAtOnce = 256;  // rows of logits in memory, each as long as the vocabulary

/// A mask in one of the texts.
struct MaskPlace {
  size_t text = 0, mask = 0;
  int64_t row = 0;  // in the batch's hidden states, as [texts · longest, dim]
};

std::string trimmed(std::string text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

MaskCandidate candidate(const Tokenizer& tokenizer, const Continuation& found) {
  MaskCandidate result{.id = found.id, .token = tokenizer.token(found.id), .probability = found.value};
  result.word = trimmed(tokenizer.decode(std::span(&found.id, 1)));
  if (result.word.empty()) result.word = result.token;
  return result;
}

/// Replaces each mask by its best candidate. A piece that continues a word is joined to the word before it.
std::string filled(const std::string& text, const std::string& mask, const std::vector<FilledMask>& masks) {
  std::string result;
  size_t from = 0, next = 0;
  for (size_t at = text.find(mask); at != std::string::npos && next < masks.size(); at = text.find(mask, from)) {
    result += text.substr(from, at - from);
    std::string word = masks[next++].candidates[0].word;
    if (word.starts_with("##") && word.size() > 2) {  // WordPiece
      word.erase(0, 2);
      while (result.ends_with(' ')) result.pop_back();
    }
    result += word;
    from = at + mask.size();
  }
  return result + text.substr(from);
}

/// Adds the candidates of the masks at these places. `hidden` is [rows, dim].
void add_candidates(const Head& head, const Tensor& hidden, std::span<const MaskPlace> places,
                    const Tokenizer& tokenizer, const FillOptions& options, std::vector<FilledText>& results) {
  std::vector<int64_t> rows;
  for (const MaskPlace& place : places) rows.push_back(place.row);
  const Tensor chosen = embedding(tensor<int64_t>(rows, {std::ssize(rows)}), hidden);
  const Tensor shares = to(contiguous(to(softmax(head.logits(chosen)), DType::f32)), kCpu);  // [places, words]
  const auto words = static_cast<size_t>(tokenizer.size()), stride = static_cast<size_t>(shares.dim(1));
  std::vector<Continuation> best;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto row = shares.data<const float>().subspan(i * stride, words);
    require_number(row[0], "fill");
    top_values(row, std::min<int64_t>(options.top, tokenizer.size()), best);
    FilledMask& mask = results[places[i].text].masks[places[i].mask];
    for (const Continuation& found : best) mask.candidates.push_back(candidate(tokenizer, found));
  }
}

}  // namespace

std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const FillOptions& options) {
  require<ShapeError>(options.top >= 1, "fill: top must be at least 1, got ", options.top);
  require<ShapeError>(options.batch_tokens >= 1, "fill: batch_tokens must be at least 1, got ", options.batch_tokens);
  const int32_t mask = tokenizer.special().mask;
  require<FormatError>(mask >= 0, "fill: the tokenizer has no mask token");
  Vocabulary::of(tokenizer, model.vocab_size());  // throws if tokenizer and model do not match
  const Head head = model.masked_head();
  const NoGrad scope;
  std::vector<FilledText> results(texts.size());
  std::vector<std::vector<int32_t>> ids;
  std::vector<int64_t> lengths;  // 0 for texts without a mask, which the model need not read
  for (size_t i = 0; i < texts.size(); ++i) {
    FramedText text = frame_masked(tokenizer, texts[i], model.context());
    results[i].is_cut = text.is_cut;
    results[i].tokens = text.is_blank ? 0 : std::ssize(text.ids);
    for (size_t at = 0; at < text.ids.size(); ++at) {
      if (text.ids[at] == mask) results[i].masks.push_back({.position = static_cast<int64_t>(at), .candidates = {}});
    }
    lengths.push_back(results[i].masks.empty() ? 0 : results[i].tokens);
    ids.push_back(std::move(text.ids));
  }
  for (const Batch& batch : group_by_length(lengths, {.tokens = options.batch_tokens})) {
    if (lengths[static_cast<size_t>(batch[0])] == 0) continue;
    const IdRows read = pad_rows(ids, batch);
    const Tensor hidden = model.masked_hidden({.ids = read.ids, .lengths = read.lengths});  // [texts, longest, dim]
    std::vector<MaskPlace> places;
    for (size_t row = 0; row < batch.size(); ++row) {
      const auto text = static_cast<size_t>(batch[row]);
      for (size_t i = 0; i < results[text].masks.size(); ++i) {
        places.push_back({text, i, static_cast<int64_t>(row) * hidden.dim(1) + results[text].masks[i].position});
      }
    }
    const Tensor vectors = reshape(hidden, {-1, hidden.dim(2)});
    for (size_t begin = 0; begin < places.size(); begin += kMasksAtOnce) {
      const auto some = std::span(places).subspan(begin, std::min(kMasksAtOnce, places.size() - begin));
      add_candidates(head, vectors, some, tokenizer, options, results);
    }
  }
  for (size_t i = 0; i < texts.size(); ++i) results[i].text = filled(texts[i], tokenizer.token(mask), results[i].masks);
  return results;
}

}  // namespace attend
