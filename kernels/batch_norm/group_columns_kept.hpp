// Spans of groups (group_columns.hpp) that the blocks of a cluster keep in shared memory, rows of
// them each. A thread has a place of its own for each vector, which it copies there by cp.async: it
// waits for its own copies only, and nothing guards the places. Blocks tell each other the sums of
// groups, and each adds up those of all in their order.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/batch_norm/group_columns.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/cp_async.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

// The rows of a thread, of each input.
template <class T, int kThreads, int kInputs>
class KeptSpan {
  static constexpr int kBatches = 4;

 public:
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;

  // Elements that `places` has.
  __host__ __device__ __forceinline__ static int64_t elements(const SpanPlan& plan) {
    return int64_t{kInputs} * plan.share * plan.vectors * kWidth;
  }
  // Asks for all rows.
  __device__ __forceinline__ KeptSpan(const SharedSpan<T>& places,
                                      const SpanPlace<T, kThreads>& place,
                                      const Samples<const T> (&inputs)[kInputs])
      : places_(places), place_(place) {
    const SpanPlan& plan = place.plan;
    own_ = place.rows();
    batch_ = divide_up(divide_up(plan.share, place.step), kBatches);
    apart_ = place.step * plan.vectors * kWidth;
    input_ = plan.share * plan.vectors * kWidth;
    at_ = ((place.first - place.begin) * plan.vectors + place.vector) * kWidth;
    const T* from[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      from[k] = inputs[k].row(place.sample, place.first) + place.channel;
    }
    // Loops as they stand here and below: code that a launch runs once comes from memory.
    int to = at_;
    int v = 0;
#pragma unroll 1
    for (int b = 1; b <= kBatches; ++b) {
#pragma unroll 1
      for (; v < b * batch_ && v < own_; ++v, to += apart_) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
          ptx::cp_async<16>(places_.pointer(to + k * input_), from[k]);
          from[k] += place.step * inputs[k].pitch;
        }
      }
      ptx::cp_async_commit_group();
    }
  }
  // Of a block's dynamic shared memory behind the places: sums, and numbers of the channels.
  __device__ __forceinline__ SharedSpan<Sums> scratch() const {
    return {reinterpret_cast<Sums*>(places_.pointer(elements(place_.plan))),
            place_.plan.sums(kThreads)};
  }
  __device__ __forceinline__ SharedSpan<float> parameters(int of_channel) const {
    return {reinterpret_cast<float*>(scratch().pointer(place_.plan.sums(kThreads))),
            int64_t{of_channel} * place_.plan.columns()};
  }
  // Of the first input, where this thread has a row.
  __device__ __forceinline__ Packed first_row() const {
    wait_for(1);
    return own_ > 0 ? loaded(at_).x[0] : Packed{};
  }
  // f(x), x of each input, for every row of this thread, as they come.
  template <class F>
  __device__ __forceinline__ void first_pass(const F& f) const {
    int v = 0;
    int at = at_;
#pragma unroll 1
    for (int b = 1; b <= kBatches; ++b) {
      wait_for(b);
#pragma unroll 1
      for (; v < b * batch_ && v < own_; ++v, at += apart_) f(loaded(at).x);
    }
  }
  // f(x), a vector of `out`, for every row.
  template <class F>
  __device__ __forceinline__ void second_pass(const Samples<T>& out, const F& f) const {
    T* to = out.row(place_.sample, place_.first) + place_.channel;
    int at = at_;
#pragma unroll 1
    for (int v = 0; v < own_; ++v, at += apart_) {
      thread::store(to, f(loaded(at).x));
      to += place_.step * out.pitch;
    }
  }

 private:
  // The first `count` batches.
  __device__ __forceinline__ static void wait_for(int count) {
    static_assert(kBatches == 4);
    switch (count) {
      case 1: return ptx::cp_async_wait_group<3>();
      case 2: return ptx::cp_async_wait_group<2>();
      case 3: return ptx::cp_async_wait_group<1>();
      default: return ptx::cp_async_wait_group<0>();
    }
  }
  struct Loaded {
    Packed x[kInputs];
  };
  __device__ __forceinline__ Loaded loaded(int at) const {
    Loaded loaded;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      loaded.x[k] = std::bit_cast<Packed>(places_.template load<kWidth>(at + k * input_));
    }
    return loaded;
  }

  SharedSpan<T> places_;
  const SpanPlace<T, kThreads>& place_;
  int own_;    // rows
  int batch_;  // that are waited for together
  int at_;     // the first's place
  int apart_;  // from place to place
  int input_;  // from input to input
};

// The sum of what stands at the same place in all blocks of a cluster, in their order.
__device__ __forceinline__ Sums total_of_cluster(const Sums* at) {
  Sums total = Sums::none();
#pragma unroll 4
  for (int rank = 0; rank < cluster_size(); ++rank) {
    total = PlusSums{}(total, ptx::ld_shared_cluster<Sums>(ptx::map_shared_rank(at, rank)));
  }
  return total;
}

#endif

// Blocks that keep kInputs tensors, kMinBlocks of them an SM: some load while others write.
template <int kInputs_, int kMinBlocks_, int kThreads_>
struct SpanShape {
  static constexpr int kInputs = kInputs_;
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr size_t kUsed =
      SpanPlan::kMostGroups * (kInputs == 1 ? 20 : 24);  // by what a kernel has of its own
  // Gradients in clusters of more are slower than in two passes. H200 2026-12-01, us, bf16 32 x 64
  // x 12544 in 64 groups 91.3 and 85.2, f32 145.9 and 142.6, 1 x 512 x 25088 in 512 62.9 and 45.8.
  static constexpr int kMostParts = kInputs == 1 ? cluster::kMaxBlocks : 8;
  static constexpr int64_t kParameters = kInputs == 1 ? 2 : 1;  // of a channel
  static_assert(kThreads >= SpanPlan::kMostGroups);

  // Of a block's dynamic shared memory.
  static size_t room() {
    constexpr size_t kReserved = 1024;  // by the system, of each block
    const auto all = static_cast<size_t>(device_facts().shared_bytes) + kReserved;
    return all / kMinBlocks < kReserved + kUsed ? 0 : all / kMinBlocks - kReserved - kUsed;
  }
  static size_t bytes(const SpanPlan& plan) {
    const int64_t vectors = int64_t{kInputs} * plan.share * plan.vectors;
    const int64_t floats = 2 * plan.sums(kThreads) + kParameters * plan.columns();
    return static_cast<size_t>(16 * vectors + 4 * floats);
  }
};

// The shape and the cut of a call; parts are the blocks of a cluster. What a call takes, in us, is
// its bytes at the rate of a copy and what each wave of blocks takes beside; idle lanes and parts
// of lines of 128 bytes cost some more. H200 2026-12-01, 17 shapes in both directions, f32 and
// bf16: the cut that this chooses takes 4 % more in the mean than the best that was tried, 30 % at
// most.
struct SpanChoice {
  SpanPlan plan;
  int shape = -1;  // none holds a span
  double us = 0;

  template <class Shape>
  void consider(const Layout& layout, DType dtype, int shape_number) {
    SpanPlan::each(layout, dtype, Shape::kThreads, [&](const SpanPlan& of) {
      // The least that hold a span, and a few more.
      int more = 3;
      for (int parts = 1; parts <= Shape::kMostParts && more > 0; ++parts) {
        const SpanPlan cut = of.in_parts(parts);
        if (cut.parts != parts || Shape::bytes(cut) > Shape::room()) continue;
        if (cut.blocks(layout) > kMostBlocks) return;
        --more;
        const double here = estimate<Shape>(cut, static_cast<double>(cut.blocks(layout)));
        if (shape >= 0 && here >= us) continue;
        us = here;
        plan = cut;
        shape = shape_number;
      }
    });
  }

 private:
  template <class Shape>
  static double estimate(const SpanPlan& plan, double blocks) {
    constexpr double kRate = 4.2e6;  // bytes a us
    constexpr double kOfWave = 2.0;
    constexpr double kOfCluster = 0.5;
    constexpr double kOfLine = 0.4;
    // Clusters leave SMs idle: of 528 places 496 are taken by those of up to 8 blocks.
    const double places = plan.parts == 1 ? 1 : plan.parts <= 8 ? 0.94 : 0.75;
    const double resident = places * Shape::kMinBlocks * device_facts().multiprocessors;
    const double bytes =
        blocks * plan.share * plan.vectors * 16 * (Shape::kInputs + 1);  // and the output
    const double busy = plan.busy() / static_cast<double>(kWarpSize);
    const double line = std::min(plan.vectors, 8) / 8.0;
    const double waves = std::max(1.0, std::ceil(blocks / resident - 0.02));
    return bytes / kRate / std::sqrt(busy) * (1 + kOfLine * (1 - line)) +
           waves * (kOfWave + (plan.parts > 1 ? kOfCluster : 0));
  }
};

template <int kInputs>
struct SpanShapes {
  using Small = SpanShape<kInputs, 4, 256>;
  using Large = SpanShape<kInputs, 2, 256>;

  static SpanChoice choice(const Layout& layout, DType dtype) {
    SpanChoice choice;
    choice.consider<Small>(layout, dtype, 0);
    choice.consider<Large>(layout, dtype, 1);
    return choice;
  }
};

#if WS_DEVICE_CODE

// The rung of a kernel: Kernel::arguments(call, plan, context) gives what is launched.
template <class Call, int kInputs, template <class, class> class Kernel>
struct GroupsOnChip {
  using Shapes = SpanShapes<kInputs>;

  static bool supports(const Call& call, Why& why) {
    return SpanPlan::supported(call.layout, call.dtype, why) &&
           why.unless(Shapes::choice(call.layout, call.dtype).shape >= 0,
                      "takes samples of which a cluster holds groups that are whole vectors");
  }
  template <class T, class Shape>
  static void launch_on(const Call& call, const SpanPlan& plan, const Context& context) {
    using ThisKernel = Kernel<T, Shape>;
    static_assert(sizeof(typename ThisKernel::SharedStorage) <= Shape::kUsed);
    launch<ThisKernel>({.blocks = plan.blocks(call.layout),
                        .threads = Shape::kThreads,
                        .cluster = plan.parts,
                        .dynamic_shared = Shape::bytes(plan)},
                       context.stream, ThisKernel::arguments(call, plan, context));
  }
  static void run(const Call& call, const Context& context) {
    const SpanChoice choice = Shapes::choice(call.layout, call.dtype);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (choice.shape == 0) {
        launch_on<T, typename Shapes::Small>(call, choice.plan, context);
      } else {
        launch_on<T, typename Shapes::Large>(call, choice.plan, context);
      }
    });
  }
};

#endif

}  // namespace ws::batch_norm
