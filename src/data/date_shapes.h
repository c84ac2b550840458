#pragma once

#include <cstdint>
#include <string>

namespace attend {

struct Date {
  int year = 1970;
  int month = 1;    ///< from 1
  int day = 1;      ///< from 1
  int weekday = 0;  ///< Monday is 0
};

/// The date as a person might write it. `choice` selects the language, the format and its details.
std::string write_date(const Date& date, uint64_t choice);

}  // namespace attend
