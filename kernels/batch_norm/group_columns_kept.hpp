// Spans of groups (group_columns.hpp) that the blocks of a cluster keep in shared memory, rows of
// them each. A thread has a place of its own for each vector, which it copies there by cp.async: it
// waits for its own copies only, and nothing guards the places. Blocks send each other what they
// have found of each group, and each adds up those of all in their order.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/batch_norm/group_columns.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/mbarrier.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

// The rows of a thread, of each input.
template <class T, int kInputs>
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
                                      const SpanPlace<T>& place,
                                      const Samples<const T> (&inputs)[kInputs])
      : places_(places), place_(place) {
    const SpanPlan& plan = place.plan;
    own_ = place.rows();
    batch_ = divide_up(plan.most, kBatches);
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
  // Of a block's dynamic shared memory behind the places: sums, letters, numbers of the channels.
  __device__ __forceinline__ SharedSpan<Sums> scratch() const {
    return {reinterpret_cast<Sums*>(places_.pointer(elements(place_.plan))), place_.plan.sums()};
  }
  __device__ __forceinline__ SharedSpan<Sums> letters() const {
    return {scratch().pointer(place_.plan.sums()), place_.plan.letters()};
  }
  __device__ __forceinline__ SharedSpan<float> parameters(int of_channel) const {
    return {reinterpret_cast<float*>(letters().pointer(place_.plan.letters())),
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
#pragma unroll 2
      for (; v < b * batch_ && v < own_; ++v, at += apart_) f(loaded(at).x);
    }
  }
  // f(x), a vector of `out`, for every row.
  template <class F>
  __device__ __forceinline__ void second_pass(const Samples<T>& out, const F& f) const {
    T* to = out.row(place_.sample, place_.first) + place_.channel;
    int at = at_;
#pragma unroll 2
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
  const SpanPlace<T>& place_;
  int own_;    // rows
  int batch_;  // that are waited for together
  int at_;     // the first's place
  int apart_;  // from place to place
  int input_;  // from input to input
};

// What the blocks of a cluster tell each other of their groups, a letter of each to all. A block
// leaves when it has those of all, and with them all that is sent to it.
template <class T>
class GroupLetters {
 public:
  struct Storage {
    ptx::Mbarrier arrived;
  };

  // By all threads of the cluster, who meet in meet(): before, no block may be sent anything.
  __device__ __forceinline__ GroupLetters(Storage& storage, const SharedSpan<Sums>& letters,
                                          const SpanPlace<T>& place)
      : storage_(storage), letters_(letters), place_(place) {
    if (thread_index() == 0) {
      ptx::mbarrier_init(storage.arrived, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(
          storage.arrived, static_cast<uint32_t>(blocks() * place.groups() * sizeof(Sums)));
    }
    ptx::syncwarp();
    ptx::cluster_arrive_relaxed();
  }
  __device__ __forceinline__ static void meet() { ptx::cluster_wait(); }
  // By the team of a group, which is of a power of two lanes.
  __device__ __forceinline__ void send(int g, int lane, const Sums& letter) const {
    const int slot = place_.part * place_.plan.groups + g;
    if (blocks() == 1) {  // st.async is for others
      if (lane == 0) letters_[slot] = letter;
      return;
    }
    for (int rank = lane; rank < blocks(); rank += 1 << place_.plan.team) {
      ptx::st_async(ptx::map_shared_rank(letters_.pointer(slot), rank), letter,
                    ptx::map_shared_rank(&storage_.arrived, rank));
    }
  }
  // f(g), by a thread for each group of the span, when all letters are there; when it returns all
  // threads see what f has left.
  template <class F>
  __device__ __forceinline__ void receive(const F& f) const {
    if (blocks() == 1) ptx::barrier_sync();
    const int g = thread_index();
    if (g < place_.groups()) {
      if (blocks() > 1) ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(storage_.arrived, 0);
      f(g);
    }
    ptx::barrier_sync();
  }
  // each(part, letter) for those of a group, in their order.
  template <class Each>
  __device__ __forceinline__ void each(int g, const Each& each) const {
#pragma unroll 4
    for (int part = 0; part < blocks(); ++part) {
      const Sums letter = letters_[part * place_.plan.groups + g];
      each(part, letter);
    }
  }

 private:
  __device__ __forceinline__ int blocks() const { return place_.plan.count(); }

  Storage& storage_;
  SharedSpan<Sums> letters_;
  const SpanPlace<T>& place_;
};

#endif

// Blocks that keep kInputs tensors, kMinBlocks of them an SM: some load while others write.
template <int kInputs_, int kMinBlocks_>
struct SpanShape {
  static constexpr int kInputs = kInputs_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr size_t kUsed =
      SpanPlan::kMostGroups * (kInputs == 1 ? 12 : 16) + 128;  // by what a kernel has of its own
  // Gradients in clusters of more are slower than in two passes. H200 2026-12-01, us, bf16 32 x 64
  // x 12544 in 64 groups 91.3 and 85.2, f32 145.9 and 142.6, 1 x 512 x 25088 in 512 62.9 and 45.8.
  static constexpr int kMostParts = kInputs == 1 ? cluster::kMaxBlocks : 8;
  static constexpr int64_t kParameters = kInputs == 1 ? 2 : 1;  // of a channel
  static_assert(SpanPlan::kThreads >= SpanPlan::kMostGroups);

  // Of a block's dynamic shared memory.
  static size_t room() {
    constexpr size_t kReserved = 1024;  // by the system, of each block
    const auto all = static_cast<size_t>(device_facts().shared_bytes) + kReserved;
    return all / kMinBlocks < kReserved + kUsed ? 0 : all / kMinBlocks - kReserved - kUsed;
  }
  static size_t bytes(const SpanPlan& plan) {
    const int64_t vectors = int64_t{kInputs} * plan.share * plan.vectors;
    const int64_t floats = 2 * (plan.sums() + plan.letters()) + kParameters * plan.columns();
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
    SpanPlan::each(layout, dtype, [&](const SpanPlan& of) {
      // The least that hold a span, and a few more.
      int more = 3;
      for (int parts = 1; parts <= Shape::kMostParts && more > 0; ++parts) {
        const SpanPlan cut = of.in_parts(parts);
        if (cut.count() != parts || Shape::bytes(cut) > Shape::room()) continue;
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
    const double places = plan.count() == 1 ? 1 : plan.count() <= 8 ? 0.94 : 0.75;
    const double resident = places * Shape::kMinBlocks * device_facts().multiprocessors;
    const double bytes =
        blocks * plan.share * plan.vectors * 16 * (Shape::kInputs + 1);  // and the output
    const double busy = plan.busy() / static_cast<double>(kWarpSize);
    const double line = std::min(plan.vectors, 8) / 8.0;
    const double waves = std::max(1.0, std::ceil(blocks / resident - 0.02));
    return bytes / kRate / std::sqrt(busy) * (1 + kOfLine * (1 - line)) +
           waves * (kOfWave + (plan.count() > 1 ? kOfCluster : 0));
  }
};

template <int kInputs>
struct SpanShapes {
  using Small = SpanShape<kInputs, 4>;
  using Large = SpanShape<kInputs, 2>;

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
                        .threads = SpanPlan::kThreads,
                        .cluster = plan.count(),
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
