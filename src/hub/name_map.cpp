#include "hub/name_map.h"

#include <cstring>
#include <set>

#include "attend/autograd/autograd.h"
#include "attend/nn/cache.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "io/mapped_file.h"
#include "io/printable.h"

namespace attend::hub {
namespace {

using Parameters = std::map<std::string, Tensor>;

std::string numbered(std::string name, int64_t layer) {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.replace(at, 2, std::to_string(layer));
}

/// A rule for one layer, with the parameters that the model has.
struct Bound {
  Rule rule;
  std::vector<Tensor> parameters;
};

Bound bind(const Rule& rule, const Parameters& parameters, int64_t layer) {
  Bound bound{rule, {}};
  bound.rule.theirs = numbered(rule.theirs, layer);
  bound.rule.ours.clear();
  for (const std::string& ours : rule.ours) {
    const auto found = parameters.find(numbered(ours, layer));
    if (found == parameters.end()) continue;
    bound.rule.ours.push_back(found->first);
    bound.parameters.push_back(found->second);
  }
  return bound;
}

int64_t layers_of(const Parameters& parameters) {
  int64_t most = 0;
  for (const auto& [name, tensor] : parameters) {
    const size_t at = name.find("layers.");
    if (at != std::string::npos) most = std::max<int64_t>(most, std::stoll(name.substr(at + 7)) + 1);
  }
  return most;
}

/// All rules that apply to the model, for every layer. Each parameter must have exactly one rule.
std::vector<Bound> bind_all(const NameMap& map, const Parameters& parameters) {
  std::vector<Bound> all;
  std::set<std::string> seen;
  const int64_t layers = layers_of(parameters);
  for (const Rule& rule : map.rules) {
    const bool has_layers = rule.theirs.find("{}") != std::string::npos;
    for (int64_t layer = 0; layer < (has_layers ? layers : 1); ++layer) {
      Bound bound = bind(rule, parameters, layer);
      if (bound.rule.ours.empty()) continue;
      for (const std::string& name : bound.rule.ours) {
        require<Error>(seen.insert(name).second, "name map: two rules for parameter ", name);
      }
      all.push_back(std::move(bound));
    }
  }
  for (const auto& [name, tensor] : parameters) {
    require<Error>(seen.contains(name), "name map: no rule for parameter ", name);
  }
  return all;
}

Shape joined_shape(const Bound& bound) {
  Shape shape = bound.parameters[0].shape();
  for (size_t i = 1; i < bound.parameters.size(); ++i) shape[0] += bound.parameters[i].dim(0);
  shape[0] += bound.rule.skipped_rows;
  if (bound.rule.layout == Layout::transposed && shape.rank() == 2) std::swap(shape[0], shape[1]);
  return shape;
}

/// For each of our rows, their row; with to_ours false, the inverse.
std::vector<int64_t> pair_order(int64_t rows, int64_t head_dim, bool to_ours) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  const int64_t half = head_dim / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim * head_dim, i = row % head_dim;
    const int64_t theirs = head + (i < half ? 2 * i : 2 * (i - half) + 1);
    order[static_cast<size_t>(to_ours ? row : theirs)] = to_ours ? theirs : row;
  }
  return order;
}

/// Their tensor in our layout; a view if possible.
Tensor in_our_layout(const Tensor& theirs, const Rule& rule) {
  Tensor x = theirs;
  if (rule.layout == Layout::transposed && x.rank() == 2) x = transpose(x, 0, 1);
  if (rule.skipped_rows > 0) x = slice(x, 0, rule.skipped_rows, x.dim(0));
  if (rule.layout == Layout::interleaved) x = select_rows(x, pair_order(x.dim(0), rule.head_dim, true));
  return x;
}

std::string found_name(const HubWeights& weights, const NameMap& map, const Rule& rule) {
  if (rule.is_bare || map.prefix.empty()) return rule.theirs;
  return weights.contains(map.prefix + rule.theirs) || !weights.contains(rule.theirs) ? map.prefix + rule.theirs
                                                                                      : rule.theirs;
}

bool is_reshaped(const Rule& rule) { return rule.layout == Layout::reshaped || rule.layout == Layout::one_row; }

void check_shape(const Bound& bound, const std::string& name, const HubWeights& weights) {
  const Shape expected = joined_shape(bound), &got = weights.shape(name);
  const bool fits = is_reshaped(bound.rule) ? expected.numel() == got.numel() : expected == got;
  require<FormatError>(fits, weights.name(), ": tensor ", in_quotes(name), " has shape ", got,
                       ", but config.json describes ", expected);
}

/// The names of parameters that may stay bf16.
std::set<std::string> bf16_names(Model& model) {
  const std::vector<Tensor*> matrices = model.matrices();
  std::set<std::string> names;
  model.visit_parameters([&](const std::string& name, Tensor& parameter) {
    if (std::ranges::find(matrices, &parameter) != matrices.end()) names.insert(name);
  });
  return names;
}

/// The tensor as f32 or bf16 and contiguous; a view of the file if possible.
Tensor held(const Tensor& part, bool may_be_bf16) {
  const DType dtype = may_be_bf16 && part.dtype() == DType::bf16 ? DType::bf16 : DType::f32;
  if (part.dtype() != dtype) return to(part, dtype);
  return part.is_contiguous() ? part : part.clone();
}

/// Takes our parameters from one of their tensors. Releases pages of the file that were copied.
void take(const Bound& bound, const std::string& name, const HubWeights& weights, const std::set<std::string>& as_bf16,
          Parameters& values) {
  const Tensor stored = weights.tensor(name);
  require<FormatError>(is_floating(stored.dtype()), weights.name(), ": tensor ", in_quotes(name), " is ",
                       stored.dtype(), ", expected f32, f16 or bf16");
  const Tensor x = in_our_layout(stored, bound.rule);
  bool is_in_place = false;
  for (int64_t i = 0, row = 0; i < std::ssize(bound.parameters); ++i) {
    const Tensor& parameter = bound.parameters[static_cast<size_t>(i)];
    Tensor part = x;
    if (is_reshaped(bound.rule)) {
      part = reshape(x, parameter.shape());
    } else if (bound.parameters.size() > 1) {
      part = slice(x, 0, row, row + parameter.dim(0));
      row += parameter.dim(0);
    }
    const std::string& ours = bound.rule.ours[static_cast<size_t>(i)];
    part = held(part, as_bf16.contains(ours));
    is_in_place |= part.storage() == stored.storage();
    values[ours] = part;
  }
  if (is_in_place || !stored.storage()->is_read_only()) return;
  drop_pages({static_cast<const std::byte*>(stored.raw()), stored.storage()->bytes()});
}

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(rest, name.substr(at))) return true;
  }
  return false;
}

std::string_view without_prefix(const NameMap& map, std::string_view name) {
  if (!map.prefix.empty() && name.starts_with(map.prefix)) name.remove_prefix(map.prefix.size());
  return name;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

bool has_same_values(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

/// Whether this is one of map.repeats, with the values of another one that was used.
bool is_repeated(const NameMap& map, const HubWeights& weights, const std::set<std::string>& used,
                 const std::string& name) {
  const auto is_repeat = [&](const std::string& one) {
    return std::ranges::find(map.repeats, without_prefix(map, one)) != map.repeats.end();
  };
  return is_repeat(name) && std::ranges::any_of(used, [&](const std::string& other) {
           return is_repeat(other) && has_same_values(weights.tensor(name), weights.tensor(other));
         });
}

/// One of their tensors, made from our parameters.
Tensor joined(const Bound& bound) {
  Tensor x = bound.parameters[0].detach();
  if (bound.parameters.size() > 1) {
    std::vector<Tensor> parts;
    for (const Tensor& parameter : bound.parameters) parts.push_back(parameter.detach());
    x = concat(parts, 0);
  }
  if (bound.rule.layout == Layout::interleaved) {
    x = select_rows(x, pair_order(x.dim(0), bound.rule.head_dim, false));
  }
  if (bound.rule.skipped_rows > 0) {
    Shape more = x.shape();
    more[0] = bound.rule.skipped_rows;
    x = concat({zeros(more), x}, 0);
  }
  if (bound.rule.layout == Layout::transposed && x.rank() == 2) x = transpose(x, 0, 1);
  if (bound.rule.layout == Layout::one_row) x = reshape(x, {1, x.numel()});
  return x;
}

Parameters by_name(const Model& model) {
  Parameters result;
  for (const auto& [name, tensor] : model.parameters()) result[name] = tensor;
  return result;
}

}  // namespace

void NameMap::add(const std::string& theirs, const std::string& ours, Layout layout) {
  rules.push_back({.theirs = theirs, .ours = {ours}, .layout = layout});
}

void NameMap::add_both(const std::string& theirs, const std::string& ours, Layout layout) {
  add_joined(theirs, {ours}, layout);
}

void NameMap::add_joined(const std::string& theirs, const std::vector<std::string>& ours, Layout layout) {
  for (const char* part : {".weight", ".bias"}) {
    Rule rule{.theirs = theirs + part, .ours = {}, .layout = layout};
    for (const std::string& name : ours) rule.ours.push_back(name + part);
    rules.push_back(std::move(rule));
  }
}

LeftOver load_weights(Model& model, const NameMap& map, const HubWeights& weights, const HubOptions& options) {
  const NoGrad scope;
  const std::set<std::string> as_bf16 = options.keep_bf16 ? bf16_names(model) : std::set<std::string>{};
  Parameters values;
  std::set<std::string> used;
  for (const Bound& bound : bind_all(map, by_name(model))) {
    const std::string name = found_name(weights, map, bound.rule);
    check_shape(bound, name, weights);
    take(bound, name, weights, as_bf16, values);
    used.insert(name);
  }
  model.visit_parameters([&](const std::string& name, Tensor& parameter) { parameter = values.at(name); });
  LeftOver left;
  for (const std::string& name : weights.names()) {
    const std::string_view bare = without_prefix(map, name);
    if (used.contains(name) || matches_any(map.ignored, bare) || is_repeated(map, weights, used, name)) continue;
    (matches_any(map.other_heads, bare) ? left.other_heads : left.unused).push_back(name);
  }
  return left;
}

std::vector<NamedTensor> weights_of(const Model& model, const NameMap& map) {
  const NoGrad scope;
  std::vector<NamedTensor> result;
  for (const Bound& bound : bind_all(map, by_name(model))) {
    result.emplace_back(bound.rule.is_bare ? bound.rule.theirs : map.prefix + bound.rule.theirs, joined(bound));
  }
  for (const auto& [name, of] : map.copies) {
    const auto found = std::ranges::find(result, of, &NamedTensor::first);
    if (found != result.end()) result.emplace_back(name, Tensor(found->second));
  }
  return result;
}

}  // namespace attend::hub
