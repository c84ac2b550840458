#include <algorithm>
#include <optional>
#include <vector>

#include "backend/cuda/cuda.h"
#include "backend/cuda/matmul/product.h"
#include "backend/cuda/runtime.h"

namespace attend::cuda {
namespace {

constexpr int64_t kMostMatrices = 65535;            // in one call of cuBLASLt: a limit of the launch grid
constexpr int64_t kRoundedWork = int64_t{1} << 24;  // multiply-adds; smaller products stay exact

size_t bytes_of(int64_t elements, DType type) { return static_cast<size_t>(elements) * size_of(type); }

const void* moved(const void* data, int64_t elements, DType type) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(type));
}
void* moved(void* data, int64_t elements, DType type) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(type));
}

/// The last two axes of a view as an operand, if one of them is contiguous and the other does not overlap.
std::optional<Operand> operand_of(const ConstView& view) {
  const int64_t rows = view.shape[view.rank() - 2], columns = view.shape[view.rank() - 1];
  int64_t row_stride = view.strides[view.rank() - 2], column_stride = view.strides[view.rank() - 1];
  if (columns == 1) column_stride = 1;  // the stride of an axis of size 1 is arbitrary
  if (rows == 1) row_stride = column_stride == 1 ? columns : 1;
  if (column_stride == 1 && row_stride >= columns) return Operand{.data = view.data, .stride = row_stride};
  if (row_stride == 1 && column_stride >= rows) {
    return Operand{.data = view.data, .stride = column_stride, .turned = true};
  }
  return std::nullopt;
}

/// A dense copy of a matrix or a batch of them in another type. Axes of stride 0 are not copied. Rows or columns stay
/// contiguous if they were, and begin at multiples of 16 bytes.
class DenseCopy {
 public:
  DenseCopy(const ConstView& view, DType type) {
    View copied{.dtype = type, .shape = view.shape, .strides = view.strides};
    ConstView from = view;
    const int64_t row = view.rank() - 2, column = view.rank() - 1;
    const bool is_turned = view.strides[row] < view.strides[column] && view.strides[row] > 0;
    const int64_t inner = is_turned ? row : column, outer = is_turned ? column : row;
    const int64_t unit = 16 / static_cast<int64_t>(size_of(type));
    copied.strides[inner] = 1;
    copied.strides[outer] = (std::max<int64_t>(view.shape[inner], 1) + unit - 1) / unit * unit;
    int64_t step = copied.strides[outer] * view.shape[outer];
    for (int64_t axis = row - 1; axis >= 0; --axis) {
      if (view.strides[axis] == 0) copied.shape[axis] = from.shape[axis] = 1;
      copied.strides[axis] = step;
      step *= copied.shape[axis];
    }
    memory_.emplace(static_cast<int64_t>(bytes_of(step, type)));
    copied.data = memory_->data();
    copy(from, copied);
    for (int64_t axis = 0; axis < row; ++axis) {
      if (view.strides[axis] == 0) copied.strides[axis] = 0;
    }
    copied.shape = view.shape;
    view_ = copied;
  }
  const ConstView& view() const { return view_; }

 private:
  std::optional<Scratch<std::byte>> memory_;
  ConstView view_;
};

/// A leading axis of the three matrices.
struct Axis {
  int64_t size = 1, a = 0, b = 0, c = 0;
};

/// The leading axes, without those of size 1; neighbours that one stride describes are merged.
std::vector<Axis> leading_axes(const ConstView& a, const ConstView& b, const View& c) {
  std::vector<Axis> axes;
  for (int64_t i = 0; i + 2 < c.rank(); ++i) {
    const Axis axis{c.shape[i], a.strides[i], b.strides[i], c.strides[i]};
    if (axis.size == 1) continue;
    if (!axes.empty()) {
      Axis& last = axes.back();
      if (last.a == axis.a * axis.size && last.b == axis.b * axis.size && last.c == axis.c * axis.size) {
        last = {last.size * axis.size, axis.a, axis.b, axis.c};
        continue;
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

/// If all matrices of the batch share one b, and the rows of a and c are evenly spaced over the batch, makes one
/// product of them.
void join_rows(Product& product, std::vector<Axis>& axes) {
  if (axes.size() != 1 || axes[0].b != 0 || product.a.turned) return;
  const Axis& axis = axes[0];
  if (product.m == 1 && axis.a >= product.k && axis.c >= product.n) {
    product.a.stride = axis.a;
    product.c_stride = axis.c;
  } else if (axis.a != product.m * product.a.stride || axis.c != product.m * product.c_stride) {
    return;
  }
  product.m *= axis.size;
  axes.clear();
}

/// A bias [n] in the type of c, with stride 1.
class DenseBias {
 public:
  DenseBias(const ConstView& bias, DType type) : view_(bias) {
    if (!bias || (bias.dtype == type && (bias.strides[0] == 1 || bias.shape[0] == 1))) return;
    memory_.emplace(static_cast<int64_t>(bytes_of(bias.shape[0], type)));
    const View copied{.data = memory_->data(), .dtype = type, .shape = bias.shape, .strides = {1}};
    copy(bias, copied);
    view_ = copied;
  }
  const ConstView& view() const { return view_; }

 private:
  std::optional<Scratch<std::byte>> memory_;
  ConstView view_;
};

/// Adds a bias [n] to all rows of c.
void add_bias(const ConstView& bias, const View& c) {
  ConstView repeated{.data = bias.data, .dtype = bias.dtype, .shape = c.shape, .strides = c.shape};
  for (int64_t axis = 0; axis < c.rank(); ++axis) repeated.strides[axis] = 0;
  repeated.strides[c.rank() - 1] = bias.strides[0];
  accumulate(repeated, c);
}

/// Runs the product on all matrices: the largest axis is the batch of one call, the others are looped over. Returns
/// no_algorithm, before anything was computed, if cuBLASLt does not support the product.
Outcome run_all(Product product, std::vector<Axis> axes) {
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& x, const Axis& y) { return x.size > y.size; });
  const Axis batch = axes.empty() ? Axis{} : axes[0];
  if (!axes.empty()) axes.erase(axes.begin());
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  product.a.batch_stride = batch.a;
  product.b.batch_stride = batch.b;
  product.c_batch_stride = batch.c;
  const auto run_at = [&](int64_t a, int64_t b, int64_t c, int64_t matrices) {
    Product part = product;
    part.batch = matrices;
    part.a.data = moved(product.a.data, a, product.type);
    part.b.data = moved(product.b.data, b, product.type);
    part.c = moved(product.c, c, product.c_type);
    return run_product(part);
  };
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, a = 0, b = 0, c = 0;
    for (const Axis& axis : axes) {
      const int64_t place = rest % axis.size;
      rest /= axis.size;
      a += place * axis.a;
      b += place * axis.b;
      c += place * axis.c;
    }
    for (int64_t first = 0; first < batch.size; first += kMostMatrices) {
      const Outcome outcome = run_at(a + first * batch.a, b + first * batch.b, c + first * batch.c,
                                     std::min(kMostMatrices, batch.size - first));
      if (outcome == Outcome::done) continue;
      require<DeviceError>(index == 0 && first == 0, "matmul.multiply: cuBLASLt supports only a part of the batch");
      return outcome;
    }
  }
  return Outcome::done;
}

/// A matrix or a batch of them as cuBLASLt takes it: the view itself, or a dense copy.
class DenseOperand {
 public:
  explicit DenseOperand(const ConstView& view) : view_(view) {
    if (operand_of(view)) return;
    copy_.emplace(view, view.dtype);
    view_ = copy_->view();
  }
  const ConstView& view() const { return view_; }
  Operand operand() const { return *operand_of(view_); }

 private:
  std::optional<DenseCopy> copy_;
  ConstView view_;
};

/// The sums of the rows of a matrix.
void sum_rows_of(const ConstView& a, const View& sums) {
  sum(a, {.data = sums.data, .dtype = sums.dtype, .shape = {a.shape[0], 1}, .strides = {sums.strides[0], 1}});
}

/// Tries to let the product take the residual or the sums of rows as well. What it does not take is left in `rest`.
bool run_with_more(Product product, const MatmulOptions& options, const DType a_type, MatmulOptions& rest) {
  const ConstView& residual = options.residual;
  if (residual && residual.dtype == product.c_type && residual.strides[1] == 1 && !product.accumulate) {
    product.residual = residual.data;
    product.residual_stride = product.m == 1 ? product.n : residual.strides[0];
    rest.residual = {};
  }
  const View& sums = options.row_sums;
  const bool is_free = product.bias == nullptr && a_type != DType::f64;
  if (sums && is_free && sums.dtype == product.c_type && sums.strides[0] == 1) {
    product.epilogue = Epilogue::row_sums;
    product.aux = sums.data;
    rest.row_sums = {};
  }
  const bool has_more = product.residual != nullptr || product.epilogue != Epilogue::none;
  if (has_more && run_product(product) == Outcome::done) return true;
  rest = options;
  return false;
}

/// The product of operands of one type.
void multiply_operands(const ConstView& a, const ConstView& b, const View& c, const MatmulOptions& options) {
  const DenseBias bias(options.bias, c.dtype);
  const int64_t row = c.rank() - 2, column = c.rank() - 1;
  const DenseOperand left(a), right(b);
  Product product{.type = a.dtype,
                  .c_type = c.dtype,
                  .m = c.shape[row],
                  .n = c.shape[column],
                  .k = a.shape[column],
                  .a = left.operand(),
                  .b = right.operand(),
                  .c = c.data,
                  .c_stride = c.shape[row] == 1 ? c.shape[column] : c.strides[row],
                  .accumulate = options.accumulate,
                  .tf32 = options.tf32 && a.dtype == DType::f32};
  std::vector<Axis> axes = leading_axes(left.view(), right.view(), c);
  join_rows(product, axes);
  const bool has_bias = bias.view() && c.dtype != DType::f64;
  product.bias = has_bias ? bias.view().data : nullptr;
  MatmulOptions rest = options;
  if (c.rank() == 2 && run_with_more(product, options, a.dtype, rest)) {
    if (bias.view() && !has_bias) add_bias(bias.view(), c);
  } else if (!has_bias || run_all(product, axes) != Outcome::done) {
    product.bias = nullptr;
    require<DeviceError>(run_all(product, axes) == Outcome::done, "matmul.multiply: cuBLASLt has no algorithm for ",
                         a.dtype, " ", a.shape, " · ", b.shape);
    if (bias.view()) add_bias(bias.view(), c);
  }
  if (rest.residual) accumulate(rest.residual, c);
  if (rest.row_sums) sum_rows_of(a, rest.row_sums);
}

/// A product of matrices of 16 bits with an epilogue; aux is dense like c. Returns false if cuBLASLt has none.
bool run_with_epilogue(Epilogue epilogue, const ConstView& a, const ConstView& b, const ConstView& bias,
                       const ConstView& aux, const View& c) {
  if (size_of(a.dtype) != 2 || c.shape[1] % 8 != 0 || c.shape[0] == 0 || a.shape[1] == 0) return false;
  const DenseBias dense_bias(bias, c.dtype);
  const DenseOperand left(a), right(b);
  return run_product({.type = a.dtype,
                      .c_type = c.dtype,
                      .m = c.shape[0],
                      .n = c.shape[1],
                      .k = a.shape[1],
                      .a = left.operand(),
                      .b = right.operand(),
                      .c = c.data,
                      .c_stride = c.shape[1],
                      .bias = dense_bias.view().data,
                      .epilogue = epilogue,
                      .aux = aux.data}) == Outcome::done;
}

template <class Pointer>
BasicRows<Pointer> dense_rows(const BasicView<Pointer>& x) {
  return {x.data, x.dtype, x.shape[0], x.shape[1], x.shape[1]};
}

}  // namespace

bool has_bf16() { return architecture() >= 80; }

void multiply(ConstView a, ConstView b, View c, const MatmulOptions& options) {
  if (c.shape.numel() == 0) return;
  const int64_t k = a.shape[a.rank() - 1];
  if (k == 0) {
    if (!options.accumulate) fill(c, 0);
    if (options.bias) add_bias(DenseBias(options.bias, c.dtype).view(), c);
    if (options.residual) accumulate(options.residual, c);
    if (options.row_sums) sum_rows_of(a, options.row_sums);
    return;
  }
  if (options.bf16 && a.dtype == DType::f32 && c.shape.numel() * k > kRoundedWork) {
    const DenseCopy rounded_a(a, DType::bf16), rounded_b(b, DType::bf16);
    return multiply_operands(rounded_a.view(), rounded_b.view(), c, options);
  }
  multiply_operands(a, b, c, options);
}

// cuBLASLt's GELU is the tanh form.
void multiply_gelu(ConstView a, ConstView b, ConstView bias, View u, View c) {
  if (run_with_epilogue(Epilogue::gelu, a, b, bias, u, c)) return;
  multiply(a, b, u, {.bias = bias});
  unary(UnaryKind::gelu_tanh, dense_rows(u), dense_rows(c));
}

void multiply_gelu_backward(ConstView a, ConstView b, ConstView u, View c) {
  if (run_with_epilogue(Epilogue::gelu_backward, a, b, {}, u, c)) return;
  multiply(a, b, c, {});
  unary_backward(UnaryKind::gelu_tanh, dense_rows(c), dense_rows(u), dense_rows(c));
}

}  // namespace attend::cuda
