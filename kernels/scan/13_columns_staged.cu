// Idea: what waits for the totals above it waits in shared memory. A thread copies its rows there
// (cp.async), up to three times as many as it has registers for, and reads them twice.
// From columns: more bytes are on their way, and a third of the tiles are a third of the chain from
// band to band, which is all that a narrow matrix waits for.
// Traffic: as columns; 8 bytes a column and tile are a third of those.
// Limits: whole vectors of columns; small matrices have too few tiles of that size, and take
// smaller ones.
#include "kernels/scan/11_columns.cuh"
#include "kernels/scan/walk.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {
namespace {

constexpr int kBytes = 113 * 1024;  // of the largest kernel: two are on an SM

// Of a block, and blocks an SM.
template <int kThreads_, int kRows_, int kMinBlocks_>
struct StagedShape {
  static constexpr int kThreads = kThreads_;
  static constexpr int kRows = kRows_;  // of a thread
  static constexpr int kMinBlocks = kMinBlocks_;
};
// H200 2026-12-01, logcumsumexp of 16384 x 4096, % of copy: f32 512 x 12 81, 256 x 16 79, 256 x 12
// at four blocks 72; bf16 256 x 12 54, 256 x 16 at two blocks 53, 512 x 8 50, 256 x 8 at four 48.
// Sums of f32: 512 x 12 and 256 x 24 87, 256 x 12 at four 85. Of values of 8 bytes none was
// compared.
template <class Monoid>
struct StagedShapeOf {
  static constexpr bool kIsWide = sizeof(typename Monoid::Accumulator) == 8;
  using Sums = std::conditional_t<kIsWide, StagedShape<256, 16, ColumnsKernel<Monoid>::kMinBlocks>,
                                  StagedShape<512, 12, 2>>;
  using Logarithms = std::conditional_t<row::kWidest<typename Monoid::Element> == 8,
                                        StagedShape<256, 12, 3>, StagedShape<512, 12, 2>>;
  using Chosen = std::conditional_t<kSumsExponentials<Monoid>, Logarithms, Sums>;
};

template <class Monoid, class Shape = typename StagedShapeOf<Monoid>::Chosen>
struct StagedColumnsKernel {
  using Element = typename Monoid::Element;
  using Result = typename Monoid::Result;
  using Accumulator = typename Monoid::Accumulator;
  using Walk = ColumnWalk<Monoid>;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr int kWidth = Walk::kWidth;
  static constexpr int kRows = Shape::kRows;
  using Arguments = ColumnsArguments<Monoid>;
  using Tile = ColumnsTile<Monoid, kThreads, kWidth>;
  struct SharedStorage {
    SharedArray<Element, kRows * kThreads * kWidth, 128> rows;
    typename Tile::Totals totals;
    SharedArray<uint32_t, 1> drawn;
  };
  static_assert(sizeof(SharedStorage) <= kBytes);

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const uint32_t item = a.look_back.tiles == 1 ? static_cast<uint32_t>(block_index())
                                                 : a.look_back.draw(shared.drawn);
    const Tile tile(a, item, a.each);
    // Places are a thread's own: nobody waits for another's copies.
    const auto place = [&](int r) { return (r * kThreads + thread_index()) * kWidth; };
    const auto row = [&](int r) {
      return std::bit_cast<Packed<Element>>(shared.rows.template load<kWidth>(place(r)));
    };
#pragma unroll 4
    for (int r = 0; r < a.each; ++r) {
      if (tile.is_mine(r)) {
        ptx::cp_async<16>(shared.rows.pointer(place(r)), tile.x + tile.row_at(r) * a.x_pitch);
      } else {
        const Packed<Element> none = filled_with(a.monoid.filler());
        shared.rows.template store<kWidth>(place(r), std::bit_cast<Vec<Element, kWidth>>(none));
      }
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();

    Walk walk;
    Accumulator running[kWidth];
    walk.fold(a.monoid, a.each, row, running);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) shared.totals[tile.at(e)] = running[e];
    tile.scan_columns(shared.totals);

#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = tile.before(shared.totals, e);
    walk.scan(a.monoid, a.each, row, a.exclusive, running,
              [&](int r, const Vec<typename Walk::Lowered, kWidth>& out) {
                if (!tile.is_mine(r)) return;
                thread::store<Cache::kStreaming>(tile.y + tile.row_at(r) * a.y_pitch,
                                                 results<Result>(out));
              });
    tile.leave();
  }
};

struct StagedColumns {
  static bool supports(const Scan& call, Why& why) {
    return Columns::supports_whole(call, why) &&
           why.unless(device_facts().shared_bytes >= kBytes, "needs ", kBytes,
                      " bytes of shared memory");
  }
  // As many rows a thread as leave two tiles for each block that an SM holds.
  template <class Monoid>
  static LookBackPlan plan(const Scan& call, ColumnsArguments<Monoid>& a) {
    using Kernel = StagedColumnsKernel<Monoid>;
    constexpr int kLeast = 4;
    const int64_t wanted = int64_t{2} * Kernel::kMinBlocks * device_facts().multiprocessors;
    int each = Kernel::kRows;
    LookBackPlan plan = Columns::plan<Kernel>(call, a, each);
    while (each > kLeast && plan.lines * plan.tiles < wanted) {
      each = std::max(each / 2, kLeast);
      plan = Columns::plan<Kernel>(call, a, each);
    }
    return plan;
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      ColumnsArguments<Monoid> arguments{};
      workspace = plan(call, arguments).workspace();
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      ColumnsArguments<Monoid> arguments{};
      const LookBackPlan look_back = plan(call, arguments);
      Columns::launch_on<StagedColumnsKernel<Monoid>>(call, monoid, arguments, look_back, context);
    });
  }
};

}  // namespace

extern const Rung kColumnsStaged;
const Rung kColumnsStaged = rung_of<StagedColumns, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "columns_staged",
     .from = "columns",
     .idea = "rows wait in shared memory for the totals above them: tiles three times as tall"});

}  // namespace ws::scan
#endif
