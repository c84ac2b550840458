#pragma once

#include <functional>
#include <map>
#include <string>

#include "case.h"

namespace attend::golden {

using Checker = std::function<void(Case&)>;
using Registry = std::map<std::string, Checker>;

// Each file of checkers registers its ops.
void add_elementary(Registry& registry);   // activation, linear, embedding, norms, loss, positions
void add_attention(Registry& registry);    // attention, multihead_attention, self_attention_block, bahdanau_attention
void add_transformer(Registry& registry);  // encoder and decoder layers, stacks, the whole
void add_recurrent(Registry& registry);    // rnn, gru, lstm
void add_optim(Registry& registry);        // optimizer, schedule, clip_grad_norm

}  // namespace attend::golden
