// Channels whose runs are no whole vectors, like 7 x 7 of 16 bits: as many neighbours as a vector
// has elements are, together, a band of whole vectors in each sample, which bulk copies bring. A
// warp has whole samples, and a lane the same vectors of each: so it finds out once which of the
// band's channels an element belongs to.
#pragma once

#include <numeric>

#include "kernels/batch_norm/channel_jobs.hpp"
#include "kernels/batch_norm/shares.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::batch_norm {

// A block a band.
template <int kInputs>
struct BandShapes {
  using Small = ShareShape<kInputs, 3>;  // as registers allow
  using Medium = ShareShape<kInputs, 2>;
  using Large = ShareShape<kInputs, 1, 512>;

  // Calls f.operator()<Shape>() with the smallest that `fits`.
  template <class F>
  static void with_shape(const Layout& layout, const F& f) {
    if (fits<Small>(layout)) return f.template operator()<Small>();
    if (fits<Medium>(layout)) return f.template operator()<Medium>();
    f.template operator()<Large>();
  }
  static bool takes(const Layout& layout, DType dtype, Why& why) {
    if (!runs_supported(layout, dtype, why)) return false;
    const auto width = static_cast<int64_t>(16 / size_of(dtype));
    const Pieces pieces = pieces_of(layout, dtype);
    const bool is_band = layout.axes == 2 && layout.width == 1 && layout.sets == layout.per &&
                         layout.set[0] == pieces.run && layout.sets % width == 0 &&
                         pieces.stride == layout.sets * pieces.run &&
                         reinterpret_cast<uintptr_t>(layout.data[0]) % 16 == 0;
    constexpr int64_t kMostStride = int64_t{1} << 31;
    // Runs begin at multiples of what they have in common with a vector, the last place of which is
    // width - gcd: from there a run of so many reaches the vector's end.
    const bool two_a_vector = std::gcd(pieces.run, width) + pieces.run >= width;
    return why.unless(is_band,
                      "takes contiguous tensors [N, C, ...] of several samples, whose channels are "
                      "a multiple of ",
                      width, ", from a multiple of 16 bytes on") &&
           why.unless(two_a_vector, "takes channels of which a vector of ", width,
                      " meets two, not more: of ", pieces.run, " elements it does") &&
           why.unless(pieces.stride < kMostStride, "takes samples that are less than ", kMostStride,
                      " elements apart") &&
           why.unless(fits<Large>(layout), "holds ", Large::kWarps, " warps' shares of ",
                      Large::kMostShare, " vectors of ", width, " neighbouring channels");
  }

 private:
  template <class Shape>
  static bool fits(const Layout& layout) {
    return divide_up(layout.extents[0], int64_t{Shape::kWarps}) * layout.extents[1] <=
           Shape::kMostShare;
  }
};

#if WS_DEVICE_CODE

// Adds up N values of all lanes, each lane's for itself: lane l gets the total of value
// scattered<N>(l). N - 1 shuffles and a few instead of five for each.
template <int N>
__device__ __forceinline__ int scattered(int lane) {
  int value = 0;
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2, lane /= 2) value += (lane & 1) * half;
  return value;
}
template <int N, int kDistance = 1>
__device__ __forceinline__ float sum_scattered(const thread::Tile<float, N>& values) {
  if constexpr (N == 1) {
    float sum = values[0];
#pragma unroll
    for (int distance = kDistance; distance < kWarpSize; distance *= 2) {
      sum += warp::shuffle_xor(sum, distance);
    }
    return sum;
  } else {
    const bool upper = (lane_index() & kDistance) != 0;
    thread::Tile<float, N / 2> kept;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float give = upper ? values[i] : values[i + N / 2];
      kept[i] = (upper ? values[i + N / 2] : values[i]) + warp::shuffle_xor(give, kDistance);
    }
    return sum_scattered<N / 2, 2 * kDistance>(kept);
  }
}

// A block a band; jobs are those of channel_jobs.hpp.
template <class Job, class Shape>
struct BandKernel {
  using T = typename Job::Element;
  using Total = typename Job::Total;
  using Merge = typename Job::Merge;
  using Coefficient = typename Job::Coefficient;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr int kInputs = Job::kInputs;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr Arch kArch = Arch::kSm90;
  static_assert(kWarps >= kWidth);
  using ShareOf = ShareOfWarp<T, Shape, kInputs>;
  using Packed = typename ShareOf::Packed;
  struct Arguments {
    const T* data[2];
    T* out;
    Shares shares;  // whole samples
    Job job;
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    SharedArray<Total, kWidth * kWarps> warps;
    SharedArray<Coefficient, kWidth> coefficients;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int run = a.shares.run();  // vectors of a band, elements of a channel
    const typename ShareOf::Set set(a.data, a.out, block_index() * run * kWidth);
    ShareOf share(shared.share, a.shares, 0);
    share.fetch(set);
    const int64_t channel = block_index() * kWidth;
    share.wait();
    const Total mine = total(a, share, channel);
    if (lane_index() < kWidth) {
      shared.warps[scattered<kWidth>(lane_index()) * kWarps + warp_index()] = mine;
    }
    ptx::barrier_sync();
    if (warp_index() < kWidth) {
      const Total of_warp = shared.warps[warp_index() * kWarps + lane_index() % kWarps];
      const Total all = warp::all_reduce<kWarps>(of_warp, Merge{});
      if (lane_index() == 0) {
        shared.coefficients[warp_index()] = a.job.of_total(channel + warp_index(), all);
        a.job.finish(channel + warp_index(), all);
      }
    }
    ptx::barrier_sync();
#pragma unroll 1
    for (int k = lane_index(); k < run; k += kWarpSize) {
      const Split split(k, run);
      const Coefficient low = shared.coefficients[split.low];
      const Coefficient high = shared.coefficients[split.high];
      Coefficient of[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) of[i] = split.is_low(i) ? low : high;
      T* out = set.out + share.at(share.first() + k);
#pragma unroll 2
      for (int w = share.first() + k; w < share.held(); w += run) {
        Packed x[kInputs];
#pragma unroll
        for (int n = 0; n < kInputs; ++n) x[n] = share.load(n, w);
        Vec<float, kWidth> y;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = a.job.apply(of[i], x, i);
        thread::store(out, thread::convert<T>(y));
        out += (run + a.shares.gap) * kWidth;
      }
    }
  }

 private:
  // Vector k of a band: the channel of its first elements, and that of the others.
  struct Split {
    int low;
    int high;
    int count;  // elements of the low one

    __device__ __forceinline__ Split(int k, int run) : low(k * kWidth / run) {
      high = low + 1 < kWidth ? low + 1 : low;
      count = (low + 1) * run - k * kWidth;
    }
    __device__ __forceinline__ bool is_low(int i) const { return i < count; }
  };

  // Of the share's elements of channel scattered<kWidth>(lane).
  __device__ __forceinline__ static Total total(const Arguments& a, const ShareOf& share,
                                                int64_t channel) {
    if (share.count() == 0) return Total::none();
    const int run = a.shares.run();
    const auto from = [&](int c) {
      if constexpr (Job::kPivots) {
        return share.element(0, c * run);
      } else {
        return a.job.center(channel + c);
      }
    };
    thread::Tile<float, kWidth> firsts{};
    thread::Tile<float, kWidth> seconds{};
#pragma unroll 1
    for (int k = lane_index(); k < run; k += kWarpSize) {
      const Split split(k, run);
      const float low = from(split.low);
      const float high = from(split.high);
      float base[kWidth];
      float first[kWidth];
      float second[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        base[i] = split.is_low(i) ? low : high;
        first[i] = second[i] = 0;
      }
#pragma unroll 2
      for (int w = share.first() + k; w < share.held(); w += run) {
        Packed x[kInputs];
#pragma unroll
        for (int n = 0; n < kInputs; ++n) x[n] = share.load(n, w);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) Job::add(first[i], second[i], x, i, base[i]);
      }
      Sums lows = Sums::none();
      Sums highs = Sums::none();
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const bool is_low = split.is_low(i);
        lows = PlusSums{}(lows, {is_low ? first[i] : 0.0F, is_low ? second[i] : 0.0F});
        highs = PlusSums{}(highs, {is_low ? 0.0F : first[i], is_low ? 0.0F : second[i]});
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        firsts[i] += i == split.low ? lows.grad : i == split.low + 1 ? highs.grad : 0.0F;
        seconds[i] += i == split.low ? lows.product : i == split.low + 1 ? highs.product : 0.0F;
      }
    }
    const float all_firsts = sum_scattered(firsts);
    const float all_seconds = sum_scattered(seconds);
    return Job::total(static_cast<float>(share.count()), from(scattered<kWidth>(lane_index())),
                      all_firsts, all_seconds);
  }
};

// The rung of a job. Job<T>::of(call) is what goes to the kernel.
template <class Call, template <class> class Job>
struct Bands {
  static constexpr int kInputs = Job<float>::kInputs;
  using Shapes = BandShapes<kInputs>;

  static bool supports(const Call& call, Why& why) {
    return Shapes::takes(call.layout, call.dtype, why);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::with_shape(call.layout, [&]<class Shape>() {
        using Kernel = BandKernel<Job<T>, Shape>;
        const Layout& layout = call.layout;
        const auto run = static_cast<int>(layout.extents[1]);
        const int64_t samples = layout.extents[0];
        const Shares shares{
            .windows = static_cast<int>(samples * run),
            .share = static_cast<int>(divide_up(samples, int64_t{Shape::kWarps})) * run,
            .of_run = thread::Divider(run),
            .gap = static_cast<int>(layout.strides[0][0] / Kernel::kWidth - run),
            .most = 1};
        typename Kernel::Arguments arguments{
            .data = {}, .out = layout.as<T>(kInputs), .shares = shares, .job = Job<T>::of(call)};
        for (int k = 0; k < kInputs; ++k) arguments.data[k] = layout.as<const T>(k);
        launch<Kernel>({.blocks = layout.sets / Kernel::kWidth, .threads = Kernel::kThreads},
                       context.stream, arguments);
      });
    });
  }
};

#endif

}  // namespace ws::batch_norm
