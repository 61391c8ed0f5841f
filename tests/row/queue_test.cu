// Rows drawn by clusters: each row goes to one cluster, whole, and the counter ends at zero.
#include "warpsmith/row/queue.hpp"

#include <utility>

#include "tests/run.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/thread/divide.hpp"
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

// Copies rows that start and end anywhere, each element plus the row's number, which comes as its
// Extra.
struct CopyAnywhere {
  using Shape = row::QueueShape<64, 1, 2, 1>;
  using Queue = row::Queue<float, Shape, 1, true, uint64_t>;
  using Exchange = cluster::AllReduce<uint64_t, Shape::kConsumers>;
  static constexpr int kThreads = Shape::kConsumers + kWarpSize;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    const float* x;
    float* y;
    const uint64_t* numbers;
    uint64_t rows;
    int64_t columns;
    int64_t part;  // vectors
    uint64_t* next;
  };
  struct SharedStorage {
    typename Queue::Storage queue;
    typename Exchange::Storage exchange;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    int64_t first = 0;
    const auto cut_of = [&](uint64_t row) {
      row::Cut<4> cut(a.x + static_cast<int64_t>(row) * a.columns, a.columns);
      first = cut.keep_part(cluster_rank(), a.part);
      return cut;
    };
    if (thread_index() == 0) Queue::init(shared.queue);
    Exchange exchange(shared.exchange);  // the cluster meets
    if (thread_index() >= Shape::kConsumers) {
      Queue::produce(
          shared.queue, a.next, a.rows,
          [&](uint64_t row) {
            const row::Cut<4> cut = cut_of(row);
            return typename Queue::Part{
                {a.x + static_cast<int64_t>(row) * a.columns + cut.head + first},
                static_cast<uint32_t>(cut.vectors * 16),
                cut.edges,
                cut.head,
                cut.body};
          },
          [&](uint64_t row) { return thread::load(a.numbers + row); });
    } else {
      for (typename Queue::Position at;; at.advance()) {
        const uint64_t row = Queue::wait(shared.queue, at);
        if (row >= a.rows) break;
        const uint64_t number = Queue::extra(shared.queue, at);
        const auto plus = static_cast<float>(number);
        const row::Cut<4> cut = cut_of(row);
        float* y = a.y + static_cast<int64_t>(row) * a.columns;
        const int t = thread_index();
        if (t < cut.edges) {
          const float edge = shared.queue.edges[Queue::edge(at.stage, 0, t)];
          thread::store(y + cut.edge(t), edge + plus);
        }
        if (t < cut.vectors) {
          auto values = shared.queue.parts.template load<4>(Queue::place(at.stage, 0) + t * 4);
          for (int i = 0; i < 4; ++i) values[i] += plus;
          thread::store(y + first + cut.at(t), values);
        }
        exchange(row, 0, [](uint64_t m, uint64_t n) { return m > n ? m : n; });
        Queue::release(shared.queue, at);
      }
    }
    exchange.finish();
  }
};

TEST(Queue, EdgesAndExtras) {
  test::in_every_order([] {
    for (const int cluster : {1, 2}) {
      for (const int64_t columns : {1, 3, 18, 253, 259}) {
        for (const int64_t offset : {0, 1, 3}) {
          SCOPED_TRACE(concatenate("clusters of ", cluster, ", columns ", columns, " at ", offset));
          WS_REQUIRE_ARCH(Arch::kSm90);
          constexpr int64_t kRows = 7;
          test::Buffer<float> x(static_cast<size_t>(kRows * columns + offset));
          test::Buffer<float> y(static_cast<size_t>(kRows * columns + offset));
          test::Buffer<uint64_t> numbers(kRows);
          test::Buffer<uint64_t> next(1);
          for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 8191);
          for (size_t i = 0; i < kRows; ++i) numbers[i] = 1000 * i;
          test::run<CopyAnywhere>(
              {.blocks = 2 * cluster, .threads = CopyAnywhere::kThreads, .cluster = cluster},
              {x.data() + offset, y.data() + offset, numbers.data(), uint64_t{kRows}, columns,
               divide_up(columns / 4, int64_t{cluster}), next.data()});
          EXPECT_EQ(next[0], 0U);
          for (int64_t i = 0; i < kRows * columns; ++i) {
            const auto at = static_cast<size_t>(i + offset);
            const int64_t row = i / columns;
            ASSERT_EQ(y[at], x[at] + static_cast<float>(1000 * row)) << "element " << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace ws
