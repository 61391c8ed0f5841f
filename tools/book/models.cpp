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
  Fragment(std::string of_name, int of_rows, int of_columns)
      : name(std::move(of_name)),
        rows(of_rows),
        columns(of_columns),
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
    return {{"name", name}, {"lane", by_lane}, {"place", by_place}};
  }

  std::string name;
  int rows;
  int columns;
  std::vector<int> lane;   // of a warp, or the thread of a warpgroup
  std::vector<int> place;  // of accumulators the register, of packed operands the half of one
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

template <int kMatrices, bool kTranspose = false>
Json loaded(const char* name) {
  using Kernel = LoadFragment<kMatrices, kTranspose>;
  Held<uint32_t> registers(size_t{32} * kMatrices);
  launch<Kernel>({.threads = 32}, nullptr, {registers.data()});
  Fragment fragment(name, Kernel::kRows, Kernel::kColumns);
  for (int i = 0; i < 32 * kMatrices; ++i) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t number = registers[static_cast<size_t>(i)] >> (16 * half) & 0xFFFF;
      fragment.hold(static_cast<int>(number), i / kMatrices, 2 * (i % kMatrices) + half);
    }
  }
  return fragment.json();
}

// Products whose elements are their numbers: A = (row, 1, 0 ...), B = (columns, column, 0 ...).
template <class T>
__device__ uint16_t a_element(int row, int k) {
  return T(k == 0 ? static_cast<float>(row) : static_cast<float>(k == 1)).bits;
}
template <class T>
__device__ uint16_t b_element(int k, int column, int columns) {
  return T(static_cast<float>(k == 0 ? columns : k == 1 ? column : 0)).bits;
}

struct MultiplyOfWarp {
  static constexpr int kThreads = 32;
  struct Arguments {
    float* d;  // [32, 4]
  };
  struct SharedStorage {
    SharedArray<uint16_t, size_t{16} * 16, 16> a;  // [16, k]
    SharedArray<uint16_t, size_t{8} * 16, 16> b;   // [8, k]
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    for (int i = lane; i < 16 * 16; i += 32) shared.a[i] = a_element<half>(i / 16, i % 16);
    for (int i = lane; i < 8 * 16; i += 32) shared.b[i] = b_element<half>(i % 16, i / 16, 8);
    ptx::barrier_sync();
    uint32_t a[4];
    uint32_t b[2];
    ptx::ldmatrix_x4(a, shared.a.pointer(lane % 16 * 16 + lane / 16 * 8));
    ptx::ldmatrix_x2(b, shared.b.pointer(lane % 8 * 16 + lane / 8 % 2 * 8));
    constexpr float kZeros[4] = {};
    float d[4];
    ptx::mma_m16n8k16<half>(d, a, b, kZeros);
    for (int i = 0; i < 4; ++i) arguments.d[lane * 4 + i] = d[i];
  }
};

constexpr int kColumnsOfGroup = 16;

struct MultiplyOfGroup {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kN = kColumnsOfGroup;
  struct Arguments {
    float* d;  // [128, kN / 2]
  };
  struct SharedStorage {
    SharedArray<uint16_t, size_t{64} * 16, 128> a;
    SharedArray<uint16_t, size_t{kN} * 16, 128> b;
  };
  // K-major without swizzle: core matrices of 8 rows of 8 elements, those of one k in a column.
  __device__ static int place(int mn, int k, int extent) {
    return k / 8 * extent * 8 + mn * 8 + k % 8;
  }
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int thread = thread_index();
    for (int i = thread; i < 64 * 16; i += kThreads) {
      shared.a[place(i / 16, i % 16, 64)] = a_element<half>(i / 16, i % 16);
    }
    for (int i = thread; i < kN * 16; i += kThreads) {
      shared.b[place(i / 16, i % 16, kN)] = b_element<half>(i % 16, i / 16, kN);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    const auto descriptor = [](const void* pointer, uint32_t extent) {
      return ptx::wgmma_descriptor(pointer, 16 * extent, 128, ptx::Swizzle::kNone);
    };
    float d[kN / 2];
    ptx::wgmma_fence(d);
    ptx::wgmma_m64k16<kN, half>(d, descriptor(shared.a.pointer(), 64),
                                descriptor(shared.b.pointer(), kN), false);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < kN / 2; ++i) arguments.d[thread * (kN / 2) + i] = d[i];
  }
};

template <class Kernel>
Json product(const char* name, int rows, int columns) {
  constexpr int kThreads = Kernel::kThreads;
  const int each = rows * columns / kThreads;
  Held<float> d(static_cast<size_t>(rows * columns));
  launch<Kernel>({.threads = kThreads}, nullptr, {d.data()});
  Fragment fragment(name, rows, columns);
  for (int i = 0; i < rows * columns; ++i) {
    fragment.hold(static_cast<int>(d[static_cast<size_t>(i)]), i / each, i % each);
  }
  return fragment.json();
}

void print_models() {
  using ptx::Swizzle;
  Json swizzles = {{"plain rows of 128 bytes", plain_json()},
                   {"swizzle of 32 bytes", swizzle_json(Swizzle::k32)},
                   {"swizzle of 64 bytes", swizzle_json(Swizzle::k64)},
                   {"swizzle of 128 bytes", swizzle_json(Swizzle::k128)}};
  const Json fragments = {
      {"ldmatrix", loaded<1>("ldmatrix: an 8 x 8 matrix of 16 bits")},
      {"ldmatrix_trans", loaded<1, true>("ldmatrix.trans: the same, transposed on the way")},
      {"mma_a", loaded<4>("mma.sync.m16n8k16: A, 16 x 16, by ldmatrix.x4")},
      {"mma_b", loaded<2>("mma.sync.m16n8k16: B, 8 columns x 16 k, by ldmatrix.x2")},
      {"mma_d", product<MultiplyOfWarp>("mma.sync.m16n8k16: sums, 16 x 8 of f32", 16, 8)},
      {"wgmma_d",
       product<MultiplyOfGroup>("wgmma.m64n16k16: sums, 64 x 16 of f32", 64, kColumnsOfGroup)}};
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
