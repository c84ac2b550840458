#include "backend/cpu/matmul/panels.h"

#include <optional>

#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul/bf16_panels.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul/panels.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/matmul/matmul_cuts-inl.h"
#include "backend/cpu/matmul/matmul_tile-inl.h"
// clang-format on

// The lower bound is the FMA rate, or for few rows the time to read the weights. Every sum has the order of
// BlockedProduct with `invariant`, hence the same bits. While the rows of x stream past a panel in L2, the next panel
// is prefetched.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kPanelWidth = kTileVectors * HWY_LANES(float);

int64_t PanelWidth() { return kPanelWidth; }
/// MultiplyFew reads the weights in place at this many rows or fewer.
int64_t MostRowsInPlace() { return kTileRows; }

/// Writes panel [in][kPanelWidth] of `lines` rows of weights. The rest of the panel is 0.
void PackPanel(const ConstRows& weights, int64_t first, void* to) {
  const int64_t lines = std::min(kPanelWidth, weights.rows - first), depth = weights.cols;
  if (weights.dtype == DType::f32) {
    auto* panel = static_cast<float*>(to);
    if (lines < kPanelWidth) std::fill_n(panel, depth * kPanelWidth, 0.0f);
    TransposeScaled(static_cast<const float*>(weights.data) + first * weights.stride, weights.stride, lines, depth,
                    1.0f, panel, kPanelWidth);
    return;
  }
  const auto* from = static_cast<const BFloat16*>(weights.data) + first * weights.stride;
  auto* panel = static_cast<BFloat16*>(to);
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < lines; ++j) panel[p * kPanelWidth + j] = from[j * weights.stride + p];
    std::fill_n(panel + p * kPanelWidth + lines, kPanelWidth - lines, BFloat16{});
  }
}

/// One panel of a product.
struct Panel {
  const WeightProduct& product;
  int64_t first;     // its first output
  const char* data;  // null: no panel
};

class PanelProduct {
 public:
  explicit PanelProduct(ConstRows x)
      : x_(x), parts_(x.cols, kMostDepth, 8), bands_((x.rows + kTileRows - 1) / kTileRows) {
    height_ = (x.rows + bands_ - 1) / std::max<int64_t>(1, bands_);  // of equal size: a tile of one row is slow
  }

  /// Multiplies all rows of x with a panel and prefetches the one behind it.
  void Multiply(const Panel& panel, int64_t panel_bytes, float* widened) const {
    const ConstRows& weights = panel.product.weight.values;
    const int64_t steps = std::max<int64_t>(1, bands_ * x_.cols);
    EvenPrefetch ahead{panel.data + panel_bytes, (16 * panel_bytes + steps - 1) / steps};
    for (int64_t part = 0; part < std::max<int64_t>(1, parts_.count); ++part) {
      const int64_t begin = parts_.begin(part), depth = parts_.end(part) - begin;
      const float* b = nullptr;
      if (weights.dtype == DType::bf16) {
        WidenRow(reinterpret_cast<const BFloat16*>(panel.data) + begin * kPanelWidth, depth * kPanelWidth, widened);
        b = widened;
      } else {
        b = reinterpret_cast<const float*>(panel.data) + begin * kPanelWidth;
      }
      ahead = MultiplyPart(panel, {begin, begin + depth}, b, ahead);
    }
  }

  int64_t WidenedElements() const { return std::max<int64_t>(1, parts_.size) * kPanelWidth; }

 private:
  /// Returns what is to be prefetched next.
  EvenPrefetch MultiplyPart(const Panel& panel, Depth part, const float* b, EvenPrefetch ahead) const {
    const WeightProduct& product = panel.product;
    const auto* bias = static_cast<const float*>(product.bias.data);
    TileOperands<float> operands{.a_row = x_.stride, .a_step = 1, .b = b, .b_step = kPanelWidth};
    TileOutput<float> output{.c_row = product.y.stride,
                             .columns = std::min(kPanelWidth, product.y.cols - panel.first),
                             .add = part.begin > 0,
                             .bias = bias != nullptr && part.end == x_.cols ? bias + panel.first : nullptr};
    for (int64_t row = 0; row < x_.rows; row += height_) {
      operands.a = static_cast<const float*>(x_.data) + row * x_.stride + part.begin;
      output.c = static_cast<float*>(product.y.data) + row * product.y.stride + panel.first;
      ProductRows<kTileVectors, kTileRows>(std::min(height_, x_.rows - row), part.count(), operands, output, ahead);
      ahead = ahead.after(part.count());
    }
    return ahead;
  }

  const ConstRows x_;
  const Blocks parts_;
  const int64_t bands_;
  int64_t height_ = 1;
};

void MultiplyPanels(ConstRows x, std::span<const WeightProduct> products) {
  const PanelProduct multiply(x);
  for_packed_rows(products, kPanelWidth, [&](const WeightProduct& product, int64_t first, int64_t last) {
    const ConstRows& weights = product.weight.values;
    const int64_t bytes = kPanelWidth * weights.cols * static_cast<int64_t>(size_of(weights.dtype));
    std::optional<Scratch<float>> widened;
    if (weights.dtype == DType::bf16) widened.emplace(multiply.WidenedElements());
    for (int64_t j = first; j < last; j += kPanelWidth) {
      const Panel panel{product, j, static_cast<const char*>(product.weight.panels) + j / kPanelWidth * bytes};
      multiply.Multiply(panel, bytes, widened ? widened->data() : nullptr);
    }
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
namespace {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(MostRowsInPlace);
HWY_EXPORT(PackPanel);
HWY_EXPORT(MultiplyPanels);

constexpr int64_t kManyRows = 256;  // from this many rows on, packing in the product costs little

}  // namespace

bool uses_panels(int64_t rows) { return rows > HWY_DYNAMIC_DISPATCH(MostRowsInPlace)() && rows < kManyRows; }

size_t pack_weights(const WeightMatrix& weight, bool bf16, void* to) {
  const ConstRows& values = weight.values;
  if (values.dtype == DType::i8) return pack_int8(weight, to);
  if (bf16 && has_bf16_panels(values)) return pack_bf16_panels(values, to);
  const int64_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)(), panels = (values.rows + width - 1) / width;
  const auto bytes = static_cast<size_t>(width * values.cols) * size_of(values.dtype);
  if (to != nullptr) {
    parallel_for(panels, [&](int64_t panel) {
      HWY_DYNAMIC_DISPATCH(PackPanel)
      (values, panel * width, static_cast<char*>(to) + static_cast<size_t>(panel) * bytes);
    });
  }
  return static_cast<size_t>(panels) * bytes;
}

void multiply_panels(ConstRows x, std::span<const WeightProduct> products) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanels)(x, products);
}

}  // namespace attend::cpu
#endif
