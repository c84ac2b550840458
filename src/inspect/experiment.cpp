#include "attend/inspect/experiment.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "inspect/structure.h"
#include "io/printable.h"

namespace attend {
namespace {

constexpr int64_t kLongestPair = int64_t{1} << 20;

Tensor ids_of(const RunSide& side) {
  std::vector<int64_t> ids;
  for (const ShownToken& token : side.tokens) ids.push_back(token.id);
  return tensor<int64_t>(ids, {1, std::ssize(ids)});
}

}  // namespace

Experiment::Experiment(InspectedModel model, RunOptions options) : model_(std::move(model)) {
  require<ShapeError>(options.heads.empty() && options.tokens.empty(),
                      "experiment: heads and tokens cannot be switched off at the same time");
  sides_ = capture(model_, options).sides;
  stacks_ = stacks_of(*model_.model);
  if (const auto* image = dynamic_cast<const ImageModel*>(model_.model.get())) {
    first_ = model_.preparation.pixels(*options.picture);
    predicts_next_ = false;
    has_labels_ = !image->labels().empty();
    require<Error>(has_labels_, "experiment: the model has no classifier, so it has no outputs to study");
    return;
  }
  first_ = ids_of(sides_[0]);
  if (sides_.size() > 1) {
    second_ = ids_of(sides_[1]);
    output_side_ = 1;
  }
  const auto* encoder = dynamic_cast<const EncoderModel*>(model_.model.get());
  if (encoder == nullptr) return;
  predicts_next_ = false;
  has_labels_ = !encoder->labels().empty();
  require<Error>(has_labels_ || encoder->has_masked_head(),
                 "experiment: the encoder has neither labels nor a masked-language-model head, so it has no outputs "
                 "to study");
  if (!options.second) return;
  const EncodedPair pair = model_.tokenizer->encode_pair(options.text, *options.second, kLongestPair);
  types_ = tensor<int64_t>(std::vector<int64_t>(pair.types.begin(), pair.types.end()), {1, std::ssize(pair.types)});
}

int64_t Experiment::outputs() const {
  return has_labels_ ? 1 : std::ssize(sides_[static_cast<size_t>(output_side_)].tokens);
}

int64_t Experiment::usual_output() const {
  if (has_labels_ || predicts_next_) return outputs() - 1;
  const std::vector<ShownToken>& tokens = sides_[static_cast<size_t>(output_side_)].tokens;
  const auto mask = std::ranges::find(tokens, model_.tokenizer->special().mask, &ShownToken::id);
  if (mask != tokens.end()) return mask - tokens.begin();
  const auto last = std::find_if(tokens.rbegin(), tokens.rend(),
                                 [](const ShownToken& token) { return token.kind != TokenKind::special; });
  return last == tokens.rend() ? outputs() - 1 : tokens.rend() - last - 1;
}

int64_t Experiment::classes() const {
  return has_labels_ ? std::ssize(labels_of(*model_.model)) : head_of(*model_.model).weight.dim(0);
}

ShownToken Experiment::class_token(int64_t id) const {
  if (!has_labels_) return show_token(*model_.tokenizer, static_cast<int32_t>(id));
  ShownToken token;
  token.id = static_cast<int32_t>(id);
  token.text = labels_of(*model_.model).at(static_cast<size_t>(id));
  return token;
}

int64_t Experiment::class_named(const std::string& text) const {
  if (has_labels_) {
    const std::vector<std::string> labels = labels_of(*model_.model);
    const auto found = std::ranges::find(labels, text);
    require<ShapeError>(found != labels.end(), "there is no label ", in_quotes(text));
    return found - labels.begin();
  }
  // A word in the middle of a text usually has a leading space, which is part of its token.
  std::vector<std::string> spellings{text};
  if (!text.starts_with(' ')) spellings.insert(spellings.begin(), " " + text);
  for (const std::string& spelling : spellings) {
    const std::vector<int32_t> ids = model_.model->kind() == ModelKind::translation
                                         ? model_.tokenizer->encode_target(spelling)
                                         : model_.tokenizer->encode(spelling);
    if (ids.size() == 1) return ids[0];
  }
  if (const auto id = model_.tokenizer->find(text)) return *id;
  throw ShapeError("the text " + in_quotes(text) + " is more than one token; name one token");
}

int64_t Experiment::true_class(int64_t output) const {
  if (has_labels_) return -1;
  const std::vector<ShownToken>& tokens = sides_[static_cast<size_t>(output_side_)].tokens;
  const int64_t at = output + (predicts_next_ ? 1 : 0);
  if (at >= std::ssize(tokens)) return -1;
  const int32_t id = tokens[static_cast<size_t>(at)].id;
  return !predicts_next_ && id == model_.tokenizer->special().mask ? -1 : id;  // a mask hides the word
}

const StackPlace& Experiment::residual_stack(const char* tool) const {
  require<Error>(stacks_.back().layers > 0, tool, " needs the residual stream of a Transformer; architecture ",
                 model_.model->architecture(), " has none");
  return stacks_.back();
}

Tensor Experiment::hidden(const ForwardPass& pass) const {
  const Model& model = *model_.model;
  if (const auto* pair = dynamic_cast<const PairModel*>(&model)) {
    return pair->hidden({.source = first_, .source_lengths = {}, .target = second_}, pass);
  }
  if (const auto* language = dynamic_cast<const LanguageModel*>(&model)) return language->hidden(first_, pass);
  return dynamic_cast<const EncoderModel&>(model).masked_hidden({.ids = first_, .lengths = {}, .types = types_}, pass);
}

Tensor Experiment::logits(Observer* observer, RowRange range) const {
  const ForwardPass pass{.observer = observer};
  if (has_labels_) {
    if (const auto* image = dynamic_cast<const ImageModel*>(model_.model.get())) return image->classify(first_, pass);
    return dynamic_cast<const EncoderModel&>(*model_.model)
        .classify({.ids = first_, .lengths = {}, .types = types_}, pass);
  }
  const Tensor rows = slice(select(hidden(pass), 0, 0), 0, range.begin, range.end);
  return head_of(*model_.model).logits(rows);
}

}  // namespace attend
