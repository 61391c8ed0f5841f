// What the profile counts, by patterns whose sectors and wavefronts are known.
#include "warpsmith/profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::emulator {
namespace {

alignas(256) std::array<float, 1 << 16> memory;

template <class Body>
Profile profile_of(const LaunchShape& shape, Body&& body) {
  ProfileScope scope;
  launch(shape, body);
  return scope.end();
}

// The only line with this operation.
const ProfileLine& line_of(const Profile& profile, std::string_view operation) {
  const auto is_it = [&](const ProfileLine& line) { return line.place.operation == operation; };
  EXPECT_EQ(std::ranges::count_if(profile.lines, is_it), 1) << operation;
  static const ProfileLine kNone;
  const auto at = std::ranges::find_if(profile.lines, is_it);
  return at == profile.lines.end() ? kNone : *at;
}

// In every order of threads and with any number of workers the counts are the same.
template <class Body, class Check>
void expect_profile(const LaunchShape& shape, Body&& body, Check&& check) {
  test::in_every_order([&] { check(profile_of(shape, body)); });
}

TEST(Profile, CountsSectorsOfARequest) {
  struct Pattern {
    int step;  // elements from lane to lane
    uint64_t sectors;
    int64_t stride;  // bytes, where it is worth telling
  };
  for (const Pattern& p : {Pattern{1, 4, 0}, Pattern{0, 1, 0}, Pattern{2, 8, 8}, Pattern{8, 32, 32},
                           Pattern{100, 32, 400}, Pattern{-1, 4, 0}}) {
    expect_profile(
        {2, 64, 1, 0},
        [&](std::byte*) {
          thread::load(memory.data() + 8192 + 31 * (p.step < 0) + p.step * lane_index());
        },
        [&](const Profile& profile) {
          const ProfileLine& line = line_of(profile, "ld.global");
          EXPECT_EQ(line.requests, 4U);
          EXPECT_EQ(line.sectors, 4 * p.sectors) << p.step;
          EXPECT_EQ(line.ideal_sectors, 4U * (p.step == 0 ? 1 : 4));
          EXPECT_EQ(line.unique_sectors, p.sectors);
          EXPECT_EQ(line.asked_bytes, 4U * 128U);
          EXPECT_EQ(line.stride, p.stride) << p.step;
          EXPECT_EQ(line.active_lanes, 128U);
          EXPECT_EQ(line.divergent, 0U);
          EXPECT_TRUE(line.place.file.ends_with("tests/emulator/profile_test.cpp"));
        });
  }
}

TEST(Profile, WideAccessesAreSeveralInstructions) {
  expect_profile(
      {1, 32, 1, 0},
      [](std::byte*) {
        thread::store(memory.data() + 8 * lane_index(),
                      thread::load<8>(memory.data() + 4096 + 8 * lane_index()));
      },
      [](const Profile& profile) {
        // Each half of the 32 bytes leaves the other half of its sectors to the second request.
        EXPECT_EQ(line_of(profile, "ld.global").requests, 2U);
        EXPECT_EQ(line_of(profile, "ld.global").sectors, 64U);
        EXPECT_EQ(line_of(profile, "ld.global").ideal_sectors, 32U);
        EXPECT_EQ(line_of(profile, "ld.global").unique_sectors, 32U);
        EXPECT_EQ(line_of(profile, "st.global").requests, 2U);
        EXPECT_EQ(profile.unique_read_sectors, 32U);
        EXPECT_EQ(profile.unique_written_sectors, 32U);
      });
}

TEST(Profile, LanesThatStandByAreDivergence) {
  expect_profile(
      {1, 48, 1, 0},
      [](std::byte*) {
        for (int i = 0; i < 4; ++i) {
          if (lane_index() % 4 == i) thread::load(memory.data() + lane_index());
          ptx::syncwarp(thread_index() < 32 ? kFullMask : 0xFFFFu);
        }
      },
      [](const Profile& profile) {
        const ProfileLine& line = line_of(profile, "ld.global");
        // 8 lanes of the first warp each time, 4 of the second, which has 16.
        EXPECT_EQ(line.warp_instructions, 8U);
        EXPECT_EQ(line.active_lanes, 48U);
        EXPECT_EQ(line.divergent, 8U);
        EXPECT_EQ(line_of(profile, "bar.warp.sync").divergent, 0U);
      });
}

struct Storage {
  SharedArray<float, 4096, 128> x;
};
constexpr LaunchShape kOneWarp{1, 32, 1, sizeof(Storage)};

TEST(Profile, CountsBankConflicts) {
  struct Pattern {
    int step;
    uint64_t ways;
  };
  for (const Pattern& p : {Pattern{1, 1}, Pattern{0, 1}, Pattern{2, 2}, Pattern{4, 4},
                           Pattern{32, 32}, Pattern{33, 1}, Pattern{3, 1}}) {
    expect_profile(
        kOneWarp,
        [&](std::byte* shared) {
          Storage& s = at<Storage>(shared, 0);
          for (int i = lane_index(); i < 4096; i += 32) s.x[i] = 1.0F;
          ptx::barrier_sync();
          static_cast<void>(float{s.x[p.step * lane_index()]});
        },
        [&](const Profile& profile) {
          EXPECT_EQ(line_of(profile, "st.shared").wavefronts, 128U);
          EXPECT_EQ(line_of(profile, "st.shared").ideal_wavefronts, 128U);
          EXPECT_EQ(line_of(profile, "ld.shared").wavefronts, p.ways) << p.step;
          EXPECT_EQ(line_of(profile, "ld.shared").ideal_wavefronts, 1U);
        });
  }
}

TEST(Profile, WideSharedAccessesGoByHalvesAndQuarters) {
  expect_profile(
      kOneWarp,
      [](std::byte* shared) {
        Storage& s = at<Storage>(shared, 0);
        s.x.store<4>(4 * lane_index(), Vec<float, 4>{});
        ptx::barrier_sync();
        static_cast<void>(s.x.load<2>(2 * lane_index()));
      },
      [](const Profile& profile) {
        EXPECT_EQ(line_of(profile, "st.shared").wavefronts, 4U);
        EXPECT_EQ(line_of(profile, "st.shared").ideal_wavefronts, 4U);
        EXPECT_EQ(line_of(profile, "ld.shared").wavefronts, 2U);
        EXPECT_EQ(line_of(profile, "barrier.sync").waits_for.size(), 1U);
        EXPECT_EQ(line_of(profile, "barrier.sync").waits_for[0].operation, "st.shared");
      });
}

// As an H200 counts them: of loads two parts go at once where neighbours load the same.
TEST(Profile, WideLoadsOfTheSameGoTogether) {
  struct Pattern {
    int mask;  // of the lane's bits that choose the element
    uint64_t wavefronts_of_8;
    uint64_t wavefronts_of_16;
  };
  for (const Pattern& p : {Pattern{31, 2, 4}, Pattern{0, 1, 2}, Pattern{1, 1, 2}, Pattern{30, 1, 2},
                           Pattern{3, 2, 4}, Pattern{15, 2, 4}, Pattern{24, 1, 2}}) {
    expect_profile(
        kOneWarp,
        [&](std::byte* shared) {
          Storage& s = at<Storage>(shared, 0);
          const int element = (lane_index() & p.mask) / (p.mask == 30 ? 2 : p.mask == 24 ? 8 : 1);
          s.x.store<4>(4 * element, Vec<float, 4>{});
          ptx::barrier_sync();
          static_cast<void>(s.x.load<2>(2 * element));
          static_cast<void>(s.x.load<4>(4 * element));
        },
        [&](const Profile& profile) {
          uint64_t of_8 = 0;
          uint64_t of_16 = 0;
          for (const ProfileLine& line : profile.lines) {
            if (line.place.operation != "ld.shared") continue;
            (line.shared_bytes == 32 * 8 ? of_8 : of_16) = line.wavefronts;
            EXPECT_EQ(line.wavefronts, line.ideal_wavefronts);
          }
          EXPECT_EQ(of_8, p.wavefronts_of_8) << p.mask;
          EXPECT_EQ(of_16, p.wavefronts_of_16) << p.mask;
          EXPECT_EQ(line_of(profile, "st.shared").wavefronts, 4U);
        });
  }
}

TEST(Profile, MatricesAndCopiesBySwizzle) {
  for (const int pitch : {64, 72}) {  // halves: 128 bytes, and 16 more
    expect_profile(
        kOneWarp,
        [&](std::byte* shared) {
          Storage& s = at<Storage>(shared, 0);
          auto* halves = reinterpret_cast<uint16_t*>(s.x.pointer());
          ptx::cp_async<16>(halves + pitch * lane_index(), memory.data() + 4 * lane_index(), 16);
          ptx::cp_async_commit_group();
          ptx::cp_async_wait_group<0>();
          ptx::syncwarp();
          uint32_t r[4];
          ptx::ldmatrix_x4(r, halves + pitch * lane_index());
        },
        [&](const Profile& profile) {
          const ProfileLine& copy = line_of(profile, "cp.async");
          EXPECT_EQ(copy.warp_instructions, 1U);
          EXPECT_EQ(copy.requests, 1U);
          EXPECT_EQ(copy.sectors, 16U);
          EXPECT_EQ(copy.wavefronts, pitch == 64 ? 32U : 4U);
          const ProfileLine& load = line_of(profile, "ldmatrix");
          EXPECT_EQ(load.warp_instructions, 1U);
          EXPECT_EQ(load.wavefronts, pitch == 64 ? 32U : 4U);
          EXPECT_EQ(load.ideal_wavefronts, 4U);
        });
  }
}

// Lanes without a source do not change whose copies belong together.
TEST(Profile, CopiesThatOnlyFillReadNothing) {
  expect_profile(
      kOneWarp,
      [](std::byte* shared) {
        Storage& s = at<Storage>(shared, 0);
        for (int i = 0; i < 2; ++i) {
          const bool exists = (lane_index() < 16) == (i == 0);
          ptx::cp_async<4>(s.x.pointer(32 * i + lane_index()),
                           memory.data() + (exists ? lane_index() : 0), exists ? 4 : 0);
        }
        ptx::cp_async_commit_group();
        ptx::cp_async_wait_group<0>();
      },
      [](const Profile& profile) {
        const ProfileLine& copy = line_of(profile, "cp.async");
        EXPECT_EQ(copy.requests, 2U);
        EXPECT_EQ(copy.sectors, 5U) << "the second looks up what the lanes that fill name";
        EXPECT_EQ(copy.ideal_sectors, 4U);
        EXPECT_EQ(copy.asked_bytes, 128U);
      });
}

TEST(Profile, AtomicsOnOneAddress) {
  memory.fill(0.0F);
  expect_profile(
      {4, 64, 1, 0},
      [](std::byte*) { ptx::red_global_add(memory.data() + lane_index() % 2, 1.0F); },
      [](const Profile& profile) {
        const ProfileLine& line = line_of(profile, "atom.global.add");
        EXPECT_EQ(line.requests, 8U);
        EXPECT_EQ(line.sectors, 128U) << "16 lanes on each address";
        EXPECT_EQ(line.ideal_sectors, 8U);
        EXPECT_EQ(line.most_on_one_address, 128U);
      });
}

TEST(Profile, BulkCopiesAndWhoWaitsForThem) {
  struct Bulk {
    SharedArray<float, 1024, 128> x;
    ptx::Mbarrier full;
  };
  expect_profile(
      {1, 32, 1, sizeof(Bulk)},
      [](std::byte* shared) {
        Bulk& s = at<Bulk>(shared, 0);
        if (lane_index() == 0) {
          ptx::mbarrier_init(s.full, 1);
          ptx::fence_mbarrier_init();
          ptx::mbarrier_arrive_expect_tx(s.full, 4096);
          ptx::bulk_load(s.x.pointer(), memory.data() + 4, 4096, s.full);
        }
        ptx::syncwarp();
        ptx::mbarrier_wait_parity(s.full, 0);
      },
      [](const Profile& profile) {
        const ProfileLine& copy = line_of(profile, "cp.async.bulk.shared.global");
        EXPECT_TRUE(copy.by_one_thread);
        EXPECT_EQ(copy.sectors, 129U);
        EXPECT_EQ(copy.ideal_sectors, 128U);
        EXPECT_EQ(line_of(profile, "mbarrier.try_wait").waits_for.size(), 2U);
        EXPECT_EQ(profile.sectors_a_request(), 0.0) << "no lanes to spread";
      });
}

// A helper passes its caller's place on, and templates of one line are one line.
TEST(Profile, ReductionsAreTheCallersLine) {
  expect_profile(
      {1, 64, 1, 0},
      [](std::byte*) { warp::all_reduce(1.0F, [](float a, float b) { return a + b; }); },
      [](const Profile& profile) {
        const ProfileLine& line = line_of(profile, "shfl.sync.bfly");
        EXPECT_EQ(line.warp_instructions, 10U);
        EXPECT_TRUE(line.place.file.ends_with("profile_test.cpp"));
      });
}

TEST(Profile, BeginsAnewAndEndsAfterAFault) {
  EXPECT_THROW(profile_of({1, 1, 1, 0},
                          [](std::byte*) {
                            thread::load(memory.data());
                            throw Error("no");
                          }),
               Error);
  EXPECT_TRUE(profile_of({1, 1, 1, 0}, [](std::byte*) {}).lines.empty());
  launch({1, 1, 1, 0}, [](std::byte*) { thread::load(memory.data()); });
  EXPECT_TRUE(profile_of({1, 1, 1, 0}, [](std::byte*) {}).lines.empty());
}

}  // namespace
}  // namespace ws::emulator
