// What the book draws of the device layer, asked of the device layer: `book_models` prints as JSON
// where the swizzles put chunks, and which register of which lane holds an element of the operands
// of tensor cores. The emulator executes the very functions that kernels call.
#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/runtime.hpp"
#include "warpsmith/shared.hpp"

namespace ws {
namespace {

using Json = nlohmann::ordered_json;

// ---- Swizzles ----------------------------------------------------------------------------------

constexpr uint32_t kLine = 128;  // bytes of the 32 banks
constexpr uint32_t kChunk = 16;
constexpr uint32_t kRows = 8;

// Of each row of the pattern and each chunk of it: the 128-byte line and the place in it, 0 to 7,
// where the chunk lies; four banks are a place.
Json swizzle_json(ptx::Swizzle swizzle) {
  const auto row_bytes = static_cast<uint32_t>(ptx::swizzle_row_bytes(swizzle));
  Json lines = Json::array();
  Json places = Json::array();
  for (uint32_t row = 0; row < kRows; ++row) {
    Json line = Json::array();
    Json place = Json::array();
    for (uint32_t chunk = 0; chunk < row_bytes / kChunk; ++chunk) {
      const uint32_t at = ptx::swizzled(swizzle, row * row_bytes + chunk * kChunk);
      line.push_back(at / kLine);
      place.push_back(at % kLine / kChunk);
    }
    lines.push_back(line);
    places.push_back(place);
  }
  return {{"row_bytes", row_bytes}, {"line", lines}, {"place", places}};
}

// Rows of 128 bytes, one after the other, with no swizzle: what the others are held against.
Json plain_json() {
  Json lines = Json::array();
  Json places = Json::array();
  for (uint32_t row = 0; row < kRows; ++row) {
    lines.push_back(std::vector<uint32_t>(kLine / kChunk, row));
    Json place = Json::array();
    for (uint32_t chunk = 0; chunk < kLine / kChunk; ++chunk) place.push_back(chunk);
    places.push_back(place);
  }
  return {{"row_bytes", kLine}, {"line", lines}, {"place", places}};
}

// ---- Fragments ---------------------------------------------------------------------------------

// An element's number is row * columns + column, and each holder tells the numbers that it holds.
struct Fragment {
  Fragment(std::string of_name, int of_rows, int of_columns, int elements)
      : name(std::move(of_name)),
        rows(of_rows),
        columns(of_columns),
        to_a_register(elements),
        lane(static_cast<size_t>(of_rows * of_columns), -1),
        place(lane) {}

  void hold(int number, int by_lane, int in_place) {
    require(number >= 0 && number < rows * columns, name, ": lane ", by_lane, " holds ", number);
    int& holder = lane[static_cast<size_t>(number)];
    require(holder < 0, name, ": lanes ", holder, " and ", by_lane, " hold ", number);
    holder = by_lane;
    place[static_cast<size_t>(number)] = in_place;
  }
  Json json() const {
    Json by_lane = Json::array();
    Json by_place = Json::array();
    for (auto at = 0; at < rows * columns; at += columns) {
      by_lane.push_back(std::vector(lane.begin() + at, lane.begin() + at + columns));
      by_place.push_back(std::vector(place.begin() + at, place.begin() + at + columns));
    }
    return {
        {"name", name}, {"to_a_register", to_a_register}, {"lane", by_lane}, {"place", by_place}};
  }

  std::string name;
  int rows;
  int columns;
  int to_a_register;       // elements
  std::vector<int> lane;   // of a warp, or the thread of a warpgroup
  std::vector<int> place;  // of those that the lane holds, in the order of its registers
};

// Memory of the device, and of the host here.
template <class T>
class Held {
 public:
  explicit Held(size_t size)
      : data_(static_cast<T*>(runtime::allocate(size * sizeof(T)))), size_(size) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { runtime::free(data_); }
  T* data() { return data_; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }

 private:
  T* data_;
  size_t size_;
};

// The elements' numbers through ldmatrix: rows x 16 of 16 bits, one after the other.
template <int kMatrices, bool kTranspose>
struct LoadFragment {
  static constexpr int kThreads = 32;
  static constexpr int kRows = kMatrices == 4 ? 16 : 8;
  static constexpr int kColumns = kMatrices == 1 ? 8 : 16;
  struct Arguments {
    uint32_t* registers;  // [32, kMatrices]
  };
  struct SharedStorage {
    SharedArray<uint16_t, size_t{kRows} * kColumns, 16> matrix;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    for (int i = lane; i < kRows * kColumns; i += 32) shared.matrix[i] = static_cast<uint16_t>(i);
    ptx::barrier_sync();
    // Matrices go down first, then across: the order of the registers of mma's A.
    const int given = lane % (8 * kMatrices);
    const int row = given % kRows;
    const int column = given / kRows * 8;
    uint32_t r[kMatrices];
    const void* pointer = shared.matrix.pointer(row * kColumns + column);
    if constexpr (kMatrices == 1) {
      ptx::ldmatrix_x1<kTranspose>(r, pointer);
    } else if constexpr (kMatrices == 2) {
      ptx::ldmatrix_x2<kTranspose>(r, pointer);
    } else {
      ptx::ldmatrix_x4<kTranspose>(r, pointer);
    }
    for (int m = 0; m < kMatrices; ++m) arguments.registers[lane * kMatrices + m] = r[m];
  }
};

// `elements` of 8 or 16 bits to a register: ldmatrix moves 16 bits, which may be two of 8.
template <int kMatrices, bool kTranspose = false>
Json loaded(const char* name, int elements = 2) {
  using Kernel = LoadFragment<kMatrices, kTranspose>;
  Held<uint32_t> registers(size_t{32} * kMatrices);
  launch<Kernel>({.threads = 32}, nullptr, {registers.data()});
  const int each = elements / 2;
  Fragment fragment(name, Kernel::kRows, Kernel::kColumns * each, elements);
  for (int i = 0; i < 32 * kMatrices; ++i) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t number = registers[static_cast<size_t>(i)] >> (16 * half) & 0xFFFF;
      const int place = 2 * (i % kMatrices) + half;
      for (int part = 0; part < each; ++part) {
        fragment.hold(static_cast<int>(number) * each + part, i / kMatrices, place * each + part);
      }
    }
  }
  return fragment.json();
}

// Products whose elements are their numbers: A = (row, 1, 0 ...), B = (columns, column, 0 ...).
template <class T>
__device__ T a_element(int row, int k) {
  return T(k == 0 ? static_cast<float>(row) : static_cast<float>(k == 1));
}
template <class T>
__device__ T b_element(int k, int column, int columns) {
  return T(static_cast<float>(k == 0 ? columns : k == 1 ? column : 0));
}

// k of an instruction: operands' rows are of 32 bytes there.
template <class T>
constexpr int kDepth = static_cast<int>(32 / sizeof(T));

template <class T>
struct MultiplyOfWarp {
  static constexpr int kThreads = 32;
  static constexpr int kK = kDepth<T>;
  struct Arguments {
    float* d;  // [32, 4]
  };
  struct SharedStorage {
    SharedArray<T, size_t{16} * kK, 16> a;  // [16, k]
    SharedArray<T, size_t{8} * kK, 16> b;   // [8, k]
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    for (int i = lane; i < 16 * kK; i += 32) shared.a[i] = a_element<T>(i / kK, i % kK);
    for (int i = lane; i < 8 * kK; i += 32) shared.b[i] = b_element<T>(i % kK, i / kK, 8);
    ptx::barrier_sync();
    uint32_t a[4];
    uint32_t b[2];
    ptx::ldmatrix_x4(a, shared.a.pointer(lane % 16 * kK + lane / 16 * (kK / 2)));
    ptx::ldmatrix_x2(b, shared.b.pointer(lane % 8 * kK + lane / 8 % 2 * (kK / 2)));
    constexpr float kZeros[4] = {};
    float d[4];
    if constexpr (sizeof(T) == 1) {
      ptx::mma_m16n8k32<T>(d, a, b, kZeros);
    } else {
      ptx::mma_m16n8k16<T>(d, a, b, kZeros);
    }
    for (int i = 0; i < 4; ++i) arguments.d[lane * 4 + i] = d[i];
  }
};

// K-major without swizzle: core matrices of 8 rows of 16 bytes, those of one k in a column.
template <class T>
__device__ int place_in_core(int mn, int k, int extent) {
  constexpr auto kWide = static_cast<int>(kChunk / sizeof(T));
  return k / kWide * extent * kWide + mn * kWide + k % kWide;
}
__device__ uint64_t core_descriptor(const void* pointer, uint32_t extent) {
  return ptx::wgmma_descriptor(pointer, kChunk * extent, 128, ptx::Swizzle::kNone);
}

template <class T, int kColumns>
struct MultiplyOfGroup {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kN = kColumns;
  struct Arguments {
    float* d;  // [128, kN / 2]
  };
  struct SharedStorage {
    SharedArray<T, size_t{64} * 16, 128> a;
    SharedArray<T, size_t{kN} * 16, 128> b;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int thread = thread_index();
    for (int i = thread; i < 64 * 16; i += kThreads) {
      shared.a[place_in_core<T>(i / 16, i % 16, 64)] = a_element<T>(i / 16, i % 16);
    }
    for (int i = thread; i < kN * 16; i += kThreads) {
      shared.b[place_in_core<T>(i / 16, i % 16, kN)] = b_element<T>(i % 16, i / 16, kN);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    float d[kN / 2];
    ptx::wgmma_fence(d);
    ptx::wgmma_m64k16<kN, T>(d, core_descriptor(shared.a.pointer(), 64),
                             core_descriptor(shared.b.pointer(), kN), false);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < kN / 2; ++i) arguments.d[thread * (kN / 2) + i] = d[i];
  }
};

template <class Kernel>
Fragment product(const char* name, int rows, int columns) {
  constexpr int kThreads = Kernel::kThreads;
  const int each = rows * columns / kThreads;
  Held<float> d(static_cast<size_t>(rows * columns));
  launch<Kernel>({.threads = kThreads}, nullptr, {d.data()});
  Fragment fragment(name, rows, columns, 1);
  for (int i = 0; i < rows * columns; ++i) {
    fragment.hold(static_cast<int>(d[static_cast<size_t>(i)]), i / each, i % each);
  }
  return fragment;
}

// What lies in registers of A, told by a product with the identity: each element is a digit of the
// number (of 16 digits, which 8 bits hold exactly) that says which of the thread's elements it is.
constexpr int kDigit = 16;

template <class T>
struct TellRegisters {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kK = kDepth<T>;
  static constexpr int kEach = 64 * kK / kThreads;  // elements of a thread
  struct Arguments {
    int divisor;  // 1, kDigit, kDigit^2
    float* d;     // [128, kK / 2]
  };
  struct SharedStorage {
    SharedArray<T, size_t{kK} * kK, 128> b;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int thread = thread_index();
    for (int i = thread; i < kK * kK; i += kThreads) {
      const int column = i / kK;
      const int k = i % kK;
      shared.b[place_in_core<T>(column, k, kK)] = T(static_cast<float>(column == k));
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    constexpr int kWide = kEach / 4;
    uint32_t a[4] = {};
    for (int i = 0; i < kEach; ++i) {
      const int digit = (thread * kEach + i) / arguments.divisor % kDigit;
      a[i / kWide] |= uint32_t{T(static_cast<float>(digit)).bits} << (i % kWide * (32 / kWide));
    }
    float d[kK / 2];
    ptx::wgmma_fence(d, a);
    const uint64_t b = core_descriptor(shared.b.pointer(), kK);
    if constexpr (sizeof(T) == 1) {
      ptx::wgmma_m64k32<kK, T, T>(d, a, b, false);
    } else {
      ptx::wgmma_m64k16<kK, T>(d, a, b, false);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < kK / 2; ++i) arguments.d[thread * (kK / 2) + i] = d[i];
  }
};

// `sums`: which thread holds which of the product.
template <class T>
Json of_registers(const char* name, const Fragment& sums) {
  using Kernel = TellRegisters<T>;
  const auto columns = static_cast<size_t>(Kernel::kK);
  Held<float> d(64 * columns);
  std::vector<int> numbers(d.size());
  for (int divisor = 1; divisor < Kernel::kThreads * Kernel::kEach; divisor *= kDigit) {
    launch<Kernel>({.threads = Kernel::kThreads}, nullptr, {divisor, d.data()});
    for (size_t i = 0; i < d.size(); ++i) {
      const auto at =
          static_cast<size_t>(sums.lane[i]) * (columns / 2) + static_cast<size_t>(sums.place[i]);
      numbers[i] += divisor * static_cast<int>(d[at]);
    }
  }
  Fragment fragment(name, 64, Kernel::kK, Kernel::kEach / 4);
  for (size_t i = 0; i < numbers.size(); ++i) {
    fragment.hold(static_cast<int>(i), numbers[i] / Kernel::kEach, numbers[i] % Kernel::kEach);
  }
  return fragment.json();
}

void print_models() {
  using ptx::Swizzle;
  Json swizzles = {{"plain rows of 128 bytes", plain_json()},
                   {"swizzle of 32 bytes", swizzle_json(Swizzle::k32)},
                   {"swizzle of 64 bytes", swizzle_json(Swizzle::k64)},
                   {"swizzle of 128 bytes", swizzle_json(Swizzle::k128)}};
  const Fragment sums =
      product<MultiplyOfWarp<half>>("mma.sync.m16n8k16 and m16n8k32: sums, 16 x 8 of f32", 16, 8);
  const Fragment sums_of_bytes = product<MultiplyOfWarp<e4m3>>("mma.sync.m16n8k32", 16, 8);
  require(sums.lane == sums_of_bytes.lane && sums.place == sums_of_bytes.place,
          "mma.sync's sums lie otherwise where operands are of 8 bits");
  const Fragment sums_of_group =
      product<MultiplyOfGroup<half, 16>>("wgmma.m64n16: sums, 64 x 16 of f32", 64, 16);
  const Json fragments = {
      {"ldmatrix", loaded<1>("ldmatrix: an 8 x 8 matrix of 16 bits")},
      {"ldmatrix_trans", loaded<1, true>("ldmatrix.trans: the same, transposed on the way")},
      {"mma_a", loaded<4>("mma.sync.m16n8k16: A, 16 x 16 of 16 bits, by ldmatrix.x4")},
      {"mma_b", loaded<2>("mma.sync.m16n8k16: B, 8 columns x 16 k of 16 bits, by ldmatrix.x2")},
      {"mma_a_of_bytes", loaded<4>("mma.sync.m16n8k32: A, 16 x 32 of 8 bits, by ldmatrix.x4", 4)},
      {"mma_b_of_bytes",
       loaded<2>("mma.sync.m16n8k32: B, 8 columns x 32 k of 8 bits, by ldmatrix.x2", 4)},
      {"mma_d", sums.json()},
      {"wgmma_a",
       of_registers<half>("wgmma.m64k16: A in registers, 64 x 16 of 16 bits", sums_of_group)},
      {"wgmma_a_of_bytes",
       of_registers<e4m3>("wgmma.m64k32: A in registers, 64 x 32 of 8 bits",
                          product<MultiplyOfGroup<half, 32>>("wgmma.m64n32", 64, 32))},
      {"wgmma_d", sums_of_group.json()}};
  const Json models = {{"swizzles", swizzles}, {"fragments", fragments}};
  fmt::print("{}\n", models.dump());
}

}  // namespace
}  // namespace ws

int main() {
  try {
    ws::print_models();
  } catch (const std::exception& error) {
    fmt::print(stderr, "book_models: {}\n", error.what());
    return 1;
  }
  return 0;
}
