#include "attend/ops/shape.h"
#include "attend/optim/adam.h"
#include "attend/optim/clip.h"
#include "attend/optim/schedule.h"
#include "attend/optim/sgd.h"
#include "attend/tensor/creation.h"
#include "registry.h"

namespace attend::golden {
namespace {

/// The parameter after each step, [steps, …].
template <class Optimizer>
Tensor steps_of(Optimizer optimizer, const Tensor& value, const Tensor& gradients) {
  const NoGrad no_grad;
  std::vector<Tensor> after;
  for (int64_t i = 0; i < gradients.dim(0); ++i) {
    set_grad(value, select(gradients, 0, i).clone());
    optimizer.step();
    after.push_back(value.clone());
  }
  return stack(after, 0);
}

AdamConfig adam_config(Options& options, bool decoupled) {
  const std::vector<double> betas = options.numbers("betas", {0.9, 0.999});
  require<FormatError>(betas.size() == 2, "options: betas must be two numbers");
  return {.lr = options.number("lr", 1e-3),
          .beta1 = betas[0],
          .beta2 = betas[1],
          .eps = options.number("eps", 1e-8),
          .weight_decay = options.number("weight_decay", decoupled ? 0.01 : 0),
          .decoupled = decoupled};
}

SgdConfig sgd_config(Options& options) {
  return {.lr = options.number("lr", 1e-3),
          .momentum = options.number("momentum", 0),
          .dampening = options.number("dampening", 0),
          .weight_decay = options.number("weight_decay", 0),
          .nesterov = options.flag("nesterov")};
}

void check_optimizer(Case& c) {
  const std::string kind = c.options().text("kind", "");
  const Tensor value = attend::parameter(c.input("param").clone()), gradients = c.input("grads").detach();
  const std::vector<NamedTensor> parameters{{"param", value}};
  if (kind == "adam" || kind == "adamw") {
    c.output("params", steps_of(Adam(parameters, adam_config(c.options(), kind == "adamw")), value, gradients));
  } else {
    require<FormatError>(kind == "sgd", "unknown optimizer '", kind, "'");
    c.output("params", steps_of(Sgd(parameters, sgd_config(c.options())), value, gradients));
  }
}

Schedule schedule_of(Options& options) {
  const std::string kind = options.text("kind", "");
  if (kind == "noam") {
    return noam_schedule({.dim = options.integer("d_model", 512),
                          .warmup = options.integer("warmup", 4000),
                          .factor = options.number("factor", 1)});
  }
  static const std::map<std::string, Schedule::Kind> kinds{
      {"constant", Schedule::Kind::constant}, {"linear", Schedule::Kind::linear}, {"cosine", Schedule::Kind::cosine}};
  const auto found = kinds.find(kind);
  require<FormatError>(found != kinds.end(), "unknown schedule '", kind, "'");
  return {.kind = found->second,
          .lr = options.number("lr", 1e-3),
          .lr_end = options.number("lr_end", 0),
          .warmup = options.integer("warmup", 0),
          .total = options.integer("total", 0)};
}

void check_schedule(Case& c) {
  const Schedule schedule = schedule_of(c.options());
  const Tensor steps = c.input("step");
  std::vector<float> rates;
  for (const double step : steps.to_vector<double>()) {
    rates.push_back(static_cast<float>(schedule.at(static_cast<int64_t>(step))));
  }
  c.output("lr", attend::tensor(rates, steps.shape()));
}

void check_clip_grad_norm(Case& c) {
  require<FormatError>(c.options().number("norm_type", 2) == 2, "options: only the norm of type 2 is known");
  std::vector<NamedTensor> parameters;
  for (const std::string& name : c.input_names()) {
    const Tensor gradient = c.input(name);
    const Tensor value = attend::parameter(zeros_like(gradient));
    set_grad(value, gradient.clone());
    parameters.emplace_back(name, value);
  }
  const double norm = clip_grad_norm(parameters, c.options().number("max_norm", 1));
  for (const auto& [name, value] : parameters) c.output(name, grad(value));
  c.output("norm", full({1}, norm));
}

}  // namespace

void add_optim(Registry& registry) {
  registry["optimizer"] = check_optimizer;
  registry["schedule"] = check_schedule;
  registry["clip_grad_norm"] = check_clip_grad_norm;
}

}  // namespace attend::golden
