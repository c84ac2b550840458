#include "attend/nn/recurrent.h"

#include "registry.h"

namespace attend::golden {
namespace {

RecurrentWeights torch_weights(Case& c, const std::string& suffix) {
  return {.input = {c.parameter("weight_ih" + suffix), c.parameter_or_empty("bias_ih" + suffix)},
          .hidden = {c.parameter("weight_hh" + suffix), c.parameter_or_empty("bias_hh" + suffix)}};
}

std::vector<RecurrentLayer> torch_layers(Case& c) {
  std::vector<RecurrentLayer> layers;
  for (;;) {
    const std::string suffix = "_l" + std::to_string(layers.size());
    if (!c.has_parameter("weight_ih" + suffix)) return layers;
    RecurrentLayer layer{.forward = torch_weights(c, suffix)};
    if (c.has_parameter("weight_ih" + suffix + "_reverse")) layer.backward = torch_weights(c, suffix + "_reverse");
    layers.push_back(std::move(layer));
  }
}

void check_recurrent(Case& c, CellKind cell) {
  Recurrent module;
  module.layers = torch_layers(c);
  require<FormatError>(!module.layers.empty(), "the case has no param.weight_ih_l0");
  const RecurrentWeights& first = module.layers[0].forward;
  module.config = {.input = first.input.weight.dim(1),
                   .state_dim = first.hidden.weight.dim(1),
                   .layers = static_cast<int64_t>(module.layers.size()),
                   .bidirectional = module.layers[0].backward.has_value(),
                   .bias = static_cast<bool>(first.input.bias),
                   .cell = cell};
  c.options().require_integer("layers", module.config.layers);
  c.options().require_integer("input_size", module.config.input);
  c.options().require_integer("hidden_size", module.config.state_dim);
  require<FormatError>(c.options().flag("bidirectional", module.config.bidirectional) == module.config.bidirectional &&
                           c.options().flag("bias", module.config.bias) == module.config.bias,
                       "options: bidirectional or bias does not agree with the parameters");
  require<FormatError>(c.options().flag("batch_first", true), "options: only batch_first cases can be checked");
  require<FormatError>(c.options().number("dropout", 0) == 0, "options: dropout cannot be compared with a reference");
  const RecurrentResult result = module.forward({.x = c.input("x"),
                                                 .state = {c.input_or_empty("h0"), c.input_or_empty("c0")},
                                                 .lengths = c.input_or_empty("lengths")});
  c.output("y", result.output);
  c.output("h", result.state.h);
  if (result.state.c) c.output("c", result.state.c);
}

void check_rnn(Case& c) {
  const std::string kind = c.options().text("nonlinearity", "tanh");
  require<FormatError>(kind == "tanh" || kind == "relu", "options: unknown nonlinearity '", kind, "'");
  check_recurrent(c, kind == "relu" ? CellKind::relu : CellKind::tanh);
}

}  // namespace

void add_recurrent(Registry& registry) {
  registry["rnn"] = check_rnn;
  registry["gru"] = [](Case& c) { check_recurrent(c, CellKind::gru); };
  registry["lstm"] = [](Case& c) { check_recurrent(c, CellKind::lstm); };
}

}  // namespace attend::golden
