#include "hub/architecture.h"

namespace attend::hub {

const std::vector<HubArchitecture>& hub_architectures() {
  static const std::vector<HubArchitecture> all{gpt2(),
                                                llama(),
                                                mistral(),
                                                qwen2(),
                                                qwen3(),
                                                bert(),
                                                distilbert(),
                                                roberta("roberta"),
                                                roberta("xlm-roberta"),
                                                roberta("camembert"),
                                                marian(),
                                                bart(),
                                                pegasus(),
                                                mbart(),
                                                t5(),
                                                mt5(),
                                                vit()};
  return all;
}

void HubFolder::require_values(double count, const char* what) const {
  if (count <= weights.values()) return;
  std::ostringstream text;
  text.precision(12);
  text << "describes " << what << " of " << count << " values, but " << weights.name() << " holds " << weights.values();
  config.refuse(text.str());
}

}  // namespace attend::hub
