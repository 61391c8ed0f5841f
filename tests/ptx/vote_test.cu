#include "warpsmith/ptx/vote.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/bits.hpp"

namespace ws {
namespace {

struct Vote {
  static constexpr int kThreads = 32;
  struct Arguments {
    uint32_t members;
    uint32_t predicates;  // bit i is lane i's
    uint32_t* ballot;
    bool* any;
    bool* all;
    int32_t* sum;
    uint32_t* unsigned_sum;
    int32_t* max;
    uint32_t* unsigned_max;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int lane = lane_index();
    const uint32_t members = arguments.members;
    if ((members >> lane & 1) == 0) return;
    const bool predicate = (arguments.predicates >> lane & 1) != 0;
    arguments.ballot[lane] = ptx::vote_sync_ballot(members, predicate);
    arguments.any[lane] = ptx::vote_sync_any(members, predicate);
    arguments.all[lane] = ptx::vote_sync_all(members, predicate);
    const int32_t value = lane - 20;
    arguments.sum[lane] = ptx::redux_sync_add(members, value);
    arguments.unsigned_sum[lane] = ptx::redux_sync_add(members, static_cast<uint32_t>(value));
    arguments.max[lane] = ptx::redux_sync_max(members, value);
    arguments.unsigned_max[lane] = ptx::redux_sync_max(members, static_cast<uint32_t>(value));
  }
};

void test_vote(uint32_t members, uint32_t predicates) {
  SCOPED_TRACE(testing::Message() << std::hex << members << " " << predicates);
  test::Buffer<uint32_t> ballot(32), unsigned_sum(32), unsigned_max(32);
  test::Buffer<bool> any(32), all(32);
  test::Buffer<int32_t> sum(32), max(32);
  test::run<Vote>({.threads = 32},
                  {members, predicates, ballot.data(), any.data(), all.data(), sum.data(),
                   unsigned_sum.data(), max.data(), unsigned_max.data()});
  int32_t total = 0;
  int32_t largest = -100;
  uint32_t unsigned_largest = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((members >> lane & 1) == 0) continue;
    total += lane - 20;
    largest = std::max(largest, lane - 20);
    unsigned_largest = std::max(unsigned_largest, static_cast<uint32_t>(lane - 20));
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((members >> lane & 1) == 0) continue;
    EXPECT_EQ(ballot[lane], members & predicates);
    EXPECT_EQ(any[lane], (members & predicates) != 0);
    EXPECT_EQ(all[lane], (members & predicates) == members);
    EXPECT_EQ(sum[lane], total);
    EXPECT_EQ(unsigned_sum[lane], static_cast<uint32_t>(total));
    EXPECT_EQ(max[lane], largest);
    EXPECT_EQ(unsigned_max[lane], unsigned_largest);
  }
}

struct LowestBit {
  static constexpr int kThreads = 32;
  struct Arguments {
    int* place;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int lane = lane_index();
    arguments.place[lane] = ptx::lowest_bit(ptx::vote_sync_ballot(kFullMask, lane % 8 > 2) >> lane);
  }
};

TEST(Vote, LowestBitIsTheFirstLane) {
  test::Buffer<int> place(32);
  test::run<LowestBit>({.threads = 32}, {place.data()});
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(place[lane], lane % 8 > 2 ? 0 : static_cast<int>(3 - lane % 8));
  }
}

TEST(Vote, CombinesTheMembers) {
  test::in_every_order([] {
    test_vote(kFullMask, 0);
    test_vote(kFullMask, kFullMask);
    test_vote(kFullMask, 0x80000001u);
    test_vote(0x0000FFFFu, 0xFFFF0000u);
    test_vote(0x0F0F0F0Fu, 0x0F0F0F0Fu);
    test_vote(0x00000100u, 0x00000100u);
  });
}

#ifdef WS_EMULATED
struct DivergedVote {
  static constexpr int kThreads = 32;
  struct Arguments {
    uint32_t mask;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    if (lane_index() < 16) ptx::vote_sync_any(arguments.mask, true);
  }
};

TEST(Vote, Faults) {
  test::expect_fault<DivergedVote>(emulator::Fault::kDivergence, "vote.sync", {.threads = 32},
                                   {kFullMask});
  test::expect_fault<DivergedVote>(emulator::Fault::kInvalidUse, "not in its own member mask",
                                   {.threads = 32}, {0xFFFF0000u});
}
#endif

}  // namespace
}  // namespace ws
