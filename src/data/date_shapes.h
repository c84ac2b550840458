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

/// The date as someone might write it; `choice` chooses the language, the shape and its details.
std::string write_date(const Date& date, uint64_t choice);

}  // namespace attend
