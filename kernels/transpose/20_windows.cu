// Idea: where the inner dimensions of y are a piece of x of up to 4 KiB, a block brings such pieces
//   as they lie, and threads pick what they write from shared memory.
// From any_layout: loads and stores are of 16 bytes, and where a thread finds its elements is
//   computed once a block: it has the same place in every window.
// Traffic: every byte once, in pieces of whole windows.
// Limits: windows of 16 bytes to 4 KiB, whole vectors of 16, that start at multiples of 16 in x; y
//   in one piece, up to 2^31 windows.
// Long: a swizzle for windows of any loops.
#include "kernels/transpose/plan.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::transpose {
namespace {

constexpr int kPiece = WindowPlan::kPiece;
constexpr int kThreads = WindowPlan::kMostPieces;
constexpr int kBanks = 8;  // that a piece lies in one of

// Pieces from a window's place in shared memory to the next one's: whole rows of banks, which the
// swizzle needs; of less than one it leaves all pieces where they are.
__host__ __device__ constexpr uint32_t pitch_of(uint32_t pieces) {
  return pieces < kBanks ? pieces : round_up(pieces, uint32_t{kBanks});
}

template <class T>
struct WindowsKernel {
  static constexpr int kThreads = transpose::kThreads;
  static constexpr int kMinBlocks = 4;
  // Windows of a thread: what is known once a block is a load and a store each, and as much as its
  // elements are small to find.
  static constexpr int kPasses = sizeof(T) == 1 ? 8 : sizeof(T) == 2 ? 4 : 2;
  static constexpr int kOfPiece = kPiece / static_cast<int>(sizeof(T));
  struct Arguments {
    const T* x;
    T* y;
    uint32_t count;          // of windows
    uint32_t of_pass;        // windows that a block has at once
    thread::Divider pieces;  // of a window
    thread::Divider turn;    // pieces from what y has in a vector to what it has in the next
    int inner;               // loops of a window
    int outer;               // and around it; innermost first
    thread::Divider extents[kMaxRank];
    int64_t strides[kMaxRank];

    Arguments(const Permutation& call, const WindowPlan& windows)
        : x(static_cast<const T*>(call.x)),
          y(static_cast<T*>(call.y)),
          count(static_cast<uint32_t>(windows.count)),
          of_pass(static_cast<uint32_t>(kThreads / windows.pieces)),
          pieces(windows.pieces),
          turn(call.inner().strides[kX]),
          inner(windows.loops),
          outer(call.rank - windows.loops) {
      for (size_t i = 0; i < call.rank; ++i) {
        const Loop& loop = call.loops[call.rank - 1 - i];
        extents[i] = thread::Divider(loop.extent);
        strides[i] = loop.strides[kX];
      }
    }
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto thread = static_cast<uint32_t>(thread_index());
    const uint32_t pieces = a.pieces.divisor();
    const uint32_t pitch = pitch_of(pieces);
    const uint32_t window = a.pieces.quotient(thread);
    const uint32_t piece = thread - window * pieces;
    const bool is_busy = window < a.of_pass;
    const SharedSpan<T> held =
        dynamic_shared<T>(shared, int64_t{kPasses} * a.of_pass * pitch * kOfPiece);
    const uint32_t first = static_cast<uint32_t>(block_index()) * kPasses * a.of_pass + window;

#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const uint32_t from = first + pass * a.of_pass;
      if (!is_busy || from >= a.count) break;
      const uint32_t to = (pass * a.of_pass + window) * pitch + swizzled(a, piece);
      ptx::cp_async<kPiece>(held.pointer(to * kOfPiece),
                            a.x + start_of(a, from) + int64_t{piece} * kOfPiece);
    }
    ptx::cp_async_commit_group();

    uint32_t at[kOfPiece];
#pragma unroll
    for (int e = 0; e < kOfPiece; ++e) at[e] = place_of(a, piece * kOfPiece + e);
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();

#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const uint32_t to = first + pass * a.of_pass;
      if (!is_busy || to >= a.count) break;
      const uint32_t base = (pass * a.of_pass + window) * pitch * kOfPiece;
      Vec<T, kOfPiece> values;
#pragma unroll
      for (int e = 0; e < kOfPiece; ++e) values[e] = held[base + at[e]];
      thread::store(a.y + (int64_t{to} * pieces + piece) * kOfPiece, values);
    }
  }

 private:
  // Neighbours along y's inner loop look up pieces that are `turn` apart in x: they come to banks
  // that are one apart. Eight pieces that lie in a row trade places among themselves.
  static __device__ __forceinline__ uint32_t swizzled(const Arguments& a, uint32_t piece) {
    constexpr uint32_t kMask = kBanks - 1;
    return piece ^ (a.turn.quotient(piece & ~kMask) & kMask);
  }
  // Where element i of a window of y lies in that of x.
  static __device__ __forceinline__ uint32_t place_of(const Arguments& a, uint32_t i) {
    uint32_t from = 0;
#pragma unroll
    for (int loop = 0; loop < kMaxRank; ++loop) {
      if (loop == a.inner) break;
      const uint32_t rest = a.extents[loop].quotient(i);
      from += (i - rest * a.extents[loop].divisor()) * static_cast<uint32_t>(a.strides[loop]);
      i = rest;
    }
    return swizzled(a, from / kOfPiece) * kOfPiece + from % kOfPiece;
  }
  static __device__ __forceinline__ int64_t start_of(const Arguments& a, uint32_t window) {
    int64_t from = 0;
#pragma unroll
    for (int loop = 0; loop < kMaxRank; ++loop) {
      if (loop < a.inner) continue;
      if (loop == a.inner + a.outer) break;
      const uint32_t rest = a.extents[loop].quotient(window);
      from += (window - rest * a.extents[loop].divisor()) * a.strides[loop];
      window = rest;
    }
    return from;
  }
};

struct OfWindows {
  static bool supports(const Permutation& call, Why& why) {
    constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
    const WindowPlan windows = plan_windows(call);
    return why.unless(windows.count > 0,
                      "takes a contiguous y whose inner dimensions are a piece of x of up to ",
                      kPiece * kThreads, " bytes, whole vectors of ", kPiece) &&
           why.unless(windows.count < kMost, "takes up to ", kMost, " pieces, not ", windows.count);
  }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() { run_as<T>(call, context.stream); });
  }

 private:
  template <class T>
  static void run_as(const Permutation& call, Stream stream) {
    using Kernel = WindowsKernel<T>;
    const WindowPlan windows = plan_windows(call);
    const int pieces = windows.pieces;
    const int of_pass = kThreads / windows.pieces;
    launch<Kernel>({.blocks = divide_up(windows.count, int64_t{Kernel::kPasses} * of_pass),
                    .threads = kThreads,
                    .dynamic_shared = static_cast<size_t>(Kernel::kPasses) * of_pass *
                                      pitch_of(static_cast<uint32_t>(pieces)) * kPiece},
                   stream, typename Kernel::Arguments(call, windows));
  }
};

}  // namespace

extern const Rung kWindows;
constinit const Rung kWindows = rung_of<OfWindows, Transpose, Permute>({
    .name = "windows",
    .from = "any_layout",
    .idea = "small pieces of x come whole, and are put in y's order from shared memory",
});

}  // namespace ws::transpose
