// Chat templates of untrusted models: any template with any conversation is rendered or refused, within its limits.
// Input: the template, a zero byte, and a JSON object of variables, of which `messages` and `tools` are the
// conversation.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "attend/chat/chat_template.h"
#include "attend/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attend;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const Json variables = end < size ? Json::parse_or_null(bytes.substr(end + 1)) : Json();
  ChatInput input{.messages = Json::parse(R"([{"role": "user", "content": " Hi <é> "}, {"role": "assistant"}])"),
                  .tools = {},
                  .add_generation_prompt = true,
                  .extra = variables.is_object() ? variables : Json::object(),
                  .now = std::tm{}};
  const ChatTemplateLimits limits{
      .steps = 200'000, .bytes = 16 << 20, .value_bytes = 1 << 20, .output_bytes = 1 << 20, .depth = 300};
  try {
    const ChatTemplate chat(std::string(bytes.substr(0, end)), {.special_tokens = Json::object(), .limits = limits});
    if (!is_utf8(chat.render(input))) std::abort();
  } catch (const FormatError&) {  // refused
  }
  return 0;
}
