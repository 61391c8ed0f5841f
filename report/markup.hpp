// Elements of HTML and SVG as text: what both are written with.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ws::report {

// A text as it stands between tags or in quotes.
std::string escaped(std::string_view text);

// Names and values, which are escaped; one whose value is empty is left out.
using Attributes = std::vector<std::pair<std::string_view, std::string>>;

// <name attributes>content</name>. The content is markup already.
std::string element(std::string_view name, const Attributes& attributes, std::string_view content);
// The same of a text.
std::string text_element(std::string_view name, const Attributes& attributes,
                         std::string_view text);

// "12.5%": positions across a picture, so that it may be as wide as the reader's window and its
// letters stay as large as they are.
std::string percent(double share);
// Pixels, with at most one decimal.
std::string pixels(double value);

// Figures as readers want them: "4240 GB/s", "751 TFLOP/s", "65.1 us", "40.96 KB".
std::string rate_text(double rate, bool of_bytes);
std::string time_text(double microseconds);
std::string bytes_text(double bytes);
std::string count_text(double count);
std::string percent_text(double share);

}  // namespace ws::report
