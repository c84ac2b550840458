#include "backend/cuda/cuda.h"
#include "backend/cuda/devices.h"

namespace attend::cuda {
namespace {

/// Products read the weights in place.
size_t nothing_to_pack(const WeightMatrix&, bool, void*) { return 0; }

/// All kernels of the CUDA back end. The compiler checks their signatures.
constexpr Kernels kTable{
    .memory = {.allocate = allocate,
               .release = release,
               .upload = upload,
               .download = download,
               .synchronize = synchronize,
               .live_bytes = live_bytes,
               .peak_bytes = peak_bytes,
               .reset_peak = reset_peak},
    .elementwise = {.copy = copy,
                    .fill = fill,
                    .affine = affine,
                    .accumulate = accumulate,
                    .binary = binary,
                    .zero_padding = zero_padding,
                    .unary = unary,
                    .unary_backward = unary_backward},
    .reduce = {.sum = sum, .sum_of_squares = sum_of_squares},
    .matmul = {.multiply = multiply,
               .multiply_gelu = multiply_gelu,
               .multiply_gelu_backward = multiply_gelu_backward,
               .has_bf16 = has_bf16},
    .weights = {.multiply = multiply_weights,
                .chain = multiply_chain,
                .quantize = quantize_weights,
                .pack = nothing_to_pack,
                .take_rows = take_weight_rows},
    .softmax = {.forward = softmax,
                .backward = softmax_backward,
                .log_forward = log_softmax,
                .log_backward = log_softmax_backward,
                .log_terms = log_softmax_terms},
    .norm = {.layer_forward = layer_norm,
             .layer_backward = layer_norm_backward,
             .rms_forward = rms_norm,
             .rms_backward = rms_norm_backward},
    .cross_entropy = {.count = count_targets,
                      .forward = cross_entropy,
                      .mean = mean_loss,
                      .backward = cross_entropy_backward,
                      .with_gradient = cross_entropy_with_gradient},
    .index = {.check = check_index,
              .take_rows = take_rows,
              .take_rows_backward = take_rows_backward,
              .gather_last = gather_last,
              .gather_last_backward = gather_last_backward},
    .random = {.uniform = uniform, .normal = normal, .dropout = dropout},
    .position = {.rotary = rotary},
    .attention = {.forward = attention_forward, .backward = attention_backward, .weights = attention_weights},
    .optim = {.adam = adam, .sgd = sgd},
    .generation = {.put_rows = put_rows, .copy_runs = copy_runs, .embed = embed_tokens, .best = best},
};

}  // namespace

const Kernels& table() { return kTable; }

}  // namespace attend::cuda
