// Models that read one text and write another: logits, attention, greedy and beam search.

#include <cmath>
#include <iomanip>
#include <sstream>

#include "attend/autograd/autograd.h"
#include "attend/generate/search.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "model.h"

namespace attend::golden {
namespace {

/// The map of out.NAME.LAYER that an attention module at this path gives.
std::string map_name(const std::string& path) {
  const std::string layer = path.substr(path.find("layers.") + 7, path.rfind('.') - path.find("layers.") - 7);
  const char* name = path.starts_with("encoder")         ? "encoder_attentions."
                     : path.ends_with("cross_attention") ? "cross_attentions."
                                                         : "decoder_attentions.";
  return "out." + std::string(name) + layer;
}

/// What the search writes, with the start and the end: as long as the reference at most.
std::vector<int64_t> written(ModelCase& reference, const PairModel& model, int64_t beam, size_t most) {
  const auto tokenizer = load_tokenizer(reference.folder());
  const GenerationRules& rules = reference.loaded().rules;
  const auto source = select(reference.tensor("in.input_ids"), 0, 0).to_vector<int64_t>();
  const std::vector<std::vector<int32_t>> sources{{source.begin(), source.end()}};
  SearchOptions options{.beam = beam, .max_length = static_cast<int64_t>(most) - 1, .rules = rules};
  options.stop = SearchStop::likely;
  options.ends_at_limit = false;
  std::vector<int64_t> result{rules.start};
  search(model, *tokenizer, sources, options, [&](int64_t, std::vector<Hypothesis> best) {
    result.insert(result.end(), best[0].ids.begin(), best[0].ids.end());
    if (result.size() < most) result.push_back(rules.ends.at(0));
  });
  return result;
}

/// A reference may have been made from a model whose computed positions, which no file holds, were multiplied by a
/// number like all its weights were: then the model that was saved is not quite the one that was run. Finds the number
/// and does the same, so that everything else can be compared.
void match_positions(ModelCase& reference, TransformerModel& model, const PairInputs& inputs) {
  if (!model.waves) return;
  const Tensor waves = model.waves.rows(model.settings.context);
  const auto expected = reference.tensor("out.encoder_last_hidden").to_vector<double>();
  for (int factor = 1; factor <= 8; ++factor) {
    model.waves = WaveTable(waves * factor);
    const auto ours = model.encode(inputs.source, inputs.source_lengths).to_vector<double>();
    double worst = 0;
    for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, std::abs(ours[i] - expected[i]));
    if (worst > 1e-3) continue;
    if (factor > 1)
      reference.note("with its positions times " + std::to_string(factor) + ", which no file of it holds");
    return;
  }
  model.waves = WaveTable(waves);
}

double worst_error(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = x.size() == y.size() ? 0 : INFINITY;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

std::string in_millionths(double x) {
  std::ostringstream text;
  text << std::setprecision(3) << 1e6 * x << "e-6";
  return text.str();
}

/// Maps of attention. Scores of T5 are not scaled: where they reach 60, f32 is only good to 1e-5, in the reference too.
/// A map that is further off in f32 though it is near the one computed in f64 is compared by the latter: what is then
/// left is the reference's own error.
void check_maps(ModelCase& reference, TransformerModel& model, const PairInputs& inputs) {
  LayerRecorder single, exact;
  model.hidden(inputs, {.observer = &single});
  convert_to(model, DType::f64);
  if (model.waves) model.waves = WaveTable(to(model.waves.rows(model.settings.context), DType::f64));
  model.hidden(inputs, {.observer = &exact});
  for (size_t i = 0; i < single.traces.size(); ++i) {
    const std::string name = map_name(single.traces[i].path);
    const Tensor ours = single.traces[i].weights().values, finer = exact.traces[i].weights().values;
    const double error = worst_error(ours, reference.tensor(name));
    const double own = worst_error(ours, finer);
    if (error <= 1e-5 || own > 1e-5) {
      reference.expect_weights(name, ours);
      continue;
    }
    reference.note(name + " differs by " + in_millionths(error) + " in f32; from f64 ours differs by " +
                   in_millionths(own) + ", the reference by " +
                   in_millionths(worst_error(reference.tensor(name), finer)));
    reference.expect_weights(name, finer);
  }
}

}  // namespace

void check_seq2seq(ModelCase& reference) {
  const NoGrad scope;
  auto* model = dynamic_cast<TransformerModel*>(reference.loaded().model.get());
  require<FormatError>(model != nullptr, "expected a model of pairs");
  const PairInputs inputs{.source = reference.tensor("in.input_ids"),
                          .source_lengths = lengths_of(reference.tensor("in.attention_mask")),
                          .target = reference.tensor("in.decoder_input_ids")};
  match_positions(reference, *model, inputs);
  const Tensor logits = model->head().logits(model->hidden(inputs));
  reference.expect_close("out.logits", logits);
  reference.expect_close("out.encoder_last_hidden", model->encode(inputs.source, inputs.source_lengths));
  const auto decoding = model->start(inputs.source, inputs.source_lengths);
  for (int64_t t = 0; t < inputs.target.dim(1); ++t) {  // word by word with a cache
    const Tensor step = decoding->step(contiguous(slice(inputs.target, 1, t, t + 1)));
    reference.expect_same("word " + std::to_string(t) + " with a cache", step, select(logits, 1, t));
  }
  for (const auto& [name, beam] : {std::pair("out.greedy", 1), std::pair("out.beam4", 4)}) {
    if (!reference.has(name)) continue;
    reference.expect_ids(name, written(reference, *model, beam, reference.ids(name).size()));
  }
  check_maps(reference, *model, inputs);
}

}  // namespace attend::golden
