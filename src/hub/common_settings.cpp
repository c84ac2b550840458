#include "hub/common_settings.h"

#include "io/printable.h"

namespace attend::hub {

void read_common_settings(const HubConfig& config) {
  config.expect("quantization_config", nullptr);
  config.expect("pruned_heads", Json::object());
  config.expect("add_cross_attention", false);
  config.expect("tie_encoder_decoder", false);
  // Where the file comes from, and which program wrote it.
  config.ignore({"transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "finetuning_task",
                 "unsloth_version", "unsloth_fixed", "transformers.js_config"});
  // What the weights and the tokenizer's files say themselves.
  config.ignore({"torch_dtype", "dtype", "use_bfloat16", "tokenizer_class", "bos_token_id", "pad_token_id",
                 "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id"});
  // How the reference implementation computes and returns the same values.
  config.ignore({"use_cache", "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
                 "_attn_implementation_internal", "_flash_attn_2_enabled", "chunk_size_feed_forward", "torchscript",
                 "xla_device", "return_dict", "output_attentions", "output_hidden_states", "output_past"});
  // Training alone: initial values, memory, the loss.
  config.ignore({"initializer_range", "initializer_factor", "init_std", "gradient_checkpointing", "tf_legacy_loss"});
  // Names of classes: a model with a classifier reads them, another one has none.
  config.ignore({"id2label", "label2id", "num_labels", "_num_labels"});
}

void require_all_read(const HubConfig& config) {
  const std::vector<HubConfig::Unread> unread = config.unread();
  if (unread.empty()) return;
  const bool is_one = unread.size() == 1;
  const std::string type = config.model_type();
  config.refuse(unread_text(unread) + (is_one ? " is an unknown setting" : " are unknown settings") +
                (type.empty() ? "" : " of model_type " + in_quotes(type)) + ": results without " +
                (is_one ? "it may be wrong; delete it from the file if it does not change the computation"
                        : "them may be wrong; delete those from the file that do not change the computation"));
}

std::string unread_note(const HubConfig& config) {
  const std::vector<HubConfig::Unread> unread = config.unread();
  return unread.empty() ? "" : "other commands reject this model for its unknown settings " + unread_text(unread);
}

}  // namespace attend::hub
