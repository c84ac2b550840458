#pragma once

#include <cstdint>
#include <string>

namespace attend {

/// A date as people write it in English, German or Chinese, and as ISO 8601 does: "Samstag, 3. Mai 2025" →
/// "2025-05-03".
struct DatePair {
  std::string text;
  std::string iso;
};

/// Which calendar dates to draw from. A tenth of them is held out whatever the seed, so what is trained on never shows
/// a model a day it is tested with, in any language or shape.
enum class DatePart { training, held_out };

/// The pair of this number: a function of its arguments alone. Days from 1950-01-01 to 2049-12-31, each as likely as
/// the other; a weekday, where one is written, is right. Years may have two digits: 50 … 99 are of the 1900s, 00 … 49
/// of the 2000s. Numbers alone come in the order day.month.year with dots (German), or year first; never as 05/03/2025.
DatePair date_pair(uint64_t seed, uint64_t index, DatePart part = DatePart::training);

/// Whether the day (1970-01-01 is 0) is held out.
bool is_held_out(int64_t day);

}  // namespace attend
