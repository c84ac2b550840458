#include "attend/inspect/arrays.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/inspect/heads.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "inspect/array_name.h"
#include "inspect/pooling.h"
#include "inspect/scores.h"
#include "inspect/summaries.h"
#include "io/printable.h"

namespace attend {
namespace {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

Range range_of(int64_t first, std::optional<int64_t> end, int64_t count, const char* what) {
  const Range range{first, end.value_or(count)};
  require<ShapeError>(range.begin >= 0 && range.begin <= range.end && range.end <= count, "inspect: ", what, " ",
                      range.begin, " to ", range.end, " requested, but there are only ", count);
  return range;
}

void require_few(int64_t rows, int64_t columns) {
  require<ShapeError>(rows == 0 || columns <= kMostArrayValues / rows, "inspect: ", rows, " × ", columns,
                      " values requested, at most ", kMostArrayValues, " allowed: select fewer rows or columns");
}

/// The selected rows and columns of a matrix that is computed row by row.
struct Part {
  Range rows, columns;
  int64_t width;  // of a full row

  Part(const ArrayPart& part, int64_t all_rows, int64_t all_columns)
      : rows(range_of(part.first_row, part.end_row, all_rows, "rows")),
        columns(range_of(part.first_column, part.end_column, all_columns, "columns")),
        width(all_columns) {
    require_few(rows.size(), columns.size());
  }

  Array empty_array() const {
    Array result{.shape = {rows.size(), columns.size()}, .values = {}};
    result.values.reserve(static_cast<size_t>(rows.size() * columns.size()));
    return result;
  }
  void append(Array& array, std::span<const float> whole_rows) const {
    for (size_t begin = 0; begin < whole_rows.size(); begin += static_cast<size_t>(width)) {
      const auto row =
          whole_rows.subspan(begin + static_cast<size_t>(columns.begin), static_cast<size_t>(columns.size()));
      array.values.insert(array.values.end(), row.begin(), row.end());
    }
  }
};

/// Part of a tensor [rows, dim].
Array tensor_part(const Tensor& tensor, const ArrayPart& wanted) {
  const Part part(wanted, tensor.dim(0), tensor.dim(1));
  const Tensor chosen =
      slice(slice(tensor, 0, part.rows.begin, part.rows.end), 1, part.columns.begin, part.columns.end);
  return {.shape = chosen.shape(), .values = chosen.to_vector<float>()};
}

Array weights_part(const RunAttention& attention, int64_t head, const ArrayPart& wanted) {
  const Part part(wanted, attention.queries(), attention.keys());
  Array result = part.empty_array();
  sweep_rows(attention, {head}, {part.rows.begin, part.rows.end},
             [&](RowRange, std::span<const float> weights) { part.append(result, weights); });
  return result;
}

Array average_part(const RunAttention& attention, const ArrayPart& wanted) {
  const Part part(wanted, attention.queries(), attention.keys());
  Array result = part.empty_array();
  const auto heads = static_cast<size_t>(attention.heads());
  sweep_rows(attention, {}, {part.rows.begin, part.rows.end}, [&](RowRange, std::span<const float> weights) {
    std::vector<float> means(weights.size() / heads);
    for (size_t i = 0; i < means.size(); ++i) {
      double sum = 0;
      for (size_t head = 0; head < heads; ++head) sum += static_cast<double>(weights[head * means.size() + i]);
      means[i] = static_cast<float>(sum / static_cast<double>(heads));
    }
    part.append(result, means);
  });
  return result;
}

Array scores_part(const RunAttention& attention, int64_t head, const ArrayPart& wanted) {
  const Part part(wanted, attention.queries(), attention.keys());
  Array result = part.empty_array();
  constexpr int64_t kRows = 64;
  for (int64_t begin = part.rows.begin; begin < part.rows.end; begin += kRows) {
    part.append(result, scores_of(attention, head, {begin, std::min(begin + kRows, part.rows.end)}));
  }
  return result;
}

const Tensor& named(const std::vector<NamedTensor>& all, const char* kind, std::string_view name) {
  for (const auto& [known, tensor] : all) {
    if (known == name) return tensor;
  }
  throw ShapeError(std::string("inspect: the run has no ") + kind + " " + in_quotes(name));
}

}  // namespace

Array run_array(const Run& run, std::string_view name, const ArrayPart& part) {
  const NoGrad scope;
  const ArrayName parsed = parse_array_name(name);
  if (parsed.what == "values") return tensor_part(named(run.values, "value", parsed.rest), part);
  if (parsed.what == "parameters") {
    const Tensor& vector = named(run.parameters, "parameter", parsed.rest);
    return {.shape = vector.shape(), .values = vector.to_vector<float>()};
  }
  if (parsed.what == "rollout") return tensor_part(rollout(run, parsed.rest), part);
  if (parsed.what == "thumbnails") return thumbnails(attention_at(run, parsed.numbers[1]), parsed.numbers[0]);
  const RunAttention& attention = attention_at(run, parsed.numbers[0]);
  if (parsed.what == "average") return average_part(attention, part);
  if (parsed.what == "additive") {
    require<ShapeError>(static_cast<bool>(attention.additive), "inspect: attention ", parsed.numbers[0],
                        " has no additive score");
    return {.shape = attention.additive.shape(), .values = attention.additive.to_vector<float>()};
  }
  const int64_t head = parsed.numbers[1];
  check_head(attention, head);
  if (parsed.what == "tile") {
    return tile(run, {.attention = parsed.numbers[0],
                      .head = head,
                      .level = parsed.numbers[2],
                      .row = parsed.numbers[3],
                      .column = parsed.numbers[4]});
  }
  if (parsed.what == "weights") return weights_part(attention, head, part);
  if (parsed.what == "scores") return scores_part(attention, head, part);
  const AttentionTrace& trace = attention.trace;
  return tensor_part(head_rows(parsed.what == "q"   ? trace.q
                               : parsed.what == "k" ? trace.k
                                                    : trace.v,
                               head, attention.heads()),
                     part);
}

std::vector<std::string> array_names(const Run& run) {
  std::vector<std::string> names;
  const auto of_heads = [&](const std::string& what) {
    for (size_t a = 0; a < run.attention.size(); ++a) {
      for (int64_t h = 0; h < run.attention[a].heads(); ++h) {
        names.push_back(what + "/" + std::to_string(a) + "/" + std::to_string(h));
      }
    }
  };
  of_heads("weights");
  for (size_t a = 0; a < run.attention.size(); ++a) {
    names.push_back("thumbnails/64/" + std::to_string(a));
    if (run.attention[a].additive) names.push_back("additive/" + std::to_string(a));
  }
  for (const char* what : {"q", "k", "v"}) of_heads(what);
  for (const auto& [name, tensor] : run.values) names.push_back("values/" + name);
  for (const auto& [name, tensor] : run.parameters) names.push_back("parameters/" + name);
  of_heads("scores");
  std::vector<std::string> stacks;
  for (size_t a = 0; a < run.attention.size(); ++a) {
    names.push_back("average/" + std::to_string(a));
    const std::string& stack = run.attention[a].stack;
    if (!run.attention[a].is_cross && std::ranges::find(stacks, stack) == stacks.end()) stacks.push_back(stack);
  }
  for (const std::string& stack : stacks) names.push_back("rollout/" + stack);
  return names;
}

int64_t array_size(const Run& run, std::string_view name) {
  const ArrayName parsed = parse_array_name(name);
  if (parsed.what == "values") return named(run.values, "value", parsed.rest).numel();
  if (parsed.what == "parameters") return named(run.parameters, "parameter", parsed.rest).numel();
  if (parsed.what == "rollout") {
    int64_t size = 0;
    for (const RunAttention& attention : run.attention) {
      if (attention.stack == parsed.rest && !attention.is_cross) size = attention.queries() * attention.keys();
    }
    return size;
  }
  const RunAttention& attention = attention_at(run, parsed.numbers[parsed.what == "thumbnails" ? 1 : 0]);
  const AttentionTrace& trace = attention.trace;
  if (parsed.what == "thumbnails") {
    return attention.heads() * std::min(parsed.numbers[0], attention.queries()) *
           std::min(parsed.numbers[0], attention.keys());
  }
  if (parsed.what == "additive") return attention.additive ? attention.additive.numel() : 0;
  if (parsed.what == "q") return attention.queries() * trace.q.dim(3);
  if (parsed.what == "k") return attention.keys() * trace.k.dim(3);
  if (parsed.what == "v") return attention.keys() * trace.v.dim(3);
  return attention.queries() * attention.keys();
}

}  // namespace attend
