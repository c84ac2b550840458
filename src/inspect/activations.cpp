#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/inspect/experiment.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "io/printable.h"

namespace attend {

void ActivationRecorder::computed(std::string_view what, const Tensor& value) {
  if (value.rank() == 3) values[path() + ":" + std::string(what)] = value.detach();
}

const Tensor& ActivationRecorder::at(const std::string& name) const {
  const auto found = values.find(name);
  require<ShapeError>(found != values.end(), "the model has no activation ", in_quotes(name));
  return found->second;
}

Tensor changed(const Tensor& value, const ActivationChange& change) {
  const int64_t rows = value.dim(1), width = value.dim(2);
  int64_t first = 0, end = width;
  if (change.head) {
    require<ShapeError>(*change.head >= 0 && *change.head < change.heads, "there is no head ", *change.head,
                        "; the layer has ", change.heads, ", counted from 0");
    first = *change.head * (width / change.heads);
    end = first + width / change.heads;
  }
  require<ShapeError>(change.value.rank() == 2 && change.value.dim(1) == width &&
                          (change.value.dim(0) == rows || change.value.dim(0) == 1),
                      "the activation ", change.point, " is [", rows, ", ", width, "], but its new value is ",
                      change.value.shape());
  const NoGrad scope;
  const Tensor result = value.clone();
  const auto put = [&](int64_t begin, int64_t past) {
    const Tensor old = slice(slice(value, 1, begin, past), 2, first, end);
    Tensor fresh = change.value.dim(0) == 1 ? change.value : slice(change.value, 0, begin, past);
    fresh = to(unsqueeze(slice(fresh, 1, first, end), 0), value.device());
    const Tensor put_in =
        change.is_added ? old + to(fresh, value.dtype()) * change.strength : expand(fresh, old.shape());
    copy_values(put_in, slice(slice(result, 1, begin, past), 2, first, end));
  };
  if (change.places.empty()) {
    put(0, rows);
  } else {
    for (const int64_t place : change.places) {
      require<ShapeError>(place >= 0 && place < rows, "there is no place ", place, " in ", change.point, "; it has ",
                          rows, ", counted from 0");
      put(place, place + 1);
    }
  }
  return result;
}

Tensor apply_changes(const std::vector<ActivationChange>& changes, std::string_view path, std::string_view what,
                     const Tensor& value) {
  if (changes.empty() || value.rank() != 3) return {};
  const std::string name = std::string(path) + ":" + std::string(what);
  Tensor result;
  for (const ActivationChange& change : changes) {
    if (change.point == name) result = changed(result ? result : value, change);
  }
  return result;
}

Tensor ActivationChanger::replacement(std::string_view what, const Tensor& value) {
  return apply_changes(changes, path(), what, value);
}

Tensor ActivationChanger::known_output() {
  const auto found = known.find(path());
  return found == known.end() ? Tensor{} : found->second;
}

}  // namespace attend
