#include <algorithm>

#include "attend/nn/embedding.h"
#include "attend/nn/linear.h"
#include "attend/nn/norm.h"
#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/cross_entropy.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"
#include "registry.h"

namespace attend::golden {
namespace {

void check_activation(Case& c) {
  using Function = Tensor (*)(const Tensor&);
  static const std::map<std::string, Function> kinds{
      {"relu", relu},       {"gelu", gelu},       {"gelu_tanh", gelu_tanh},
      {"silu", silu},       {"swish", silu},      {"tanh", tanh},
      {"sigmoid", sigmoid}, {"softmax", softmax}, {"log_softmax", log_softmax},
      {"exp", exp},         {"log", log}};
  std::string kind = c.options().text("kind", "");
  if (kind == "gelu" && c.options().text("approximate", "none") == "tanh") kind = "gelu_tanh";
  const auto found = kinds.find(kind);
  require<FormatError>(found != kinds.end(), "unknown activation '", kind, "'");
  const Tensor x = c.input("x");
  const int64_t axis = c.options().integer("dim", -1);
  c.output("y", transpose(found->second(transpose(x, axis, -1)), axis, -1));
}

void check_linear(Case& c) {
  const Linear module{c.parameter("weight"), c.parameter_or_empty("bias")};
  require<FormatError>(c.options().flag("bias", c.has_parameter("bias")) == c.has_parameter("bias"),
                       "options: bias does not agree with the parameters");
  c.output("y", module.forward(c.input("x")));
}

void check_embedding(Case& c) {
  const Embedding module{c.parameter("weight")};
  c.output("y", module.forward(c.input("ids")));
}

void check_layer_norm(Case& c) {
  const LayerNorm module{c.options().number("eps", 1e-5), c.parameter_or_empty("weight"), c.parameter_or_empty("bias")};
  c.output("y", module.forward(c.input("x")));
}

void check_rms_norm(Case& c) {
  const RMSNorm module{c.options().number("eps", 1e-6), c.parameter_or_empty("weight")};
  c.output("y", module.forward(c.input("x")));
}

void check_cross_entropy(Case& c) {
  const LossOptions options{.label_smoothing = c.options().number("label_smoothing", 0),
                            .ignore_index = c.options().integer("ignore_index", -100)};
  const std::string reduction = c.options().text("reduction", "mean");
  require<FormatError>(reduction == "mean" || reduction == "sum", "options: unknown reduction '", reduction, "'");
  const Tensor target = c.input("target");
  Tensor loss = cross_entropy(c.input("x"), target, options);
  if (reduction == "sum") {
    const auto targets = target.to_vector<int64_t>();
    const auto ignored = std::count(targets.begin(), targets.end(), options.ignore_index);
    loss = scale(loss, static_cast<double>(target.numel() - ignored));
  }
  c.output("y", loss);
}

void check_positional_encoding(Case& c) {
  const Tensor table = sinusoidal_positions(c.options().integer("length", 0), c.options().integer("dim", 0),
                                            c.options().number("base", 10000.0));
  const Tensor x = c.input_or_empty("x");
  c.output("y", x ? x + table : table);
}

void check_rope(Case& c) {
  const std::string layout = c.options().text("layout", "half");
  require<FormatError>(layout == "half" || layout == "interleaved", "options: unknown layout '", layout, "'");
  RopeOptions options{.base = c.options().number("base", 10000.0),
                      .offset = c.options().integer("offset", 0),
                      .interleaved = layout == "interleaved",
                      .dims = c.options().integer("dims", 0)};
  options.positions = c.input_or_empty("positions");
  c.output("y", rope(c.input("x"), options));
}

}  // namespace

void add_elementary(Registry& registry) {
  registry["activation"] = check_activation;
  registry["linear"] = check_linear;
  registry["embedding"] = check_embedding;
  registry["layer_norm"] = check_layer_norm;
  registry["rms_norm"] = check_rms_norm;
  registry["cross_entropy"] = check_cross_entropy;
  registry["positional_encoding"] = check_positional_encoding;
  registry["rope"] = check_rope;
}

}  // namespace attend::golden
