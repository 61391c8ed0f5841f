// A warp's own ring of tiles of keys and values in shared memory, filled by cp.async ahead of their
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
// Tiles of kTiles a ring, keys and values of a unit in turn; each of kWarps warps has every
// kWarps-th unit of a part. What is not there becomes zeros.
template <class T, class Tile, int kKeys, int kTiles, int kWarps, class Line>
class KeyRing {
 public:
  __device__ __forceinline__ KeyRing(const Call& call, const PageTable& table, T* ring,
                                     const KeyWalk<Line>& walk)
      : call_(call), table_(table), ring_(ring), walk_(walk) {
    begin();
#pragma unroll 1
    for (int i = 0; i < (kTiles - 1) / 2; ++i) {
      copy_keys();
      copy_values();
    }
    if constexpr (kTiles % 2 == 0) copy_keys();
  }

  // Asks for a tile into the place of the one used last, which was of keys or of values.
  __device__ __forceinline__ void after_values() {
    if constexpr (kTiles % 2 == 0) {
      copy_values();
    } else {
      copy_keys();
    }
  }
  __device__ __forceinline__ void after_keys() {
    if constexpr (kTiles % 2 == 0) {
      copy_keys();
    } else {
      copy_values();
    }
  }

 private:
  // The first unit of the warp from this part on.
  __device__ __forceinline__ void begin() {
    unit_ = walk_.part().from + warp_index();
    while (unit_ >= walk_.part().end) {
      if (!walk_.next()) {
        more_ = false;
        return;
      }
      unit_ = walk_.part().from + warp_index();
    }
    if (table_.pages != nullptr) return look_up();
    keys_ = rows_of(call_.k);
    values_ = rows_of(call_.v);
  }
  __device__ __forceinline__ StridedRows<T> rows_of(const Heads& heads) const {
    const KeyPart& part = walk_.part();
    return Tile::strided(heads.at<const T>(part.batch, part.head, part.first_key + key()),
                         heads.row);
  }
  __device__ __forceinline__ int key() const { return walk_.part().first + unit_ * kKeys; }

  __device__ __forceinline__ void copy_keys() {
    copy(call_.k, keys_, static_cast<int>(call_.head_dim));
  }
  __device__ __forceinline__ void copy_values() {
    copy(call_.v, values_, static_cast<int>(call_.value_dim));
    if (!more_) return;
    unit_ += kWarps;
    if (unit_ >= walk_.part().end) {
      more_ = walk_.next();
      if (more_) begin();
    } else if (table_.pages != nullptr) {
      look_up();
    }
  }

  __device__ __forceinline__ void copy(const Heads& heads, StridedRows<T>& rows, int columns) {
    if (more_) {
      const SharedSpan<T> to(ring_ + slot_ * Tile::kElements, Tile::kElements);
      // Any address in memory will do where nothing is read.
      const T* const valid = call_.q.as<const T>();
      if (table_.pages != nullptr) {
        copy_pages(to, heads, valid, columns);
      } else {
        Tile::copy(to, rows, valid, walk_.part().keys - key(), columns);
        rows.next += int64_t{(kWarps - 1) * kKeys} * rows.stride;
      }
      slot_ = slot_ + 1 == kTiles ? 0 : slot_ + 1;
    }
    ptx::cp_async_commit_group();
  }

  // Where the unit's keys are, a lane each: asked for before they are copied.
  __device__ __forceinline__ void look_up() {
    static_assert(kKeys <= kWarpSize);
    const KeyPart& part = walk_.part();
    const int mine = key() + lane_index();
    page_ = -1;
    if (lane_index() < kKeys && mine < part.keys) {
      const auto nth = static_cast<int>(table_.by_page.quotient(static_cast<uint32_t>(mine)));
      page_ = thread::load(table_.pages + part.batch * table_.batch + nth * table_.column);
      in_page_ = mine - nth * table_.page;
    }
  }
  __device__ __forceinline__ void copy_pages(const SharedSpan<T>& to, const Heads& heads,
                                             const T* valid, int columns) const {
    const int column = lane_index() % Tile::kChunks * 8;
    const int bytes = Tile::bytes_of(columns - column);
    const T* const base = heads.as<const T>() + walk_.part().head * heads.head + column;
#pragma unroll
    for (int i = 0; i < kKeys; i += Tile::kStep) {
      const int row = i + lane_index() / Tile::kChunks;
      const int page = warp::shuffle(page_, row);
      const int in_page = warp::shuffle(in_page_, row);
      const bool exists = page >= 0 && page < table_.total && bytes > 0;
      const T* const from = base + page * heads.batch + in_page * heads.row;
      ptx::cp_async<16>(to.pointer(Tile::piece_at(i)), exists ? from : valid, exists ? bytes : 0);
    }
  }

  const Call& call_;
  const PageTable& table_;
  T* ring_;
  KeyWalk<Line> walk_;
  bool more_ = true;
  int unit_ = 0;
  int slot_ = 0;
  StridedRows<T> keys_{}, values_{};  // without pages: this lane's piece of the next tile
  int page_ = -1, in_page_ = 0;       // with pages: where the lane's key of the unit is
};
#endif

}  // namespace ws::attention
