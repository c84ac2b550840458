#include "attend/base/error.h"

#include <sstream>

namespace attend {

void MessagePart::write_text(std::ostream& out, const void* text) { out << static_cast<const char*>(text); }

std::string message_of(std::initializer_list<MessagePart> parts) {
  std::ostringstream message;
  for (const MessagePart& part : parts) part.write(message);
  return message.str();
}

}  // namespace attend
