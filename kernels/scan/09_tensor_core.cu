// Idea: the scan of 32 elements is their product with a triangular matrix of ones. A warp takes 16
// rows of 32 elements as the left operand, which it loads as the fragments want them, 16 bytes a
// lane; eight products give all sums within rows, shuffles what lies before each row. An f32 is
// three bf16, of eight bits each, and takes three times as many.
// From block_scan: tensor cores instead of additions. Ones and elements are exact in 16 bits, sums
// and carries in f32.
// Traffic: one read, one write.
// Limits: cumsum of rows at multiples of 16 bytes; an infinity or NaN spoils the 32 elements of its
// row, also those before it, since 0 times infinity is NaN: never the default.
// Long: the triangle, the parts of an f32 and the ends of rows stand with the products they serve.
#include <bit>

#include "kernels/scan/tile.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/mma.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T>
struct TensorCoreKernel {
  static constexpr int kThreads = 256;
  static constexpr int kOfLane = 8;          // elements of a row that a lane loads
  static constexpr int kRow = 4 * kOfLane;   // lanes / 8 hold a row
  static constexpr int kOfWarp = 16 * kRow;  // elements
  static constexpr int kTile = kOfWarp * kThreads / kWarpSize;
  using Scan = block::ScanOfWarps<float, kThreads>;
  struct Arguments {
    const T* x;
    T* y;
    int64_t x_pitch;
    int64_t y_pitch;
    int64_t count;
  };
  struct SharedStorage {
    typename Scan::Storage totals;
  };
  using Vector = Vec<T, kOfLane>;
  using Operand = std::conditional_t<std::is_same_v<T, float>, bf16, T>;
  static constexpr int kParts = std::is_same_v<T, float> ? 3 : 1;

  // Of ones where column >= row. A lane's eight elements are k = 2 pair, + 1, + 8, + 9 of the first
  // product and of the second: the row of the matrix that belongs to k is the element's place in
  // the row of 32, and columns are permuted alike, so that a lane's sums are those of its elements.
  __device__ __forceinline__ static int place(int half, int k) {
    return k % 8 / 2 * kOfLane + half * 4 + k / 8 * 2 + k % 2;
  }
  __device__ __forceinline__ static uint32_t ones(int half, int k, int column) {
    const uint32_t one = from_float<Operand>(1.0F).bits;
    return (place(half, k) <= column ? one : 0U) | (place(half, k + 1) <= column ? one << 16 : 0U);
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Scan scan(shared.totals);
    const T* x = a.x + block_index() * a.x_pitch;
    T* y = a.y + block_index() * a.y_pitch;
    const int group = lane_index() / 4;
    const int pair = lane_index() % 4;
    uint32_t triangle[4][2][2];  // of columns 8 n + ..., rows of each half
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      // D's columns 2 pair and + 1 of product n are elements 2 n and + 1 of lane `pair`.
      const int column = group / 2 * kOfLane + 2 * n + group % 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        triangle[n][half][0] = ones(half, 2 * pair, column);
        triangle[n][half][1] = ones(half, 2 * pair + 8, column);
      }
    }
    const auto add = [](float p, float q) { return p + q; };
    float carry = 0;
    for (int64_t start = 0; start < a.count; start += kTile) {
      const int64_t upper = start + warp_index() * kOfWarp + lane_index() * kOfLane;
      const int64_t lower = upper + kOfWarp / 2;  // row group + 8
      const Vector of_upper = load(x, upper, a.count);
      const Vector of_lower = load(x, lower, a.count);
      uint32_t words[kParts][2][4];
      take_apart(of_upper, words, 0);
      take_apart(of_lower, words, 1);
      float sums[4][4] = {};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int p = kParts - 1; p >= 0; --p) {  // the least first
          const auto& [up, low] = words[p];
          const uint32_t first[4] = {up[0], low[0], up[1], low[1]};
          const uint32_t second[4] = {up[2], low[2], up[3], low[3]};
          ptx::mma_m16n8k16<Operand>(sums[n], first, triangle[n][0], sums[n]);
          ptx::mma_m16n8k16<Operand>(sums[n], second, triangle[n][1], sums[n]);
        }
      }
      // A row's total is its last lane's last sum; rows follow each other every four lanes.
      const float of_row[2] = {warp::shuffle<4>(sums[3][1], 3), warp::shuffle<4>(sums[3][3], 3)};
      float before[2];
      float total = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float scanned = of_row[h];
#pragma unroll
        for (int distance = 4; distance < kWarpSize; distance *= 2) {
          const float above = warp::shuffle_up(scanned, distance);
          if (lane_index() >= distance) scanned += above;
        }
        const float above = warp::shuffle_up(scanned, 4);
        before[h] = total + (group == 0 ? 0.0F : above);
        total += warp::shuffle(scanned, kWarpSize - 1);
      }
      const auto of_block = scan(total, 0.0F, add);
      const float prefix = carry + of_block.before;
      carry += of_block.total;
      store(y, upper, a.count, prefix + before[0], sums, 0);
      store(y, lower, a.count, prefix + before[1], sums, 2);
    }
  }

 private:
  // Eight elements as words of two operands, in parts that add up to them exactly: an f32's first
  // sixteen bits are a bf16, what is left of it has eight bits fewer.
  __device__ __forceinline__ static void take_apart(const Vector& v,
                                                    uint32_t (&words)[kParts][2][4], int row) {
    if constexpr (kParts == 1) {
      memcpy(words[0][row], &v, sizeof(v));
    } else {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        float low = v[2 * w];
        float high = v[2 * w + 1];
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          const uint32_t low_bits = std::bit_cast<uint32_t>(low) & 0xFFFF0000U;
          const uint32_t high_bits = std::bit_cast<uint32_t>(high) & 0xFFFF0000U;
          words[p][row][w] = high_bits | low_bits >> 16;
          low -= std::bit_cast<float>(low_bits);
          high -= std::bit_cast<float>(high_bits);
        }
      }
    }
  }
  __device__ __forceinline__ static Vector load(const T* x, int64_t i, int64_t count) {
    Vector v{};
    if (i + kOfLane <= count) {
      v = thread::load<kOfLane, Cache::kStreaming>(x + i);
    } else {
#pragma unroll
      for (int e = 0; e < kOfLane; ++e) {
        if (i + e < count) v[e] = thread::load(x + i + e);
      }
    }
    return v;
  }
  __device__ __forceinline__ static void store(T* y, int64_t i, int64_t count, float before,
                                               const float (&sums)[4][4], int first) {
    Vec<float, kOfLane> v;
#pragma unroll
    for (int e = 0; e < kOfLane; ++e) v[e] = before + sums[e / 2][first + e % 2];
    const Vector out = thread::convert<T>(v);
    if (i + kOfLane <= count) {
      thread::store<Cache::kStreaming>(y + i, out);
    } else {
#pragma unroll
      for (int e = 0; e < kOfLane; ++e) {
        if (i + e < count) thread::store(y + i + e, out[e]);
      }
    }
  }
};

struct TensorCore {
  static bool supports(const scan::Scan& call, Why& why) {
    const auto aligned = [&](const void* data, int k) {
      return reinterpret_cast<uintptr_t>(data) % 16 == 0 && call.pitch(k) % 8 == 0;
    };
    return rows_supported(call, why) &&
           why.unless(!call.exclusive && !call.reverse, "takes inclusive scans from the front") &&
           why.unless(aligned(call.input, 0) && aligned(call.output, 1),
                      "takes rows that start at multiples of 16 bytes");
  }
  static void run(const scan::Scan& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = TensorCoreKernel<T>;
      launch<Kernel>({.blocks = call.lines, .threads = Kernel::kThreads}, context.stream,
                     {static_cast<const T*>(call.input), static_cast<T*>(call.output),
                      call.pitch(0), call.pitch(1), call.count});
    });
  }
};

inline constexpr Seed kTensorCoreSeeds[] = {
    {.name = "scan_tensor_core", .operation = "cumsum", .dtypes = kFloats}};

extern const Rung kTensorCore;
const Rung kTensorCore = rung_of<TensorCore, kFloats, Cumsum>(
    {.name = "tensor_core",
     .from = "block_scan",
     .idea = "sums of 32 as products with a triangle of ones: mma.sync, sums in f32",
     .seeds = kTensorCoreSeeds});

}  // namespace ws::scan
#endif
