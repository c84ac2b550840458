#include "ops/trusted_indices.h"

#include <utility>

namespace attend {
namespace {

thread_local bool trusts = false;

}  // namespace

TrustedIndices::TrustedIndices() : before_(std::exchange(trusts, true)) {}
TrustedIndices::~TrustedIndices() { trusts = before_; }

bool is_trusted(const Tensor& index) { return trusts && index.device() != kCpu; }

}  // namespace attend
