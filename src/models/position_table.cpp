#include "models/position_table.h"

#include <cmath>

#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "ops/context_part.h"

namespace attend {

void set_positions(TransformerLayerConfig& layer, Positions positions) {
  require<ShapeError>(positions != Positions::relative,
                      "positions: only architecture transformer supports relative positions");
  if (positions == Positions::rotary) layer.rope = RopeOptions{};
  layer.alibi = positions == Positions::alibi;
}

Tensor position_rows(const std::optional<LearnedPositions>& learned, const WaveTable& waves, int64_t length) {
  if (learned) return learned->weight;
  return waves ? waves.rows(length) : Tensor{};
}

Tensor add_positions(const Tensor& x, const Tensor& table, const CacheStep* step) {
  if (!table) return x;
  const Tensor rows = on_device(table, x.device());
  if (step && !step->is_even()) return x + embedding(step->positions(), rows);
  const int64_t offset = step ? step->held[0] : 0;
  return x + slice(rows, 0, offset, offset + x.dim(1));
}

Tensor add_positions(const Tensor& x, const Tensor& table, const ContextPart& part) {
  return table ? x + embedding(part.positions(), on_device(table, x.device())) : x;
}

void show_positions(const Tensor& x, const Tensor& table, const ForwardPass& pass) {
  if (pass.observer && table) pass.show("positions", unsqueeze(slice(table, 0, 0, x.dim(1)), 0));
}

void check_length(const char* name, int64_t length, int64_t context) {
  require<ShapeError>(length <= context, name, ": a sequence of ", length, " tokens is longer than the context of ",
                      context);
}

void draw_normal(TransformerEncoder& stack, double deviation, int64_t residual_layers, Rng& rng) {
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(residual_layers, 1)));
  for_each_parameter(stack, "", [&](const std::string& name, Tensor& tensor) {
    const bool adds = name.ends_with("output.weight") || name.ends_with("down.weight");
    if (tensor.rank() == 2) tensor = normal_parameter(tensor.shape(), adds ? residual : deviation, rng);
    if (name.ends_with(".bias")) tensor = constant_parameter(tensor.shape(), 0);
  });
}

}  // namespace attend
