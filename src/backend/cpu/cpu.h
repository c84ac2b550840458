#pragma once

#include "backend/kernels.h"

// The CPU kernels. Their contracts are in backend/kernels.h.
namespace attend::cpu {

const Kernels& table();  ///< throws DeviceError if ATTEND_CPU is invalid, see instruction_set()

void copy(ConstView x, View y);
void fill(View y, double value);
void affine(ConstView x, double scale, double shift, View y);
void accumulate(ConstView x, View y);
void binary(BinaryKind kind, ConstView a, ConstView b, View y);
void zero_padding(ConstView x, ConstRows lengths, View y);

void sum(ConstView x, View y);
void sum_of_squares(std::span<const ConstRows> parts, Rows total);

void multiply(ConstView a, ConstView b, View c, const MatmulOptions& options);
void multiply_gelu(ConstView a, ConstView b, ConstView bias, View u, View c);
void multiply_gelu_backward(ConstView a, ConstView b, ConstView u, View c);
bool has_bf16();

void multiply_weights(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options);
void multiply_chain(ConstRows x, std::span<const WeightProduct> stages, const WeightProductOptions& options);
void quantize_weights(ConstRows x, Rows values, float* scales, int32_t* sums);
size_t pack_weights(const WeightMatrix& weight, bool bf16, void* to);
void take_weight_rows(const WeightMatrix& table, ConstRows index, Rows y);

void unary(UnaryKind kind, ConstRows x, Rows y);
void unary_backward(UnaryKind kind, ConstRows dy, ConstRows x, Rows dx);

void softmax(ConstRows x, Rows y);
void softmax_backward(ConstRows dy, ConstRows y, Rows dx);
void log_softmax(ConstRows x, Rows y);
void log_softmax_backward(ConstRows dy, ConstRows y, Rows dx);
void log_softmax_terms(ConstRows x, Rows terms);

void layer_norm(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd);
void layer_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added,
                         Rows dx, Rows dweight, Rows dbias);
void rms_norm(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd);
void rms_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, ConstRows added, Rows dx,
                       Rows dweight);

void count_targets(ConstRows target, int64_t ignore_index, Rows count);
void cross_entropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows losses, Rows lse);
void mean_loss(ConstRows losses, ConstRows count, Rows loss);
void cross_entropy_backward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, ConstRows count,
                            const CrossEntropyOptions& options, Rows dx);
void cross_entropy_with_gradient(ConstRows x, ConstRows target, ConstRows count, const CrossEntropyOptions& options,
                                 Rows losses, Rows dx);

void uniform(RandomStream stream, double low, double high, Rows y);
void normal(RandomStream stream, double mean, double deviation, Rows y);
void dropout(RandomStream stream, double p, ConstRows x, Rows y);

void rotary(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y);

void adam(std::span<const AdamSlot> slots, const AdamOptions& options, const GradientClip& clip);
void sgd(std::span<const SgdSlot> slots, const SgdOptions& options, const GradientClip& clip);

void attention_forward(const AttentionProblem& problem, View y, View lse);
void attention_backward(const AttentionProblem& problem, const AttentionGradients& gradients);
void attention_weights(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
                       View places);

void check_index(ConstRows index, int64_t limit, const char* op);
void take_rows(ConstRows table, ConstRows index, Rows y);
void take_rows_backward(ConstRows dy, ConstRows index, Rows dtable);
void gather_last(ConstRows x, ConstRows index, Rows y);
void gather_last_backward(ConstRows dy, ConstRows index, Rows dx);

void put_rows(ConstRows x, ConstRows places, Rows y);
void copy_runs(ConstRows x, ConstRows copies, int64_t longest, Rows y);
void embed_tokens(const WeightMatrix& tokens, ConstRows ids, const WeightMatrix& positions, ConstRows places, Rows y);
void best(ConstRows x, int64_t words, Rows y);

}  // namespace attend::cpu
