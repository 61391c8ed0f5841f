#include "warpsmith/ptx/tensor.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

using ptx::Swizzle;

// Loads the box at (x, y) and writes shared memory out as it lies there.
struct LoadBox {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kMost = 16384;
  struct Arguments {
    ptx::TensorMap map;
    uint8_t* out;
    const uint8_t* lands;  // whether a byte of the box's place is of the copy
    int bytes;             // of the copy
    int extent;            // of its place
    int x;
    int y;
  };
  struct SharedStorage {
    SharedArray<uint8_t, kMost, 1024> box;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(a.map);
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(shared.full, static_cast<uint32_t>(a.bytes));
      ptx::tensor_load_2d(shared.box.pointer(), a.map, shared.full, a.x, a.y);
    }
    ptx::barrier_sync();
    ptx::mbarrier_wait_parity(shared.full, 0);
    for (int i = thread_index(); i < a.extent; i += block_threads()) {
      if (thread::load(a.lands + i) != 0) {
        thread::store(a.out + i, static_cast<uint8_t>(shared.box[i]));
      }
    }
  }
};

// Stores, or adds, a box that holds 1, 2, 3 ... in order of the tensor's elements.
template <class T, bool kAdds = false>
struct StoreBox {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    ptx::TensorMap map;
    Swizzle swizzle;
    int elements;
    int x;
    int y;
  };
  struct SharedStorage {
    SharedArray<T, 16384 / sizeof(T), 1024> box;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    for (int i = thread_index(); i < a.elements; i += block_threads()) {
      const auto plain = static_cast<uint32_t>(i * sizeof(T));
      const uint32_t place = a.swizzle == Swizzle::kNone ? plain : ptx::swizzled(a.swizzle, plain);
      shared.box[place / sizeof(T)] = static_cast<T>(i + 1);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    if (thread_index() == 0) {
      if constexpr (kAdds) {
        ptx::tensor_add_2d_f32(a.map, a.x, a.y, shared.box.pointer());
      } else {
        ptx::tensor_store_2d(a.map, a.x, a.y, shared.box.pointer());
      }
      ptx::bulk_commit_group();
      ptx::bulk_wait_group<0>();
    }
  }
};

struct BoxCase {
  Swizzle swizzle;
  int rows;  // of the box
  int columns;
};

// Where element (row, column) of a box lies, from the definition: among the 8 rows that share an
// atom, 16-byte chunk c of line r is at c xor r, where lines are 128 bytes and the span limits the
// bits.
size_t place_of(Swizzle swizzle, size_t byte) {
  const size_t line = byte / 128 % 8;
  const size_t chunk = byte / 16 % 8;
  size_t moved = chunk;
  if (swizzle == Swizzle::k128) moved = chunk ^ line;
  if (swizzle == Swizzle::k64) moved = chunk ^ (line % 4);
  if (swizzle == Swizzle::k32) moved = chunk ^ (line % 2);
  return byte - chunk * 16 + moved * 16;
}

template <class T>
void loads_boxes(const std::vector<BoxCase>& cases) {
  constexpr int kRows = 20;
  constexpr int kColumns = 70;
  constexpr int kStride = 80;  // elements between rows; what lies between must not be read
  test::Buffer<T> tensor(kRows * kStride);
  std::iota(tensor.begin(), tensor.end(), T{1});
  for (const BoxCase& c : cases) {
    const ptx::TensorMap map = ptx::make_tensor_map_2d(tensor.data(), kRows, kColumns, kStride,
                                                       c.rows, c.columns, c.swizzle);
    const auto bytes = static_cast<int>(static_cast<size_t>(c.rows * c.columns) * sizeof(T));
    // Rows shorter than the swizzle's lie as far apart as its rows.
    const auto row_bytes = static_cast<size_t>(c.columns) * sizeof(T);
    const size_t pitch = c.swizzle == Swizzle::kNone
                             ? row_bytes
                             : static_cast<size_t>(ptx::swizzle_row_bytes(c.swizzle));
    const auto extent = static_cast<int>(static_cast<size_t>(c.rows) * pitch);
    test::Buffer<uint8_t> lands(static_cast<size_t>(extent));
    for (size_t row = 0; row < static_cast<size_t>(c.rows); ++row) {
      for (size_t byte = 0; byte < row_bytes; ++byte) {
        lands[place_of(c.swizzle, row * pitch + byte)] = 1;
      }
    }
    constexpr int kStep = 16 / sizeof(T);  // x is a multiple of it
    for (const auto& [x, y] : {std::pair{0, 0},
                               {kStep, 5},
                               {kColumns / kStep * kStep, kRows - 3},
                               {-kStep, -2},
                               {1000 * kStep, 0},
                               {0, -1000}}) {
      test::Buffer<uint8_t> out(static_cast<size_t>(extent));
      test::run<LoadBox>({.threads = 128}, {map, out.data(), lands.data(), bytes, extent, x, y});
      for (int row = 0; row < c.rows; ++row) {
        for (int column = 0; column < c.columns; ++column) {
          const int gx = x + column;
          const int gy = y + row;
          const bool inside = gx >= 0 && gx < kColumns && gy >= 0 && gy < kRows;
          const T expected = inside ? tensor[static_cast<size_t>(gy * kStride + gx)] : T{0};
          const size_t byte =
              static_cast<size_t>(row) * pitch + static_cast<size_t>(column) * sizeof(T);
          T got;
          std::memcpy(&got, out.data() + place_of(c.swizzle, byte), sizeof(T));
          ASSERT_EQ(got, expected)
              << "box " << c.rows << "x" << c.columns << " swizzle " << static_cast<int>(c.swizzle)
              << " at (" << x << ", " << y << "), element (" << row << ", " << column << ")";
        }
      }
    }
  }
}

TEST(Tensor, LoadsBoxesOf2ByteElements) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    loads_boxes<uint16_t>({{Swizzle::kNone, 4, 8},
                           {Swizzle::kNone, 5, 24},
                           {Swizzle::k32, 16, 16},
                           {Swizzle::k64, 16, 32},
                           {Swizzle::k128, 16, 64},
                           {Swizzle::k128, 3, 64},
                           {Swizzle::k128, 9, 16},
                           {Swizzle::k128, 16, 40},
                           {Swizzle::k64, 8, 8}});
  });
}

TEST(Tensor, LoadsBoxesOfOtherElements) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    loads_boxes<uint8_t>({{Swizzle::kNone, 4, 16}, {Swizzle::k64, 8, 64}});
    loads_boxes<uint32_t>({{Swizzle::kNone, 4, 4}, {Swizzle::k128, 9, 32}});
    loads_boxes<uint64_t>({{Swizzle::k32, 8, 4}});
  });
}

// The PTX document has stores end at the tensor's edge; an H200 goes on to a multiple of 16 bytes.
TEST(Tensor, StoresBoxesAndClipsThemAt16Bytes) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    constexpr int kRows = 20;
    constexpr int kColumns = 70;
    constexpr int kStoredColumns = 72;  // of 2 bytes
    constexpr int kStride = 80;
    for (const BoxCase& c : {BoxCase{Swizzle::kNone, 4, 8}, BoxCase{Swizzle::k32, 16, 16},
                             BoxCase{Swizzle::k64, 12, 32}, BoxCase{Swizzle::k128, 16, 64}}) {
      for (const auto& [x, y] : {std::pair{0, 0}, {8, 5}, {64, kRows - 3}, {72, 0}, {0, 1000}}) {
        test::Buffer<uint16_t> tensor(kRows * kStride);
        const ptx::TensorMap map = ptx::make_tensor_map_2d(tensor.data(), kRows, kColumns, kStride,
                                                           c.rows, c.columns, c.swizzle);
        test::run<StoreBox<uint16_t>>({.threads = 128}, {map, c.swizzle, c.rows * c.columns, x, y});
        for (int row = 0; row < kRows; ++row) {
          for (int column = 0; column < kStride; ++column) {
            const int bx = column - x;
            const int by = row - y;
            const bool written =
                column < kStoredColumns && bx >= 0 && bx < c.columns && by >= 0 && by < c.rows;
            ASSERT_EQ(tensor[static_cast<size_t>(row * kStride + column)],
                      written ? by * c.columns + bx + 1 : 0)
                << "(" << row << ", " << column << ")";
          }
        }
      }
    }
  });
}

// Two blocks add the same box, to what was there.
TEST(Tensor, AddsBoxesOfF32) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    constexpr int kRows = 20;
    constexpr int kColumns = 36;
    constexpr int kStride = 40;
    constexpr int kBoxRows = 16;
    constexpr int kBoxColumns = 32;
    for (const auto& [x, y] : {std::pair{0, 0}, {8, 5}, {32, kRows - 3}, {40, 0}}) {
      test::Buffer<float> tensor(kRows * kStride);
      std::ranges::fill(tensor, 0.5F);
      const ptx::TensorMap map =
          ptx::make_tensor_map_2d(tensor.data(), kRows, kColumns, kStride, kBoxRows, kBoxColumns,
                                  Swizzle::k128, /*is_f32=*/true);
      test::run<StoreBox<float, true>>({.blocks = 2, .threads = 128},
                                       {map, Swizzle::k128, kBoxRows * kBoxColumns, x, y});
      for (int row = 0; row < kRows; ++row) {
        for (int column = 0; column < kStride; ++column) {
          const int bx = column - x;
          const int by = row - y;
          const bool added =
              column < kColumns && bx >= 0 && bx < kBoxColumns && by >= 0 && by < kBoxRows;
          const auto value = static_cast<float>(by * kBoxColumns + bx + 1);
          ASSERT_EQ(tensor[static_cast<size_t>(row * kStride + column)],
                    added ? 0.5F + 2 * value : 0.5F)
              << "(" << row << ", " << column << ")";
        }
      }
    }
  });
}

#ifdef WS_EMULATED
TEST(Tensor, AddsOnlyWhatTheMapCallsF32) {
  test::Buffer<float> tensor(32 * 64);
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(tensor.data(), 32, 64, 64, 8, 8, Swizzle::kNone);
  test::expect_fault<StoreBox<float, true>>(emulator::Fault::kInvalidUse, "are not f32",
                                            {.threads = 128}, {map, Swizzle::kNone, 64, 0, 0});
}

TEST(Tensor, RefusesCoordinatesThatTheHardwareDoes) {
  test::Buffer<uint16_t> tensor(32 * 64);
  test::Buffer<uint8_t> out(8 * 16);
  test::Buffer<uint8_t> lands(8 * 16);
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(tensor.data(), 32, 64, 64, 8, 8, Swizzle::kNone);
  for (const int x : {1, 4, -3}) {
    test::expect_fault<LoadBox>(emulator::Fault::kMisaligned, concatenate("x = ", x),
                                {.threads = 128}, {map, out.data(), lands.data(), 128, 128, x, 0});
    test::expect_fault<StoreBox<uint16_t>>(emulator::Fault::kMisaligned, concatenate("x = ", x),
                                           {.threads = 128}, {map, Swizzle::kNone, 64, x, 0});
  }
  for (const auto& [x, y] : {std::pair{-8, 0}, {0, -1}}) {
    test::expect_fault<StoreBox<uint16_t>>(emulator::Fault::kOutOfRange, "below zero",
                                           {.threads = 128}, {map, Swizzle::kNone, 64, x, y});
  }
}
#endif

// Each block of a cluster loads its part of a tile and gives it to all blocks of `mask`.
struct Multicast {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kBox = 8 * 8;  // elements
  struct Arguments {
    ptx::TensorMap map;
    uint16_t* out;  // [blocks, cluster, kBox]
    uint16_t mask;
  };
  struct SharedStorage {
    SharedArray<uint16_t, 4 * kBox, 128> parts;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int size = cluster_size();
    const int rank = cluster_rank();
    const bool receives = (a.mask >> rank & 1) != 0;
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    if (thread_index() == 0) {
      if (receives) {
        ptx::mbarrier_arrive_expect_tx(shared.full, static_cast<uint32_t>(size * kBox * 2));
      }
      ptx::tensor_load_2d_multicast(shared.parts.pointer(rank * kBox), a.map, shared.full, 0,
                                    rank * 8, a.mask);
    }
    if (receives) {
      ptx::mbarrier_wait_parity(shared.full, 0);
      for (int i = thread_index(); i < size * kBox; i += block_threads()) {
        thread::store(a.out + block_index() * size * kBox + i,
                      static_cast<uint16_t>(shared.parts[i]));
      }
    }
    ptx::cluster_sync();
  }
};

TEST(Tensor, MulticastsToTheBlocksOfTheMask) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<uint16_t> tensor(32 * 8);
    std::iota(tensor.begin(), tensor.end(), uint16_t{1});
    const ptx::TensorMap map =
        ptx::make_tensor_map_2d(tensor.data(), 32, 8, 8, 8, 8, Swizzle::kNone);
    for (const int cluster : {2, 4}) {
      for (const uint16_t mask : {uint16_t{1}, static_cast<uint16_t>((1 << cluster) - 1),
                                  static_cast<uint16_t>((1 << cluster) - 2)}) {
        const int part = cluster * Multicast::kBox;
        test::Buffer<uint16_t> out(static_cast<size_t>(4 * part));
        test::run<Multicast>({.blocks = 4, .threads = 32, .cluster = cluster},
                             {map, out.data(), mask});
        for (int i = 0; i < 4 * part; ++i) {
          const bool receives = (mask >> (i / part % cluster) & 1) != 0;
          ASSERT_EQ(out[static_cast<size_t>(i)],
                    receives ? tensor[static_cast<size_t>(i % part)] : 0)
              << i;
        }
      }
    }
  });
}

// ---- Three dimensions ---------------------------------------------------------------------------

// Loads the box at (x, y, z), by itself or as a multicast to itself, and stores it at (x, y, to_z).
struct CopyBox {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 8;
  struct Arguments {
    ptx::TensorMap map;
    int x, y, z, to_z;
    bool multicast;
  };
  struct SharedStorage {
    SharedArray<uint16_t, kRows * kColumns, 128> box;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() != 0) return;
    ptx::mbarrier_init(shared.full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(shared.full, kRows * kColumns * 2);
    if (a.multicast) {
      ptx::tensor_load_3d_multicast(shared.box.pointer(), a.map, shared.full, a.x, a.y, a.z, 1);
    } else {
      ptx::tensor_load_3d(shared.box.pointer(), a.map, shared.full, a.x, a.y, a.z);
    }
    ptx::mbarrier_wait_parity(shared.full, 0);
    ptx::tensor_store_3d(a.map, a.x, a.y, a.to_z, shared.box.pointer());
    ptx::bulk_commit_group();
    ptx::bulk_wait_group<0>();
  }
};

// Three matrices of 10 x 16 without gaps: a box that hangs over the edge of one does not reach the
// next, nor does its store.
TEST(Tensor, ABoxEndsWithItsMatrix) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  constexpr int kRows = 10;
  constexpr int kColumns = 16;
  for (const bool multicast : {false, true}) {
    test::Buffer<uint16_t> tensor(3 * kRows * kColumns);
    std::iota(tensor.begin(), tensor.end(), uint16_t{1});
    const std::vector<uint16_t> before(tensor.begin(), tensor.end());
    const ptx::TensorMap map = ptx::make_tensor_map_3d(
        tensor.data(), {.count = 3, .stride = kRows * kColumns}, kRows, kColumns, kColumns,
        CopyBox::kRows, CopyBox::kColumns, Swizzle::kNone);
    test::run<CopyBox>({.threads = 32}, {map, 8, 5, 2, 0, multicast});
    for (int i = 0; i < 3 * kRows * kColumns; ++i) {
      const bool copied = i < kRows * kColumns && i / kColumns >= 5 && i % kColumns >= 8;
      const int from = copied ? i + 2 * kRows * kColumns : i;
      ASSERT_EQ(tensor[static_cast<size_t>(i)], before[static_cast<size_t>(from)]) << i;
    }
  }
}

// A matrix alone has no stride to the next.
TEST(Tensor, ABatchOfOneHasAnyStride) {
  test::Buffer<uint16_t> tensor(8 * 16);
  EXPECT_NO_THROW(ptx::make_tensor_map_3d(tensor.data(), {.count = 1, .stride = 3}, 8, 16, 16, 8, 8,
                                          Swizzle::kNone));
}

// ---- The encoder's rules -----------------------------------------------------------------------

void expect_refused(const ptx::TensorMapShape& shape, const std::string& words) {
  try {
    ptx::make_tensor_map(shape);
    ADD_FAILURE() << "encoded; expected words about " << words;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(TensorMap, RefusesWhatTheDriverWould) {
  test::Buffer<uint16_t> tensor(1024);
  const ptx::TensorMapShape good = {.base = tensor.data(),
                                    .element_bytes = 2,
                                    .rank = 2,
                                    .extents = {32, 32},
                                    .strides = {0, 64},
                                    .box = {32, 8},
                                    .swizzle = Swizzle::k64};
  EXPECT_NO_THROW(ptx::make_tensor_map(good));
  const auto with = [&good](auto change) {
    ptx::TensorMapShape shape = good;
    change(shape);
    return shape;
  };
  expect_refused(with([&](auto& s) { s.base = tensor.data() + 1; }), "multiple of 16 bytes");
  expect_refused(with([](auto& s) { s.base = nullptr; }), "base");
  expect_refused(with([](auto& s) { s.strides[1] = 62; }), "stride 62 of dimension 1");
  expect_refused(with([](auto& s) { s.strides[1] = int64_t{1} << 40; }), "outside (0, 2^40)");
  expect_refused(with([](auto& s) { s.extents[1] = 0; }), "extent 0 of dimension 1");
  expect_refused(with([](auto& s) { s.extents[0] = (int64_t{1} << 32) + 1; }), "[1, 2^32]");
  expect_refused(with([](auto& s) { s.box[1] = 257; }), "box extent 257 of dimension 1");
  expect_refused(with([](auto& s) { s.box[0] = 12; }), "a box row of 24 bytes is not a multiple");
  expect_refused(with([](auto& s) { s.box[0] = 64; }), "a box row of 128 bytes is longer");
  expect_refused(with([](auto& s) { s.rank = 6; }), "1 to 5 dimensions, not 6");
  expect_refused(with([](auto& s) { s.element_bytes = 3; }), "not 3");
}

TEST(TensorMap, EncodesOneToFiveDimensions) {
  test::Buffer<uint16_t> tensor(2 * 2 * 2 * 2 * 8);
  for (int rank = 1; rank <= 5; ++rank) {
    EXPECT_NO_THROW(ptx::make_tensor_map({.base = tensor.data(),
                                          .element_bytes = 2,
                                          .rank = rank,
                                          .extents = {8, 2, 2, 2, 2},
                                          .strides = {0, 16, 32, 64, 128},
                                          .box = {8, 1, 2, 1, 2}}));
  }
}

// ---- Five dimensions ----------------------------------------------------------------------------

// Loads the box at (0, y, 0, w, v).
struct LoadFive {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 8;
  struct Arguments {
    ptx::TensorMap map;
    int y, w, v;
    uint16_t* out;
  };
  struct SharedStorage {
    SharedArray<uint16_t, kRows * kColumns, 128> box;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(shared.full, kRows * kColumns * 2);
      ptx::tensor_prefetch_5d(a.map, 0, a.y, 0, a.w, a.v);
      ptx::tensor_load_5d(shared.box.pointer(), a.map, shared.full, 0, a.y, 0, a.w, a.v);
    }
    ptx::syncwarp();
    ptx::mbarrier_wait_parity(shared.full, 0);
    for (int i = thread_index(); i < kRows * kColumns; i += kThreads) {
      thread::store(a.out + i, uint16_t{shared.box[i]});
    }
  }
};

// Rows 5, 6 and 7 of 20, and zeros: by a dimension of rows that ends behind row 7, and one whose
// coordinate takes the address back by wrapping around.
TEST(Tensor, AddressesWrapAround) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  constexpr int kRows = 20;
  constexpr int kColumns = LoadFive::kColumns;
  constexpr int64_t kRow = kColumns * 2;
  constexpr int64_t kOrigin = int64_t{1} << 30;
  test::Buffer<uint16_t> tensor(kRows * kColumns);
  std::iota(tensor.begin(), tensor.end(), uint16_t{1});
  const ptx::TensorMap map =
      ptx::make_tensor_map({.base = tensor.data(),
                            .rank = 5,
                            .extents = {kColumns, kOrigin, 1, kOrigin + 1, kRows + 1},
                            .strides = {0, kRow, kRow, (int64_t{1} << 34) - kRow, kRow},
                            .box = {kColumns, LoadFive::kRows, 1, 1, 1}});
  test::Buffer<uint16_t> out(LoadFive::kRows * kColumns);
  test::run<LoadFive>({.threads = 32}, {map, static_cast<int>(kOrigin) - 3,
                                        static_cast<int>(kOrigin), 8, out.data()});
  for (int i = 0; i < LoadFive::kRows * kColumns; ++i) {
    const bool exists = i < 3 * kColumns;
    ASSERT_EQ(out[static_cast<size_t>(i)],
              exists ? tensor[static_cast<size_t>(5 * kColumns + i)] : 0)
        << i;
  }
}

}  // namespace
}  // namespace ws
