// Spans of groups (group_columns.hpp) that the blocks of a cluster keep in shared memory, rows of
// them each, which bulk tensor copies bring, a box of rows after the other. Blocks send each other
// what they have found of each group, and each adds up those of all in their order.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/batch_norm/group_columns.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/special_register.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::batch_norm {

// A span in parts of whole boxes. What a copy moves is 256 rows at most, and numbers of 8 bytes, of
// which 256 are 2 KiB of a row.
struct KeptPlan : SpanPlan {
  static constexpr int kMostVectors = 128;
  // Of narrower spans neighbours share what memory reads at once. H200 2026-12-02, us, gradient of
  // 32 x 64 x 12544 in 64 groups, 16 bytes and 64: bf16 107 and 61, f32 218 and 97.
  static constexpr int kLeastVectors = 4;
  static constexpr int kMostBoxes = 32;
  static constexpr int kMostRows = 256;

  int box = 1;       // rows
  int boxes = 1;     // of a part
  int resident = 0;  // clusters that begin together, in so many steps ...
  int steps = 1;
  int step_clocks = 0;  // ... so long after each other

  // With `wanted` parts or fewer, whose boxes are a few, so that sums begin before all have come.
  static KeptPlan of(const SpanPlan& span, int64_t wanted) {
    constexpr int kRows = 8;  // boxes start at multiples of 128 bytes
    const int share = std::max(divide_up(span.rows, static_cast<int>(wanted)), 1);
    const int least = divide_up(share, kMostRows);
    KeptPlan plan;
    int best = std::numeric_limits<int>::max();
    for (int boxes = std::max(least, std::min(4, divide_up(share, 32))); boxes <= least + 7;
         ++boxes) {
      const int box = round_up(divide_up(share, boxes), kRows);
      if (box > kMostRows || box * boxes >= best) continue;
      best = box * boxes;
      plan.box = box;
      plan.boxes = boxes;
    }
    static_cast<SpanPlan&>(plan) = span.in_shares(int64_t{plan.box} * plan.boxes);
    return plan;
  }
  static bool takes(const SpanPlan& span) {
    return span.vectors >= std::min(span.of_row, kLeastVectors) && span.vectors <= kMostVectors;
  }
  bool fits() const { return boxes <= kMostBoxes; }
  int64_t bytes() const { return int64_t{16} * share * vectors; }  // of an input

  // Of rows of 8-byte numbers.
  template <class T>
  ptx::TensorMap map(const Samples<const T>& from, const Layout& layout) const {
    constexpr int64_t kNumber = 8 / sizeof(T);
    return ptx::make_tensor_map_3d(reinterpret_cast<const uint64_t*>(from.data),
                                   {layout.sets / layout.per, from.sample / kNumber}, rows,
                                   layout.channels() / kNumber, from.pitch / kNumber, box,
                                   vectors * 2, ptx::Swizzle::kNone);
  }
};

#if WS_DEVICE_CODE

// The rows of a thread, of each input.
template <class T, int kInputs>
class KeptSpan {
 public:
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  struct Storage {
    ptx::Mbarrier arrived[KeptPlan::kMostBoxes];
  };

  // Elements that `places` has.
  __host__ __device__ __forceinline__ static int64_t elements(const KeptPlan& plan) {
    return int64_t{kInputs} * plan.share * plan.vectors * kWidth;
  }
  // Asks for all rows. The block meets before it waits for one.
  __device__ __forceinline__ KeptSpan(Storage& storage, const SharedSpan<T>& places,
                                      const KeptPlan& plan, const SpanPlace<T>& place,
                                      const ptx::TensorMap (&inputs)[kInputs])
      : storage_(storage), places_(places), plan_(plan), place_(place) {
    apart_ = place.step * plan.vectors * kWidth;
    input_ = plan.share * plan.vectors * kWidth;
    at_ = ((place.first - place.begin) * plan.vectors + place.vector) * kWidth;
    if (thread_index() != 0) return;
    wait_for_turn();
    for (int b = 0; b < plan.boxes; ++b) ptx::mbarrier_init(storage.arrived[b], 1);
    ptx::fence_mbarrier_init();
    for (int b = 0; b < plan.boxes; ++b) {
      ptx::mbarrier_arrive_expect_tx(storage.arrived[b],
                                     static_cast<uint32_t>(16 * kInputs * plan.box * plan.vectors));
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        ptx::tensor_load_3d(places.pointer(k * input_ + b * plan.box * plan.vectors * kWidth),
                            inputs[k], storage.arrived[b], place.span * plan.vectors * 2,
                            place.begin + b * plan.box, place.sample);
      }
    }
  }
  // Of a block's dynamic shared memory behind the places: sums, letters, numbers of the channels.
  __device__ __forceinline__ SharedSpan<Sums> scratch() const {
    return {reinterpret_cast<Sums*>(places_.pointer(elements(plan_))), plan_.sums()};
  }
  __device__ __forceinline__ SharedSpan<Sums> letters() const {
    return {scratch().pointer(plan_.sums()), plan_.letters()};
  }
  __device__ __forceinline__ SharedSpan<float> parameters(int of_channel) const {
    return {reinterpret_cast<float*>(letters().pointer(plan_.letters())),
            int64_t{of_channel} * plan_.columns()};
  }
  // Of the first input, where this thread has a row.
  __device__ __forceinline__ Packed first_row() const {
    if (!place_.has_rows()) return Packed{};
    for (int b = 0; b * plan_.box <= place_.first - place_.begin; ++b) wait_for(b);
    return loaded(at_).x[0];
  }
  // f(x), x of each input, for every row of this thread, as they come.
  template <class F>
  __device__ __forceinline__ void first_pass(const F& f) const {
    int row = place_.first;
    int at = at_;
#pragma unroll 1
    for (int b = 0; b < plan_.boxes; ++b) {
      wait_for(b);
      const int end = last(place_.begin + (b + 1) * plan_.box);
#pragma unroll 2
      for (; row < end; row += place_.step, at += apart_) f(loaded(at).x);
    }
  }
  // f(x), a vector of `out`, for every row.
  template <class F>
  __device__ __forceinline__ void second_pass(const Samples<T>& out, const F& f) const {
    T* to = out.row(place_.sample, place_.first) + place_.channel;
    const int64_t step = place_.step * out.pitch;
    const int end = last(place_.end);
    int at = at_;
#pragma unroll 2
    for (int row = place_.first; row < end; row += place_.step, at += apart_) {
      thread::store(to, f(loaded(at).x));
      to += step;
    }
  }

 private:
  // Blocks of an SM that began at once would all load, then all add up, then all write. So each of
  // the first asks for its rows when those before it could have theirs: memory is as busy, and from
  // then on one loads while another writes.
  __device__ __forceinline__ void wait_for_turn() const {
    const int cluster = place_.nth;
    if (cluster >= plan_.resident) return;
    const int64_t clocks = int64_t{cluster * plan_.steps / plan_.resident} * plan_.step_clocks;
    const int64_t begin = ptx::clock64();
    while (ptx::clock64() - begin < clocks) {
    }
  }
  // Boxes stay when they have come.
  __device__ __forceinline__ void wait_for(int b) const {
    ptx::mbarrier_wait_parity(storage_.arrived[b], 0);
  }
  // The end of this thread's rows, if it is not before.
  __device__ __forceinline__ int last(int row) const {
    if (!place_.mine) return 0;
    return row < place_.end ? row : place_.end;
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

  Storage& storage_;
  SharedSpan<T> places_;
  const KeptPlan& plan_;
  const SpanPlace<T>& place_;
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
      SpanPlan::kMostGroups * (kInputs == 1 ? 12 : 16) + 512;   // by what a kernel has of its own
  static constexpr int64_t kParameters = kInputs == 1 ? 2 : 1;  // of a channel
  static_assert(SpanPlan::kThreads >= SpanPlan::kMostGroups);

  // Of a block's dynamic shared memory.
  static size_t room() {
    constexpr size_t kReserved = 1024;  // by the system, of each block
    const auto all = static_cast<size_t>(device_facts().shared_bytes) + kReserved;
    return all / kMinBlocks < kReserved + kUsed ? 0 : all / kMinBlocks - kReserved - kUsed;
  }
  static size_t bytes(const KeptPlan& plan) {
    const int64_t floats = 2 * (plan.sums() + plan.letters()) + kParameters * plan.columns();
    return static_cast<size_t>(kInputs * plan.bytes() + 4 * floats);
  }
};

// The shape and the cut of a call; parts are the blocks of a cluster. Cuts are compared by a cost,
// in about us: bytes at the rate of a copy, more of idle lanes and of parts of lines of 128 bytes;
// and what a block does between its last row's coming and its first row's going, most of it in each
// wave of blocks. H200 2026-12-02, 12 shapes in both directions, bf16 and f32: the cut of least
// cost takes 2.5 % more in the mean than the best that was tried, 12 % at most.
struct SpanChoice {
  KeptPlan plan;
  int shape = -1;  // none holds a span
  double least = 0;

  template <class Shape>
  void consider(const Layout& layout, DType dtype, int shape_number) {
    const auto room = static_cast<int64_t>(Shape::room());
    if (room == 0) return;
    SpanPlan::each(layout, dtype, [&](const SpanPlan& of) {
      if (!KeptPlan::takes(of)) return;
      // The least that hold a span, and a few more.
      int more = 3;
      const int64_t fewest = divide_up(Shape::kInputs * of.bytes_of_rows(), room);
      for (int64_t parts = fewest; parts <= cluster::kMaxBlocks && more > 0; ++parts) {
        const KeptPlan cut = KeptPlan::of(of, parts);
        if (cut.count() != parts || !cut.fits() || Shape::bytes(cut) > Shape::room()) continue;
        if (cut.blocks(layout) > kMostBlocks) return;
        --more;
        const double here = cost<Shape>(cut, dtype, static_cast<double>(cut.all_spans(layout)));
        if (shape >= 0 && here >= least) continue;
        least = here;
        plan = cut;
        shape = shape_number;
      }
    });
  }

 private:
  template <class Shape>
  static double cost(const KeptPlan& plan, DType dtype, double spans) {
    constexpr double kRate = 4.2e6;  // bytes a us
    constexpr double kOfLine = 1.8;
    constexpr double kOfBlock = 1.0;
    constexpr double kOfCluster = 2.5;
    constexpr double kOfVector = 0.32;  // of a thread, of 16 bits
    constexpr double kOfWave = 1.75;    // of those behind the first
    // Clusters leave SMs idle.
    const double places = plan.count() == 1 ? 1 : plan.count() <= 8 ? 0.87 : 0.66;
    const double resident = places * Shape::kMinBlocks * device_facts().multiprocessors;
    const double bytes = spans * static_cast<double>(plan.bytes_of_rows()) * (Shape::kInputs + 1);
    const double busy = plan.busy() / static_cast<double>(kWarpSize);
    const double line = std::min(plan.vectors, 8) / 8.0;
    const double waves = std::max(1.0, std::ceil(spans * plan.count() / resident - 0.02));
    const double vectors =
        static_cast<double>(plan.share) * plan.vectors * Shape::kInputs / SpanPlan::kThreads;
    const double of_block = kOfBlock + (plan.count() > 1 ? kOfCluster : 0) +
                            kOfVector * vectors * (dtype == DType::kF32 ? 0.5 : 1);
    return bytes / kRate / std::sqrt(busy) * (1 + kOfLine * (1 - line)) +
           of_block * (1 + kOfWave * (waves - 1));
  }
};

template <int kInputs>
struct SpanShapes {
  using Small = SpanShape<kInputs, 4>;
  using Large = SpanShape<kInputs, 2>;
  using Whole = SpanShape<kInputs, 1>;

  static SpanChoice choice(const Layout& layout, DType dtype) {
    SpanChoice choice;
    choice.consider<Small>(layout, dtype, 0);
    choice.consider<Large>(layout, dtype, 1);
    choice.consider<Whole>(layout, dtype, 2);
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
           why.unless(
               call.layout.sets == call.layout.per ||
                   *std::ranges::min_element(call.layout.sample.begin(),
                                             call.layout.sample.begin() + call.layout.operands) > 0,
               "takes samples that do not share memory") &&
           why.unless(Shapes::choice(call.layout, call.dtype).shape >= 0,
                      "takes samples of which a cluster holds groups that are whole vectors in 64 "
                      "to 2048 bytes of a row");
  }
  template <class T, class Shape>
  static void launch_on(const Call& call, KeptPlan plan, const Context& context) {
    constexpr int64_t kBytes = 20;  // that an SM reads in a clock
    using ThisKernel = Kernel<T, Shape>;
    static_assert(sizeof(typename ThisKernel::SharedStorage) <= Shape::kUsed);
    const Grid grid{.blocks = plan.blocks(call.layout),
                    .threads = SpanPlan::kThreads,
                    .cluster = plan.count(),
                    .dynamic_shared = Shape::bytes(plan)};
    plan.resident = static_cast<int>(resident_clusters<ThisKernel>(grid));
    plan.steps = Shape::kMinBlocks;
    plan.step_clocks = static_cast<int>(kInputs * plan.bytes() / kBytes);
    launch<ThisKernel>(grid, context.stream, ThisKernel::arguments(call, plan, context));
  }
  static void run(const Call& call, const Context& context) {
    const SpanChoice choice = Shapes::choice(call.layout, call.dtype);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      switch (choice.shape) {
        case 0: return launch_on<T, typename Shapes::Small>(call, choice.plan, context);
        case 1: return launch_on<T, typename Shapes::Large>(call, choice.plan, context);
        default: return launch_on<T, typename Shapes::Whole>(call, choice.plan, context);
      }
    });
  }
};

#endif

}  // namespace ws::batch_norm
