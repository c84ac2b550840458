#pragma once

#include "backend/kernels.h"

// The CPU's kernels: what each does is said in backend/kernels.h.
namespace attend::cpu {

const Kernels& table();

void copy(ConstView x, View y);
void fill(View y, double value);
void affine(ConstView x, double scale, double shift, View y);
void accumulate(ConstView x, View y);
void binary(BinaryKind kind, ConstView a, ConstView b, View y);

void sum(ConstView x, View y);
double sum_of_squares(ConstRows x);

void multiply(ConstView a, ConstView b, View c, const MatmulOptions& options);

void softmax(ConstRows x, Rows y);

void check_index(ConstRows index, int64_t limit, const char* op);
void take_rows(ConstRows table, ConstRows index, Rows y);
void take_rows_backward(ConstRows dy, ConstRows index, Rows dtable);
void gather_last(ConstRows x, ConstRows index, Rows y);
void gather_last_backward(ConstRows dy, ConstRows index, Rows dx);

}  // namespace attend::cpu
