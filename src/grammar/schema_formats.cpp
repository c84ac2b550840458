#include <map>

#include "attend/base/error.h"
#include "grammar/schema_compiler.h"
#include "io/printable.h"

namespace attend::grammar {
namespace {

/// Every text that a pattern matches is valid in its format. Some valid texts are left out: leap seconds, years with
/// more than four digits, quoted e-mail names and shortened IPv6 addresses.
const std::map<std::string, std::string>& patterns() {
  static const std::map<std::string, std::string> table = [] {
    const std::string leap_year = R"((\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00))";
    const std::string date = R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-)"
                             R"((0[1-9]|1\d|2[0-8]))|)" +
                             leap_year + "-02-29)";
    const std::string time = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
    const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    const std::string atom = "[A-Za-z0-9_+-]+";
    const std::string byte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
    const std::string times = R"(T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))";
    const std::string days = R"((\d{1,4}D|\d{1,4}M(\d{1,4}D)?|\d{1,4}Y(\d{1,4}M(\d{1,4}D)?)?))";
    const auto whole = [](const std::string& pattern) { return "^(" + pattern + ")$"; };
    return std::map<std::string, std::string>{
        {"date", whole(date)},
        {"time", whole(time)},
        {"date-time", whole(date + "T" + time)},
        {"duration", whole("P(" + days + "(" + times + ")?|" + times + R"(|\d{1,4}W))")},
        {"email", whole(atom + R"((\.)" + atom + ")*@" + label + R"((\.)" + label + ")+")},
        {"hostname", whole(label + R"((\.)" + label + "){0,2}")},
        {"ipv4", whole("(" + byte + R"(\.){3})" + byte)},
        {"ipv6", whole("([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}")},
        {"uuid", whole("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")},
    };
  }();
  return table;
}

}  // namespace

Dfa format_texts(const std::string& format) {
  const auto found = patterns().find(format);
  require<FormatError>(found != patterns().end(), "the format ", in_quotes(format), " is not supported");
  return compile_pattern(found->second);
}

}  // namespace attend::grammar
