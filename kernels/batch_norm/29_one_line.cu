// Idea: where statistics are given, nothing has to be added up: the tensor is one line of vectors,
// of which a block takes some. While they come, it makes a table of the runs that lie in them.
// From two_pass_grid: no vector waits for parameters, and a run may begin anywhere in a vector.
// Traffic: one read, one write; parameters of a run once a block.
// Limits: inference, contiguous NCHW, runs of a vector and more; fewer than 2^31 elements.
#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::batch_norm {
namespace {

#if WS_DEVICE_CODE

template <class T>
struct OneLineKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 6;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kTile = kThreads * kLoads * kWidth;
  static constexpr int kMostRuns = kTile / kWidth + 1;  // of a tile, each of a vector and more
  using Packed = row::Packed<T, kWidth>;
  // What the elements of a run become: (x - mean) * scale + shift.
  struct alignas(16) OfRun {
    float mean;
    float scale;
    float shift;
    float unused;

    __device__ __forceinline__ float operator()(float x) const {
      return thread::fma(x - mean, scale, shift);
    }
  };
  struct Arguments {
    const T* x;
    T* y;
    uint32_t elements;
    thread::Divider of_run;      // its elements
    thread::Divider of_channel;  // channels
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {
    SharedArray<OfRun, kMostRuns> runs;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto start = static_cast<uint32_t>(block_index() * kTile);
    const uint32_t mine = start + thread_index() * kWidth;
    const auto place = [&](int j) { return mine + static_cast<uint32_t>(j) * kThreads * kWidth; };
    Packed x[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (place(j) < a.elements) x[j] = Packed::load(a.x + place(j));
    }
    const uint32_t end = a.elements - start < kTile ? a.elements : start + kTile;
    const uint32_t first = a.of_run.quotient(start);
    const uint32_t runs = a.of_run.quotient(end - 1) - first + 1;
#pragma unroll 1
    for (uint32_t r = thread_index(); r < runs; r += kThreads) {
      const uint32_t run = first + r;
      const auto c =
          static_cast<int64_t>(run - a.of_channel.quotient(run) * a.of_channel.divisor());
      const float weight = of_channel(a.weight, c, 1.0F);
      const float shift = of_channel(a.bias, c);
      const Normal normal = a.statistics.stored(c);
      shared.runs[r] = {normal.mean, normal.rstd * weight, shift, 0.0F};
    }
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (place(j) >= a.elements) return;
      const uint32_t run = a.of_run.quotient(place(j));
      const auto left = static_cast<int>((run + 1) * a.of_run.divisor() - place(j));
      const OfRun low = shared.runs[run - first];
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = low(x[j][i]);
      if (left < kWidth) {
        const OfRun high = shared.runs[run - first + 1];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = i < left ? out[i] : high(x[j][i]);
      }
      thread::store(a.y + place(j), thread::convert<T>(out));
    }
  }
};

struct OneLine {
  static bool supports(const ForwardCall& call, Why& why) {
    const Layout& layout = call.layout;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    if (!runs_supported(layout, call.dtype, why)) return false;
    const Pieces pieces = pieces_of(layout, call.dtype);
    const bool follow = layout.sets == layout.per &&
                        (layout.per == 1 || layout.set[0] == pieces.run) &&
                        (pieces.count == 1 || pieces.stride == layout.sets * pieces.run) &&
                        reinterpret_cast<uintptr_t>(layout.data[kX]) % 16 == 0;
    const int64_t elements = layout.sets * layout.count;
    return why.unless(call.given, "takes statistics that are given") &&
           why.unless(follow && elements % width == 0,
                      "takes contiguous tensors [N, C, ...] of whole vectors of ", width,
                      ", from a multiple of 16 bytes on") &&
           why.unless(pieces.run >= width, "takes runs of ", width, " elements and more, not of ",
                      pieces.run) &&
           why.unless(elements < kMost, "takes fewer than ", kMost, " elements");
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = OneLineKernel<T>;
      const Layout& layout = call.layout;
      const int64_t elements = layout.sets * layout.count;
      launch<Kernel>(
          {.blocks = divide_up(elements, int64_t{Kernel::kTile}), .threads = Kernel::kThreads},
          context.stream,
          {layout.as<const T>(kX), layout.as<T>(kY), static_cast<uint32_t>(elements),
           thread::Divider(pieces_of(layout, call.dtype).run), thread::Divider(layout.sets),
           call.weight, call.bias, statistics_of(call)});
    });
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 31;
};
#endif

}  // namespace

extern const Rung kOneLine;
const Rung kOneLine = rung_of<OneLine, BatchNormInference>({
    .name = "one_line",
    .from = "two_pass_grid",
    .idea = "given statistics: one line of vectors, and a table of the runs in a block's",
});

}  // namespace ws::batch_norm
