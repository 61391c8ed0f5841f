// A warp's own ring of units of keys and values in shared memory, filled by cp.async ahead of their
// use: it walks the warp's units of all of the block's parts, from one into the next.
#pragma once

#include "kernels/attention/key_line.hpp"
#include "kernels/attention/row_tile.hpp"

namespace ws::attention {

// Pages as a ring looks keys up in them.
struct PageTable {
  const int32_t* pages;  // null where keys lie in none
  int64_t batch;
  int64_t column;
  int page;  // keys of one
  int total;
  thread::Divider by_page;

  explicit PageTable(const Sequences& all)
      : pages(all.pages),
        batch(all.pages_batch),
        column(all.pages_column),
        page(static_cast<int>(all.page)),
        total(static_cast<int>(all.total_pages)),
        by_page(all.page) {}
};

#if WS_DEVICE_CODE
// kStages units, each a tile of keys and one of values; each of kWarps warps has every kWarps-th
// unit of a part. What is not there becomes zeros. kTellsPages: it reports pages that are not
// there, and remembers which units they are of; for who does not ask has_its_pages.
template <class T, class Tile, int kKeys, int kStages, int kWarps, class Line, bool kTellsPages>
class KeyRing {
 public:
  static constexpr int kStageElements = 2 * Tile::kElements;

  // Asks for the first kStages units.
  __device__ __forceinline__ KeyRing(const Call& call, const Line& line, const PageTable& table,
                                     T* ring, const KeyWalk& walk)
      : call_(call), line_(line), table_(table), ring_(ring), walk_(walk) {
    begin();
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) ask();
  }

  // Asks for the unit kStages behind the one used last, into its place, which no lane reads any
  // more.
  __device__ __forceinline__ void ask() {
    if (more_) copy();
    ptx::cp_async_commit_group();
    slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
  }

  // Where, of the ring, the unit is that is used next; and whether the page of one of its keys,
  // that which the lane had looked up, is not there.
  __device__ __forceinline__ int slot() const { return slot_; }
  __device__ __forceinline__ bool is_wrong() const { return (wrong_ >> slot_ & 1U) != 0; }

 private:
  __device__ __forceinline__ bool in_pages() const {
    return Line::kPacked && table_.pages != nullptr;
  }
  // The first unit of the warp from this part on.
  __device__ __forceinline__ void begin() {
    unit_ = walk_.part.from + warp_index();
    while (unit_ >= walk_.part.end) {
      if (!line_.next(walk_)) {
        more_ = false;
        return;
      }
      unit_ = walk_.part.from + warp_index();
    }
    if (in_pages()) return look_up();
    next_keys_ = first_of(call_.k);
    next_values_ = first_of(call_.v);
  }
  __device__ __forceinline__ const T* first_of(const Heads& heads) const {
    const KeyPart& part = walk_.part;
    const T* const row = row_at<const T>(heads, part.batch, part.head, part.first_key + key());
    return Tile::strided(row, heads.row).next;
  }
  __device__ __forceinline__ int key() const { return walk_.part.first + unit_ * kKeys; }

  __device__ __forceinline__ void copy() {
    T* const to = ring_ + slot_ * kStageElements;
    const SharedSpan<T> keys(to, Tile::kElements);
    const SharedSpan<T> values(to + Tile::kElements, Tile::kElements);
    // Any address in memory will do where nothing is read.
    const T* const valid = call_.q.as<const T>();
    const auto head_dim = static_cast<int>(call_.head_dim);
    const auto value_dim = static_cast<int>(call_.value_dim);
    if (in_pages()) {
      copy_pages(keys, values, valid, head_dim, value_dim);
    } else {
      const int count = walk_.part.keys - key();
      const auto copy_rows = [&](const SharedSpan<T>& to, const T*& next, const Heads& heads,
                                 int columns) {
        StridedRows<T> rows{next, heads.row};
        Tile::copy(to, rows, valid, count, columns);
        next = rows.next + int64_t{(kWarps - 1) * kKeys} * heads.row;
      };
      copy_rows(keys, next_keys_, call_.k, head_dim);
      copy_rows(values, next_values_, call_.v, value_dim);
    }
    unit_ += kWarps;
    if (unit_ >= walk_.part.end) {
      more_ = line_.next(walk_);
      if (more_) begin();
    } else if (in_pages()) {
      look_up();
    }
  }

  // Whether the lane has one of the unit's keys.
  __device__ __forceinline__ bool has_key() const {
    return lane_index() < kKeys && key() + lane_index() < walk_.part.keys;
  }
  // Where the unit's keys are, a lane each: asked for before they are copied.
  __device__ __forceinline__ void look_up() {
    static_assert(kKeys <= kWarpSize);
    const KeyPart& part = walk_.part;
    const int mine = key() + lane_index();
    page_ = -1;
    if (has_key()) {
      const auto nth = static_cast<int>(table_.by_page.quotient(static_cast<uint32_t>(mine)));
      page_ = thread::load(table_.pages + part.batch * table_.batch + nth * table_.column);
      in_page_ = mine - nth * table_.page;
    }
  }
  __device__ __forceinline__ void copy_pages(const SharedSpan<T>& keys, const SharedSpan<T>& values,
                                             const T* valid, int head_dim, int value_dim) {
    const int column = lane_index() % Tile::kChunks * Tile::kWidth;
    const int of_keys = Tile::bytes_of(head_dim - column);
    const int of_values = Tile::bytes_of(value_dim - column);
    const bool is_there = page_ >= 0 && page_ < table_.total;
    const uint32_t are_there = ptx::vote_sync_ballot(kFullMask, is_there);
    if constexpr (kTellsPages) wrong_ &= ~(1U << slot_);
    if (kTellsPages && !is_there && has_key()) {
      if constexpr (Line::kPacked) {
        line_.sequences.report_page(walk_.part.batch, (key() + lane_index()) / table_.page, page_);
      }
      wrong_ |= 1U << slot_;
    }
    // Each lane finds its own key for all: products of 64 bits are dear.
    const auto place = [&](const Heads& heads) {
      return is_there ? page_ * heads.batch + in_page_ * heads.row : 0;
    };
    const int64_t key_at = place(call_.k);
    const int64_t value_at = place(call_.v);
    const auto base = [&](const Heads& heads) {
      return table_.total > 0 ? heads.as<const T>() + walk_.part.head * heads.head + column : valid;
    };
    const T* const k = base(call_.k);
    const T* const v = base(call_.v);
#pragma unroll
    for (int i = 0; i < kKeys; i += Tile::kStep) {
      const int row = i + lane_index() / Tile::kChunks;
      const bool exists = (are_there >> row & 1U) != 0;
      const int at = Tile::piece_at(i);
      ptx::cp_async<16>(keys.pointer(at), k + warp::shuffle(key_at, row), exists ? of_keys : 0);
      ptx::cp_async<16>(values.pointer(at), v + warp::shuffle(value_at, row),
                        exists ? of_values : 0);
    }
  }

  const Call& call_;
  const Line& line_;
  const PageTable& table_;
  T* ring_;
  KeyWalk walk_;
  bool more_ = true;
  int unit_ = 0;
  int slot_ = 0;
  const T* next_keys_ = nullptr;  // without pages: this lane's pieces of the next tiles
  const T* next_values_ = nullptr;
  int page_ = -1, in_page_ = 0;  // with pages: where the lane's key of the unit is
  uint32_t wrong_ = 0;           // a bit a stage
};
#endif

}  // namespace ws::attention
