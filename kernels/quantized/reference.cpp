// Quantised weights on the host: what a call is, what it should give, what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/quantized/operations.hpp"
#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::quantized {
namespace {

// ---- Calls --------------------------------------------------------------------------------------

constexpr int64_t kMostGroup = int64_t{1} << 31;

Format format_of(const Problem& problem) {
  if (!problem.attribute("format").is_absent()) return problem.choice<Format>("format");
  switch (problem["weight"].dtype) {
    case DType::kU8: return Format::kNf4;
    case DType::kE4m3: return Format::kFp8;
    default: return Format::kInt8;
  }
}

DType codes_of(Format format) {
  return format == Format::kInt8 ? DType::kI8 : format == Format::kFp8 ? DType::kE4m3 : DType::kU8;
}
DType zeros_of(Format format) { return format == Format::kInt8 ? DType::kI8 : DType::kU8; }
int64_t code_columns(Format format, int64_t columns) { return columns * bits_of(format) / 8; }

int64_t groups_of(const Problem& problem, int64_t columns) {
  return divide_up(columns, problem.integer("group_size"));
}

Matrix matrix_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {.data = tensor.data, .row = tensor.stride(0), .column = tensor.stride(1)};
}

// Columns of the weight, from its codes.
int64_t columns_of(const Problem& problem) {
  return problem["weight"].extent(1) * 8 / bits_of(format_of(problem));
}

Weight weight_of(const Problem& problem) {
  const int64_t columns = columns_of(problem);
  return {.format = format_of(problem),
          .rows = problem["weight"].extent(0),
          .columns = columns,
          .group = problem.integer("group_size"),
          .groups = groups_of(problem, columns),
          .codes = matrix_of(problem["weight"]),
          .scales = matrix_of(problem["scales"]),
          .zeros = matrix_of(problem["zeros"])};
}

void check_group(const Problem& problem) {
  const int64_t group = problem.integer("group_size");
  require(group >= 16 && group <= kMostGroup && group % 16 == 0, problem.operation->name,
          ": group_size is a multiple of 16 up to ", kMostGroup, ", not ", group);
}

// Codes, scales and zeros that a call brings.
void check_weight(const Problem& problem) {
  check_group(problem);
  const std::string_view name = problem.operation->name;
  const Format format = format_of(problem);
  const std::string_view format_name = kFormats[static_cast<size_t>(format)];
  const Tensor& weight = problem["weight"];
  const Tensor& scales = problem["scales"];
  const Tensor& zeros = problem["zeros"];
  require(weight.rank == 2 && weight.dtype == codes_of(format), name, ": codes of ", format_name,
          " are a matrix of ", to_string(codes_of(format)), ", not ", weight);
  const int64_t groups = groups_of(problem, columns_of(problem));
  const auto is_of_groups = [&](const Tensor& tensor, DType dtype) {
    return tensor.rank == 2 && tensor.dtype == dtype && tensor.extent(0) == weight.extent(0) &&
           tensor.extent(1) == groups;
  };
  require(is_of_groups(scales, DType::kF32), name, ": scales of ", weight, " are f32 [",
          weight.extent(0), ", ", groups, "], not ", scales);
  if (!zeros.exists()) return;
  require(has_zeros(format), name, ": int8 and int4 have zeros, ", format_name, " has none");
  require(is_of_groups(zeros, zeros_of(format)), name, ": zeros of ", weight, " are ",
          to_string(zeros_of(format)), " [", weight.extent(0), ", ", groups, "], not ", zeros);
}

// ---- What codes stand for -----------------------------------------------------------------------

// The code of column k, as its bits.
int code_of(const Weight& w, int64_t n, int64_t k) {
  const auto* codes = w.codes.as<const uint8_t>() + n * w.codes.row;
  if (bits_of(w.format) == 8) return codes[k * w.codes.column];
  const int byte = codes[k / 2 * w.codes.column];
  return k % 2 == 0 ? byte >> 4 : byte & 15;
}

float level_of(const Weight& w, int64_t n, int64_t k) {
  const int code = code_of(w, n, k);
  if (w.format == Format::kNf4) return kNf4Levels[code];
  if (w.format == Format::kFp8) return ptx::cvt_f32_e4m3(static_cast<uint8_t>(code));
  const int whole = w.format == Format::kInt8 ? static_cast<int8_t>(code) : code;
  if (w.zeros.data == nullptr) return static_cast<float>(whole - middle_of(w.format));
  const auto* zeros = w.zeros.as<const uint8_t>() + n * w.zeros.row;
  return static_cast<float>(whole - zero_of(w.format, zeros[k / w.group * w.zeros.column]));
}

float scale_of(const Weight& w, int64_t n, int64_t k) {
  return w.scales.as<const float>()[n * w.scales.row + k / w.group * w.scales.column];
}

// ---- Cases --------------------------------------------------------------------------------------

Tensor matrix(DType dtype, int64_t rows, int64_t columns, int64_t padding, bool transposed) {
  Tensor tensor = Tensor::dense(dtype, {rows, columns});
  tensor.strides[0] += padding;
  if (transposed) tensor.strides = {1, rows + padding};
  return tensor;
}

void make_weight(Problem& problem, int64_t n, int64_t k, int64_t options, int64_t padding,
                 bool transposed) {
  const Format format = format_of(problem);
  const int64_t groups = groups_of(problem, k);
  problem["weight"] = matrix(codes_of(format), n, code_columns(format, k), padding, transposed);
  problem["scales"] = Tensor::dense(DType::kF32, {n, groups});
  if ((options & kZeros) != 0) problem["zeros"] = Tensor::dense(zeros_of(format), {n, groups});
}

// Every e4m3 that is a number.
double e4m3_of(double uniform) {
  const auto code = static_cast<uint8_t>(256 * uniform);
  return static_cast<double>(ptx::cvt_f32_e4m3((code & 0x7F) == 0x7F ? 0 : code));
}

// What makes levels, all codes being as likely, about 1 in size.
double size_of_levels(Format format) {
  switch (format) {
    case Format::kInt8: return 74;
    case Format::kInt4: return 4.6;
    case Format::kNf4: return 0.54;
    case Format::kFp8: return 99;
  }
  return 1;
}

// All codes; scales so that weights are about 1 in size.
void fill_weight(const Problem& problem, int index, uint64_t seed) {
  const Format format = format_of(problem);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  const Tensor& tensor = problem.tensor(index);
  const auto uniform = [=](int64_t i) { return random_uniform(seed, static_cast<uint64_t>(i)); };
  if (name == "weight" && format == Format::kFp8) {
    fill_with(tensor, [=](int64_t i) { return e4m3_of(uniform(i)); });
  } else if (name == "weight") {
    fill_with(tensor, [=](int64_t i) { return std::floor(least_of(format) + 256 * uniform(i)); });
  } else if (name == "scales") {
    fill_with(tensor, [=](int64_t i) { return (0.5 + uniform(i)) / size_of_levels(format); });
  } else if (name == "zeros") {
    fill_with(tensor, [=](int64_t i) {
      return least_of(format) + std::floor((steps_of(format) + 1) * uniform(i));
    });
  } else {
    fill_normal_input(problem, index, seed);
  }
}

constexpr std::array<Value, kMaxAttributes> attributes(Format format, int group, Value last = {}) {
  std::array<Value, kMaxAttributes> all{};
  all[0] = Value::choice(static_cast<int>(format));
  all[1] = group;
  all[2] = last;
  return all;
}

using enum Format;

}  // namespace

// ---- quantize_blockwise -------------------------------------------------------------------------

void QuantizeBlockwise::infer(Problem& problem) {
  const Tensor& x = problem["x"];
  const Format format = format_of(problem);
  const bool zero_point = problem.flag("zero_point");
  require(kDTypes.has(x.dtype) && x.rank == 2, kName, " takes a matrix of ", to_string(kDTypes),
          ", not ", x);
  check_group(problem);
  require(!zero_point || has_zeros(format), kName, ": int8 and int4 have a zero_point, ",
          kFormats[static_cast<size_t>(format)], " has none");
  require(bits_of(format) == 8 || x.extent(1) % 2 == 0, kName,
          " packs two codes to a byte: columns are even, not ", x);
  const int64_t rows = x.extent(0);
  const int64_t groups = groups_of(problem, x.extent(1));
  problem["weight"] = Tensor::dense(codes_of(format), {rows, code_columns(format, x.extent(1))});
  problem["scales"] = Tensor::dense(DType::kF32, {rows, groups});
  problem["zeros"] = zero_point ? Tensor::dense(zeros_of(format), {rows, groups}) : Tensor{};
}

QuantizeCall QuantizeBlockwise::call(const Problem& problem) {
  QuantizeCall call;
  call.dtype = problem["x"].dtype;
  call.weight = weight_of(problem);
  call.values = matrix_of(problem["x"]);
  return call;
}

void QuantizeBlockwise::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto& e = chosen.extents;
  problem["x"] = matrix(dtype, e[0], e[1], chosen.padding, (e[2] & kTransposed) != 0);
}

// A range, a division and a rounding of each element.
Cost QuantizeBlockwise::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 4 * static_cast<double>(problem["x"].elements())};
}

// Every division is of f32 and rounded once: there is one right answer.
Tolerance QuantizeBlockwise::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}

int64_t QuantizeBlockwise::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["x"].extent(0);
}

namespace {

struct Quantized {
  float scale = 0;
  int zero = 0;
  std::vector<double> codes;  // an e4m3 as a number, others as their bits
};

int nearest_code(float value, int least, int largest) {
  if (std::isnan(value)) return least;
  const double rounded = std::nearbyint(static_cast<double>(value));
  return static_cast<int>(std::clamp<double>(rounded, least, largest));
}

float scale_of(Format format, bool zero_point, float low, float high) {
  if (zero_point) {
    const auto steps = static_cast<float>(steps_of(format));
    const float span = high - low;  // which f32 need not hold
    return span < INFINITY ? span / steps : (high / 2 - low / 2) / steps * 2;
  }
  const float most = std::max(-low, high);
  switch (format) {
    case Format::kInt8: return most / 127;
    case Format::kInt4: return most / 7;
    case Format::kFp8: return most / kLargestE4m3;
    case Format::kNf4: break;
  }
  return most;
}

// Of d, a number in scales.
double coded(Format format, bool zero_point, int zero, float d) {
  if (format == Format::kFp8) return round_to(DType::kE4m3, static_cast<double>(d));
  if (format == Format::kNf4) {
    int code = 0;
    while (code < 15 && d > (kNf4Levels[code] + kNf4Levels[code + 1]) / 2) ++code;
    return code;
  }
  if (zero_point) {
    const int least = least_of(format);
    return nearest_code(std::nearbyint(d) + static_cast<float>(zero), least,
                        least + steps_of(format));
  }
  return format == Format::kInt8 ? nearest_code(d, -127, 127) : nearest_code(d, -7, 7) + 8;
}

Quantized quantized(Format format, bool zero_point, const std::vector<float>& group) {
  float low = 0;
  float high = 0;
  bool has_nan = false;
  for (const float v : group) {
    low = std::min(low, v);
    high = std::max(high, v);
    has_nan = has_nan || std::isnan(v);
  }
  if (has_nan) low = high = std::nanf("");
  Quantized result;
  result.scale = scale_of(format, zero_point, low, high);
  const auto divided = [&](float v) { return result.scale == 0 ? 0 : v / result.scale; };
  if (zero_point) {
    result.zero = nearest_code(divided(-low), 0, steps_of(format)) + least_of(format);
  }
  for (const float v : group) {
    result.codes.push_back(coded(format, zero_point, result.zero, divided(v)));
  }
  return result;
}

}  // namespace

void QuantizeBlockwise::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const Weight w = weight_of(problem);
  const bool zero_point = problem.flag("zero_point");
  double* codes = expected[1];
  double* scales = expected[2];
  double* zeros = expected[3];
  for (int64_t n = slice.first; n < slice.last; ++n) {
    for (int64_t first = 0; first < w.columns; first += w.group) {
      std::vector<float> group;
      for (int64_t k = first; k < std::min(first + w.group, w.columns); ++k) {
        group.push_back(static_cast<float>(element(problem["x"], n * w.columns + k)));
      }
      const Quantized result = quantized(w.format, zero_point, group);
      *scales++ = static_cast<double>(result.scale);
      if (zero_point) *zeros++ = result.zero;
      for (size_t i = 0; i < group.size(); i += 8 / static_cast<size_t>(bits_of(w.format))) {
        *codes++ =
            bits_of(w.format) == 8 ? result.codes[i] : result.codes[i] * 16 + result.codes[i + 1];
      }
    }
  }
}

// ---- dequantize_blockwise -----------------------------------------------------------------------

void DequantizeBlockwise::infer(Problem& problem) {
  static constexpr DType kTypes[] = {DType::kBf16, DType::kF16, DType::kF32};
  check_weight(problem);
  problem["w"] = Tensor::dense(kTypes[problem.choice<size_t>("out_dtype")],
                               {problem["weight"].extent(0), columns_of(problem)});
}

DequantizeCall DequantizeBlockwise::call(const Problem& problem) {
  DequantizeCall call;
  call.dtype = problem["w"].dtype;
  call.weight = weight_of(problem);
  call.values = matrix_of(problem["w"]);
  return call;
}

void DequantizeBlockwise::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto& e = chosen.extents;
  problem["weight"].dtype = dtype;  // which says the format where the case does not
  make_weight(problem, e[0], e[1], e[2], chosen.padding, (e[2] & kTransposed) != 0);
}

Cost DequantizeBlockwise::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem), .flops = static_cast<double>(problem["w"].elements())};
}

// A product of f32, rounded once more.
Tolerance DequantizeBlockwise::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}

int64_t DequantizeBlockwise::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["weight"].extent(0);
}

void DequantizeBlockwise::reference(const Problem& problem, Slice slice,
                                    std::span<double* const> expected) {
  const Weight w = weight_of(problem);
  double* to = expected[3];
  for (int64_t n = slice.first; n < slice.last; ++n) {
    for (int64_t k = 0; k < w.columns; ++k) {
      const float product = level_of(w, n, k) * scale_of(w, n, k);
      *to++ = round_to(problem["w"].dtype, static_cast<double>(product));
    }
  }
}

void DequantizeBlockwise::fill(const Problem& problem, int index, uint64_t seed) {
  fill_weight(problem, index, seed);
}

// ---- quantized_linear ---------------------------------------------------------------------------

void QuantizedLinear::infer(Problem& problem) {
  const Tensor& x = problem["x"];
  const Tensor& bias = problem["bias"];
  require(kDTypes.has(x.dtype) && x.rank == 2, kName, " takes an x [M, K] of ", to_string(kDTypes),
          ", not ", x);
  check_weight(problem);
  const int64_t rows = problem["weight"].extent(0);
  require(x.extent(1) == columns_of(problem), kName, ": a weight of ", columns_of(problem),
          " columns, ", problem["weight"], ", does not go with x, ", x);
  require(!bias.exists() || (bias.rank == 1 && bias.extent(0) == rows && bias.dtype == x.dtype),
          kName, ": bias is ", to_string(x.dtype), " [", rows, "], not ", bias);
  problem["y"] = Tensor::dense(x.dtype, {x.extent(0), rows});
}

LinearCall QuantizedLinear::call(const Problem& problem) {
  const Tensor& bias = problem["bias"];
  return {.dtype = problem.dtype(),
          .m = problem["x"].extent(0),
          .weight = weight_of(problem),
          .x = matrix_of(problem["x"]),
          .y = matrix_of(problem["y"]),
          .bias = bias.exists() ? bias.data : nullptr,
          .bias_step = bias.exists() ? bias.stride(0) : 0};
}

void QuantizedLinear::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto& e = chosen.extents;
  problem["x"] = matrix(dtype, e[0], e[2], chosen.padding, (e[3] & kTransposed) != 0);
  make_weight(problem, e[1], e[2], e[3], chosen.padding, false);
  if ((e[3] & kBias) != 0) problem["bias"] = Tensor::dense(dtype, {e[1]});
}

Cost QuantizedLinear::cost(const Problem& problem) {
  const Weight w = weight_of(problem);
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(problem["x"].extent(0)) * static_cast<double>(w.rows) *
                   static_cast<double>(w.columns)};
}

// As gemv's: sums of K products of numbers of size 1, rounded once; the tensor core cuts bits off.
// It takes levels of nf4 rounded to the dtype of x, which is one more rounding.
Tolerance QuantizedLinear::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const auto k = static_cast<double>(columns_of(problem));
  const DType dtype = problem.dtype();
  const double unit = dtype == DType::kBf16  ? std::ldexp(1.0, -8)
                      : dtype == DType::kF16 ? std::ldexp(1.0, -11)
                                             : std::ldexp(1.0, -24);
  const double rounding = format_of(problem) == kNf4 ? 2 * unit : unit;
  const double cut = dtype == DType::kF32 ? 0 : k / 128;
  const double accumulation = std::ldexp(1.0, -23) * (4 + std::sqrt(k) + cut);
  const bool has_many = problem["y"].elements() >= 64;
  return {.relative = has_many ? rounding + accumulation : 0,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(k) + std::ldexp(1.0, -14)};
}

int64_t QuantizedLinear::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["x"].extent(0);
}

void QuantizedLinear::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  const Weight w = weight_of(problem);
  const Tensor& bias = problem["bias"];
  double* const y = expected[5];
  std::vector<double> row(static_cast<size_t>(w.columns));
  for (int64_t n = 0; n < w.rows; ++n) {
    for (int64_t k = 0; k < w.columns; ++k) {
      row[static_cast<size_t>(k)] =
          static_cast<double>(level_of(w, n, k)) * static_cast<double>(scale_of(w, n, k));
    }
    for (int64_t m = slice.first; m < slice.last; ++m) {
      double sum = bias.exists() ? element(bias, n) : 0;
      for (int64_t k = 0; k < w.columns; ++k) {
        sum += element(problem["x"], m * w.columns + k) * row[static_cast<size_t>(k)];
      }
      y[(m - slice.first) * w.rows + n] = sum;
    }
  }
}

void QuantizedLinear::fill(const Problem& problem, int index, uint64_t seed) {
  fill_weight(problem, index, seed);
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

constexpr DTypes kBytes = {DType::kI8};
constexpr DTypes kPairs = {DType::kU8};
constexpr DTypes kE4m3s = {DType::kE4m3};

// N, K, options. Groups of a warp's vectors and others, a last group that has fewer, rows apart.
constexpr Case kQuantizeSmoke[] = {
    {.extents = {3, 128}, .attributes = attributes(kInt8, 64)},
    {.extents = {3, 128}, .attributes = attributes(kNf4, 64)},
    {.extents = {2, 64}, .attributes = attributes(kInt4, 32)},
    {.extents = {2, 128}, .attributes = attributes(kFp8, 64)},
    {.extents = {5, 70, kTransposed}, .attributes = attributes(kInt4, 16, true)},
    {.extents = {3, 37, kTransposed}, .attributes = attributes(kFp8, 16)},
};
constexpr Case kQuantizeVerify[] = {
    {.extents = {0, 64}, .attributes = attributes(kInt8, 64)},
    {.extents = {2, 0}, .attributes = attributes(kNf4, 64)},
    {.extents = {1, 1}, .attributes = attributes(kInt8, 16)},
    {.extents = {33, 96}, .attributes = attributes(kInt4, 32, true)},
    {.extents = {3, 96}, .attributes = attributes(kInt8, 32, true)},
    {.extents = {9, 256}, .attributes = attributes(kFp8, 128)},
    {.extents = {2, 1024}, .attributes = attributes(kNf4, 256)},
    {.extents = {2, 1024}, .attributes = attributes(kInt8, 1024)},
    {.extents = {3, 1024}, .attributes = attributes(kInt4, 512)},
    {.extents = {5, 1040}, .padding = 8, .attributes = attributes(kNf4, 16)},
    {.extents = {7, 96}, .attributes = attributes(kFp8, 16)},
    {.extents = {3, 160}, .padding = 8, .attributes = attributes(kInt8, 32)},
    {.extents = {3, 128}, .offset = 1, .attributes = attributes(kInt4, 64)},
    {.extents = {4, 100}, .padding = 3, .attributes = attributes(kNf4, 48)},
};
constexpr Case kQuantizeBench[] = {
    {.extents = {8192, 8192}, .attributes = attributes(kInt8, 64)},
    {.extents = {8192, 8192}, .attributes = attributes(kInt4, 128, true)},
    {.extents = {8192, 8192}, .attributes = attributes(kNf4, 64)},
    {.extents = {8192, 8192}, .attributes = attributes(kFp8, 128)},
};

// 0: bfloat16, 1: float16, 2: float32.
constexpr Value to(int output) { return Value::choice(output); }
constexpr Case kDequantizeSmoke[] = {
    {.extents = {3, 128}, .attributes = attributes(kInt8, 64, to(1)), .dtypes = kBytes},
    {.extents = {3, 128}, .attributes = attributes(kNf4, 64, to(0)), .dtypes = kPairs},
    {.extents = {2, 64, kZeros}, .attributes = attributes(kInt4, 32, to(2)), .dtypes = kPairs},
    {.extents = {2, 128}, .attributes = attributes(kFp8, 64, to(1)), .dtypes = kE4m3s},
    {.extents = {2, 64, kZeros}, .attributes = attributes(kInt8, 32, to(2)), .dtypes = kBytes},
    {.extents = {5, 70, kTransposed}, .attributes = attributes(kInt4, 16, to(1)), .dtypes = kPairs},
    {.extents = {5, 37, kTransposed}, .attributes = attributes(kInt8, 16, to(0)), .dtypes = kBytes},
};
constexpr Case kDequantizeVerify[] = {
    {.extents = {7, 72}, .attributes = attributes(kNf4, 16, to(1)), .dtypes = kPairs},
    {.extents = {0, 64}, .attributes = attributes(kInt8, 64, to(0)), .dtypes = kBytes},
    {.extents = {2, 0}, .attributes = attributes(kNf4, 64, to(0)), .dtypes = kPairs},
    {.extents = {1, 1}, .attributes = attributes(kInt8, 16, to(2)), .dtypes = kBytes},
    {.extents = {33, 96, kZeros}, .attributes = attributes(kInt4, 48, to(0)), .dtypes = kPairs},
    {.extents = {2, 1000}, .attributes = attributes(kNf4, 512, to(2)), .dtypes = kPairs},
    {.extents = {5, 72}, .attributes = attributes(kFp8, 16, to(2)), .dtypes = kE4m3s},
    {.extents = {5, 37, kTransposed}, .attributes = attributes(kFp8, 32, to(0)), .dtypes = kE4m3s},
    {.extents = {9, 136},
     .padding = 8,
     .attributes = attributes(kInt8, 64, to(2)),
     .dtypes = kBytes},
    {.extents = {3, 128},
     .offset = 1,
     .attributes = attributes(kInt4, 64, to(1)),
     .dtypes = kPairs},
    {.extents = {3, 128},
     .padding = 3,
     .attributes = attributes(kInt8, 64, to(1)),
     .dtypes = kBytes},
};
constexpr Case kDequantizeBench[] = {
    {.extents = {8192, 8192}, .attributes = attributes(kInt8, 64, to(0)), .dtypes = kBytes},
    {.extents = {8192, 8192, kZeros},
     .attributes = attributes(kInt4, 128, to(0)),
     .dtypes = kPairs},
    {.extents = {8192, 8192}, .attributes = attributes(kNf4, 64, to(0)), .dtypes = kPairs},
    {.extents = {8192, 8192}, .attributes = attributes(kFp8, 128, to(0)), .dtypes = kE4m3s},
};

// M, N, K, options. Around a fragment's 8 rows of x and 16 of the weight, the warps of a block,
// a warp's vectors and groups; several tiles of a block and stages or stretches of a warp; rows
// apart, rows that start anywhere, K of no whole vectors.
constexpr Case kLinearSmoke[] = {
    {.extents = {1, 5, 128}, .attributes = attributes(kInt8, 64)},
    {.extents = {3, 17, 192, kBias}, .attributes = attributes(kNf4, 64)},
    {.extents = {2, 9, 256, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {2, 5, 128, kBias}, .attributes = attributes(kFp8, 64)},
    {.extents = {2, 3, 70, kZeros | kTransposed}, .attributes = attributes(kInt4, 16)},
    {.extents = {9, 4, 96, kBias}, .attributes = attributes(kInt8, 32)},
    {.extents = {10, 40, 576, kZeros}, .attributes = attributes(kInt8, 64)},
};
constexpr Case kLinearVerify[] = {
    {.extents = {0, 4, 64}, .attributes = attributes(kInt8, 64)},
    {.extents = {2, 0, 64}, .attributes = attributes(kInt8, 64)},
    {.extents = {2, 3, 0, kBias}, .attributes = attributes(kNf4, 64)},
    {.extents = {1, 1, 1}, .attributes = attributes(kInt8, 16)},
    {.extents = {8, 16, 2112}, .attributes = attributes(kInt4, 64)},
    {.extents = {17, 33, 320, kBias}, .attributes = attributes(kNf4, 64)},
    {.extents = {5, 40, 1088}, .padding = 16, .attributes = attributes(kInt8, 544)},
    {.extents = {16, 15, 4160, kZeros | kBias}, .attributes = attributes(kInt4, 8192)},
    {.extents = {1, 20, 544}, .attributes = attributes(kInt4, 32)},
    {.extents = {9, 17, 160, kZeros}, .attributes = attributes(kInt8, 32)},
    {.extents = {9, 17, 1088}, .attributes = attributes(kFp8, 64)},
    {.extents = {8, 100, 2272, kZeros | kBias}, .attributes = attributes(kInt8, 32)},
    {.extents = {1, 130, 4416, kZeros}, .attributes = attributes(kInt4, 64)},
    {.extents = {3, 70, 4288}, .attributes = attributes(kNf4, 64)},
    {.extents = {1, 130, 2208, kZeros}, .padding = 16, .attributes = attributes(kInt8, 96)},
    {.extents = {1, 300, 1024, kBias}, .attributes = attributes(kNf4, 128)},
    {.extents = {1, 37, 1120}, .attributes = attributes(kFp8, 32)},
    {.extents = {12, 300, 1600, kZeros | kBias},
     .padding = 16,
     .attributes = attributes(kInt4, 64)},
    {.extents = {16, 70, 1088, kBias}, .attributes = attributes(kNf4, 64)},
    {.extents = {11, 45, 1344}, .attributes = attributes(kInt8, 192)},
    {.extents = {6, 400, 704, kZeros}, .attributes = attributes(kInt8, 64)},
    {.extents = {4, 600, 448, kBias}, .attributes = attributes(kFp8, 64)},
    {.extents = {8, 33, 6272, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {15, 72, 2176, kBias}, .attributes = attributes(kInt8, 128)},
    {.extents = {9, 300, 1536, kZeros}, .attributes = attributes(kInt4, 64)},
    {.extents = {16, 130, 4224, kBias}, .attributes = attributes(kNf4, 128)},
    {.extents = {3, 7, 37, kTransposed}, .attributes = attributes(kFp8, 16)},
    {.extents = {3, 7, 128}, .offset = 1, .attributes = attributes(kNf4, 64)},
    {.extents = {3, 7, 100, kTransposed}, .attributes = attributes(kInt8, 48)},
};
constexpr Case kLinearBench[] = {
    {.extents = {1, 4096, 4096}, .attributes = attributes(kInt8, 64)},
    {.extents = {1, 4096, 4096, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {1, 4096, 4096}, .attributes = attributes(kNf4, 64)},
    {.extents = {1, 28672, 8192}, .attributes = attributes(kInt8, 64)},
    {.extents = {1, 28672, 8192, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {1, 28672, 8192}, .attributes = attributes(kNf4, 64)},
    {.extents = {1, 28672, 8192}, .attributes = attributes(kFp8, 128)},
    {.extents = {8, 28672, 8192, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {8, 28672, 8192}, .attributes = attributes(kNf4, 64)},
    {.extents = {16, 28672, 8192}, .attributes = attributes(kInt8, 64)},
    {.extents = {16, 28672, 8192, kZeros}, .attributes = attributes(kInt4, 128)},
    {.extents = {16, 28672, 8192}, .attributes = attributes(kNf4, 64)},
};

}  // namespace

Cases QuantizeBlockwise::cases() { return {kQuantizeSmoke, kQuantizeVerify, kQuantizeBench}; }
Cases DequantizeBlockwise::cases() {
  return {kDequantizeSmoke, kDequantizeVerify, kDequantizeBench};
}
Cases QuantizedLinear::cases() { return {kLinearSmoke, kLinearVerify, kLinearBench}; }

}  // namespace ws::quantized
