#include "attend/data/dates.h"

#include <chrono>

#include "data/date_shapes.h"
#include "data/shuffle.h"

namespace attend {
namespace {

using std::chrono::sys_days;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr sys_days kFirst = std::chrono::year{1950} / 1 / 1, kEnd = std::chrono::year{2050} / 1 / 1;

std::string iso(const Date& date) {
  return std::to_string(date.year) + (date.month < 10 ? "-0" : "-") + std::to_string(date.month) +
         (date.day < 10 ? "-0" : "-") + std::to_string(date.day);
}

Date calendar_date(sys_days day) {
  const std::chrono::year_month_day date(day);
  return {.year = static_cast<int>(date.year()),
          .month = static_cast<int>(static_cast<unsigned>(date.month())),
          .day = static_cast<int>(static_cast<unsigned>(date.day())),
          .weekday = static_cast<int>(std::chrono::weekday(day).iso_encoding()) - 1};
}

}  // namespace

bool is_held_out(int64_t day) {
  return RandomSource{.seed = 0, .purpose = DataStream::dates}.below(10, static_cast<uint64_t>(day)) == 0;
}

DatePair date_pair(uint64_t seed, uint64_t index, DatePart part) {
  constexpr auto kDays = static_cast<uint64_t>((kEnd - kFirst).count());
  // Draws days until one belongs to the requested part. Rounds start at 1: is_held_out() uses round 0.
  RandomSource random{.seed = seed, .purpose = DataStream::dates, .round = 1};
  sys_days day;
  do {
    day = kFirst + std::chrono::days(random.below(kDays, index));
    ++random.round;
  } while (is_held_out(day.time_since_epoch().count()) != (part == DatePart::held_out));
  const Date date = calendar_date(day);
  const RandomSource shapes{.seed = seed, .purpose = DataStream::date_shapes, .round = 0};
  return {.text = write_date(date, shapes.bits(index)), .iso = iso(date)};
}

}  // namespace attend
