#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "inspect/tools.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr double kFont = 12, kRow = 20, kNarrow = 26, kWide = 78, kGap = 36;

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const std::string& text = value.string();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string number(double value, const char* format = "%.1f") {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// White to blue for 0 … 1; blue for −1, white for 0 and orange for 1 if signed.
struct Shade {
  int red, green, blue;
  bool is_dark() const { return 299 * red + 587 * green + 114 * blue < 140000; }
  std::string text() const {
    std::array<char, 8> out{};
    std::snprintf(out.data(), out.size(), "#%02x%02x%02x", red, green, blue);
    return out.data();
  }
};
Shade between(const Shade& a, const Shade& b, double share) {
  const auto mix = [&](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}
Shade shade_of(double value, bool is_signed, double most) {
  if (!std::isfinite(value)) return {238, 238, 238};
  const double share = std::clamp(most > 0 ? value / most : 0, -1.0, 1.0);
  const Shade white{255, 255, 255};
  if (is_signed && share > 0) return between(white, {190, 82, 20}, share);
  return between(white, {18, 80, 150}, std::sqrt(std::abs(share)));
}

double largest(const LabelledMap& map) {
  double most = map.is_signed ? 0 : 1;
  for (const auto& row : map.values) {
    for (const double value : row) {
      if (std::isfinite(value)) most = std::max(most, std::abs(value));
    }
  }
  return most;
}

/// Roughly the width of a text in pixels.
double width_of(const std::string& text) { return text_width(text) * kFont; }
double widest(const std::vector<std::string>& texts) {
  double most = 0;
  for (const std::string& text : texts) most = std::max(most, width_of(text));
  return most;
}

struct Box {
  double width = 0, height = 0;
};

/// Appends a map with its top left corner at (0, top), and returns its size.
Box append_map(std::string& out, const LabelledMap& map, double top) {
  const double left = widest(map.rows) + 12, head = std::min(140.0, widest(map.columns)) + 34;
  const double cell = map.texts.empty() ? kNarrow : kWide, most = largest(map);
  const auto text = [&](double x, double y, const std::string& words, const std::string& more) {
    out += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + more + ">" + xml_text(words) + "</text>\n";
  };
  text(0, top + 14, map.title, " font-weight=\"600\"");
  for (size_t c = 0; c < map.columns.size(); ++c) {
    const double x = left + (static_cast<double>(c) + 0.5) * cell + 4, y = top + head - 6;
    text(0, 0, map.columns[c], " transform=\"translate(" + number(x) + " " + number(y) + ") rotate(-90)\"");
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + head + static_cast<double>(r) * kRow;
    text(left - 6, y + 14, map.rows[r], " text-anchor=\"end\"");
    for (size_t c = 0; r < map.values.size() && c < map.values[r].size(); ++c) {
      const double x = left + static_cast<double>(c) * cell, value = map.values[r][c];
      const Shade shade = shade_of(value, map.is_signed, most);
      out += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(cell) + "\" height=\"" +
             number(kRow) + "\" fill=\"" + shade.text() + "\"><title>" +
             xml_text(map.rows[r] + ", " + map.columns[c] + ": " + number(value, "%.4g")) + "</title></rect>\n";
      if (map.texts.empty()) continue;
      std::string shown = map.texts[r][c];
      while (width_of(shown) > cell - 6 && !shown.empty()) {
        do shown.pop_back();
        while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xC0) == 0x80);
      }
      text(x + cell / 2, y + 14, shown,
           std::string(" text-anchor=\"middle\"") + (shade.is_dark() ? " fill=\"#fff\"" : ""));
    }
  }
  const double bottom = top + head + static_cast<double>(map.rows.size()) * kRow;
  text(left, bottom + 16, (map.is_signed ? "−" + number(most, "%.3g") + " … 0 … " : "0 … ") + number(most, "%.3g"),
       " fill=\"#555\"");
  return {std::max(left + static_cast<double>(map.columns.size()) * cell + 8, width_of(map.title) + 20),
          bottom - top + 20};
}

}  // namespace

std::string tool_csv(const ToolResult& result) {
  std::string out;
  for (size_t i = 0; i < result.columns.size(); ++i) out += (i == 0 ? "" : ",") + result.columns[i];
  out += "\n";
  for (const std::vector<Json>& row : result.rows) {
    for (size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + csv_field(row[i]);
    out += "\n";
  }
  return out;
}

std::string tool_svg(const ToolResult& result) {
  std::string body;
  double top = 10, width = 100;
  for (const LabelledMap& map : result.maps) {
    const Box box = append_map(body, map, top);
    width = std::max(width, box.width);
    top += box.height + kGap;
  }
  const std::string size = number(width + 20, "%.0f") + "\" height=\"" + number(top, "%.0f");
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size +
         "\" font-family=\"system-ui, 'Noto Sans CJK SC', sans-serif\" font-size=\"" + number(kFont, "%.0f") +
         "\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<g transform=\"translate(10 "
         "0)\">\n" +
         body + "</g>\n</svg>\n";
}

}  // namespace attend
