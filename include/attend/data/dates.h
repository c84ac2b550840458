#pragma once

#include <cstdint>
#include <string>

namespace attend {

/// A date written in English, German or Chinese, and in ISO 8601: "Samstag, 3. Mai 2025" → "2025-05-03".
struct DatePair {
  std::string text;
  std::string iso;
};

/// The set of days to draw from. A tenth of all days is held out, independent of the seed. The training data never
/// contains a held-out day, in any language or format.
enum class DatePart { training, held_out };

/// The pair with this index, a pure function of the arguments. Days are uniform from 1950-01-01 to 2049-12-31. A
/// written weekday is correct. Years may have two digits: 50 … 99 mean 1950 … 1999, and 00 … 49 mean 2000 … 2049.
/// Numeric dates are day.month.year with dots (German) or start with the year; ambiguous forms such as 05/03/2025 do
/// not occur.
DatePair date_pair(uint64_t seed, uint64_t index, DatePart part = DatePart::training);

/// Whether a day is held out. Days are counted from 1970-01-01, which is 0.
bool is_held_out(int64_t day);

}  // namespace attend
