// Rows drawn by clusters: each row goes to one cluster, whole, and the counter ends at zero.
#include "warpsmith/row/queue.hpp"

#include <utility>

#include "tests/run.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws {
namespace {

// Copies rows of `blocks` parts, and counts how often a row came. Blocks exchange something about
// each row, as kernels do: nothing else keeps the first from drawing further ahead than there are
// slots. As far as that it goes: the others are late to ask for their next rows.
template <int kStages>
struct CopyRows {
  using Shape = row::QueueShape<64, 1, kStages, 1>;
  using Queue = row::Queue<float, Shape>;
  using Exchange = cluster::AllReduce<uint64_t, Shape::kConsumers>;
  static constexpr int kThreads = Shape::kConsumers + kWarpSize;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    const float* x;
    float* y;
    uint32_t* times;  // [rows, blocks of a cluster]
    uint64_t rows;
    uint64_t* next;
  };
  struct SharedStorage {
    typename Queue::Storage queue;
    typename Exchange::Storage exchange;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto start = [&](uint64_t row) {
      const auto part = static_cast<int64_t>(row) * cluster_size() + cluster_rank();
      return part * Queue::kPart;
    };
    if (thread_index() == 0) Queue::init(shared.queue);
    Exchange exchange(shared.exchange);  // the cluster meets
    if (thread_index() == Shape::kConsumers) {
      Queue::produce(shared.queue, a.next, a.rows, [&](uint64_t row) {
        return typename Queue::Part{{a.x + start(row)}, static_cast<uint32_t>(Shape::kBytes)};
      });
    } else if (thread_index() < Shape::kConsumers) {
      for (typename Queue::Position at;; at.advance()) {
        shared.queue.pipeline.wait(at);
        uint64_t row = 0;
        if (lane_index() == 0) row = shared.queue.row[at.stage];
        row = warp::shuffle(row, 0);
        if (row >= a.rows) break;
        const int mine = thread_index() * 4;
        const auto values = shared.queue.parts.template load<4>(at.stage * Queue::kPart + mine);
        ptx::syncwarp();
        const bool ahead = cluster_rank() == 0;
        if (ahead && lane_index() == 0) shared.queue.pipeline.release(at.stage);
        thread::store(a.y + start(row) + mine, values);
        const uint64_t largest =
            exchange(row, 0, [](uint64_t m, uint64_t n) { return m > n ? m : n; });
        if (!ahead) {
          for (int i = 0; i < 32; ++i) ptx::barrier_sync(2, Shape::kConsumers);  // takes its time
          if (lane_index() == 0) shared.queue.pipeline.release(at.stage);
        }
        if (thread_index() == 0 && row == largest) {  // in all blocks the same
          ptx::red_global_add(a.times + row * static_cast<uint64_t>(cluster_size()) +
                                  static_cast<uint64_t>(cluster_rank()),
                              1U);
        }
      }
    }
    exchange.finish();
  }
};

template <int kStages>
void check(int cluster, int clusters, int rows) {
  SCOPED_TRACE(
      concatenate(clusters, " clusters of ", cluster, ", ", rows, " rows, ", kStages, " stages"));
  WS_REQUIRE_ARCH(Arch::kSm90);
  const auto parts = static_cast<size_t>(rows * cluster);
  const size_t part = CopyRows<kStages>::Queue::kPart;
  test::Buffer<float> x(parts * part + 4);
  test::Buffer<float> y(parts * part + 4);
  test::Buffer<uint32_t> times(parts + 1);
  test::Buffer<uint64_t> next(1);  // zero once, for all launches
  for (size_t i = 0; i < parts * part; ++i) x[i] = static_cast<float>(i % 8191);
  for (uint32_t launch = 1; launch <= 2; ++launch) {
    test::run<CopyRows<kStages>>(
        {.blocks = cluster * clusters, .threads = CopyRows<kStages>::kThreads, .cluster = cluster},
        {x.data(), y.data(), times.data(), static_cast<uint64_t>(rows), next.data()});
    EXPECT_EQ(next[0], 0U);
    for (size_t p = 0; p < parts; ++p) ASSERT_EQ(times[p], launch) << "part " << p;
  }
  for (size_t i = 0; i < parts * part; ++i) ASSERT_EQ(y[i], x[i]) << "element " << i;
}

TEST(Queue, EveryRowOnceAndTheCounterBackAtZero) {
  test::in_every_order([] {
    for (const int cluster : {1, 2, 4}) {
      for (const int clusters : {1, 2, 3}) {
        for (const int rows : {1, 2, 7}) {
          check<1>(cluster, clusters, rows);
          check<3>(cluster, clusters, rows);
        }
      }
    }
  });
}

}  // namespace
}  // namespace ws
