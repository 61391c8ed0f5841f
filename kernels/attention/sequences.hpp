// Sequences as kernels see them: where each begins in packed rows, read from the device's own
// tensors, or one for each batch of a dense call.
//
// A start or a length that is wrong (below the one before, beyond the rows) is reported, and its
// sequence has no queries: nothing is written for it, and nothing outside the tensors read. So is a
// page, but who reads pages asks has_its_pages before.
#pragma once

#include "kernels/attention/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

// The rows of a sequence: of q, out and lse from first_query on, of k and v from first_key on (0
// where they lie in pages).
struct Sequence {
  int64_t first_query = 0;
  int64_t queries = 0;
  int64_t first_key = 0;
  int64_t keys = 0;
};

// Where a key's rows of k and v are.
struct KeyPlace {
  int64_t batch;  // or page
  int64_t row;
};

// Made on the host from either operation's call.
struct Sequences {
  bool packed = false;
  int64_t count = 0;
  int64_t queries = 0;  // of a dense call's sequence; of all that are packed
  int64_t keys = 0;     // the same; of pages: the most that a sequence can have
  Lengths starts_q, starts_k, used_k;
  IndexCheck check_q, check_k, check_used, check_page;
  const int32_t* pages = nullptr;  // null where there are none
  int64_t pages_batch = 0, pages_column = 0, page = 1, total_pages = 0;

  Sequences(const Call& call, const char* /*rung*/)
      : count(call.batch), queries(call.queries), keys(call.keys) {}
  // `rung` is of static storage.
  template <class AnyCall>
    requires kIsPacked<AnyCall>
  Sequences(const AnyCall& call, const char* rung)
      : packed(true),
        count(call.batch),
        queries(call.total_queries),
        keys(call.paged ? call.keys : call.total_keys),
        starts_q(call.starts_q),
        starts_k(call.starts_k),
        used_k(call.used_k),
        check_q(rung, "cu_seqlens_q", call.total_queries + 1),
        check_k(rung, "cu_seqlens_k", call.total_keys + 1),
        check_used(rung, "seqused_k", call.keys + 1),
        check_page(rung, "block_table", call.total_pages),
        pages(call.paged ? call.pages : nullptr),
        pages_batch(call.pages_batch),
        pages_column(call.pages_column),
        page(call.paged ? call.page : 1),
        total_pages(call.total_pages) {}

#if WS_DEVICE_CODE
  __device__ __forceinline__ static int64_t at(const Lengths& lengths, int64_t b) {
    return thread::load(lengths.data + b * lengths.stride);
  }

  // Sequence b; one without queries, where what is said of it is wrong. kOwnsKeys: for who writes
  // rows of keys, of which each may have one writer: they are those that queries may see, and not
  // of a sequence that begins in one before.
  template <bool kOwnsKeys = false>
  __device__ __forceinline__ Sequence of(int64_t b) const {
    if (!packed) return {0, queries, 0, keys};
    // All that there is to read is asked for before any of it is looked at: one way to memory.
    Sequence found;
    found.first_query = at(starts_q, b);
    const int64_t end_query = at(starts_q, b + 1);
    const int64_t before = at(starts_q, b > 0 ? b - 1 : b);
    int64_t end_key = keys;
    if (starts_k.exists) {
      found.first_key = at(starts_k, b);
      end_key = at(starts_k, b + 1);
    }
    const int64_t used = used_k.exists ? at(used_k, b) : end_key - found.first_key;
    found.queries = end_query - found.first_query;
    bool is_right = found.first_query >= 0 && found.queries >= 0 && end_query <= queries;
    // Where starts fall, the sequence behind would begin in rows of one before.
    is_right = is_right && before <= found.first_query;
    const int64_t most = end_key - found.first_key;
    is_right = is_right && found.first_key >= 0 && most >= 0 && end_key <= keys;
    found.keys = used;
    is_right = is_right && found.keys >= 0 && found.keys <= most;
    if constexpr (kOwnsKeys) {
      is_right = is_right && (b == 0 || at(starts_k, b - 1) <= found.first_key);
    }
    if (!is_right) found.queries = 0;
    if (kOwnsKeys && found.queries == 0) found.keys = 0;
    return found;
  }

  // The sequence that query `row` of all belongs to: the last that begins at or before it.
  // `count` and more, or less than 0, where there is none.
  __device__ __forceinline__ int64_t of_row(int64_t row) const { return of_row(starts_q, row); }
  __device__ __forceinline__ int64_t of_row(const Lengths& starts, int64_t row) const {
    int64_t low = -1;
    int64_t high = count;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (at(starts, middle) <= row ? low : high) = middle;
    }
    return low;
  }

  // The sequence that query, or key, `row` of all is of, and its number: less than 0 where it is
  // nobody's, for whoever writes rows.
  struct Owner {
    int64_t batch = -1;
    Sequence sequence;
  };
  template <bool kOfKeys>
  __device__ __forceinline__ Owner owner_of(int64_t row) const {
    const int64_t b = of_row(kOfKeys ? starts_k : starts_q, row);
    if (b < 0) return {};
    const Sequence found = of<kOfKeys>(b);
    const int64_t end = kOfKeys ? found.first_key + found.keys : found.first_query + found.queries;
    return row < end ? Owner{b, found} : Owner{};
  }

  // The sequence that tile `index` of all belongs to, where each begins at tile start / rows + b:
  // the last that begins at or before it. Less than 0 where there is none.
  __device__ __forceinline__ int of_tile(int index, int rows) const {
    return of_tile(starts_q, index, rows);
  }
  __device__ __forceinline__ int of_tile(const Lengths& starts, int index, int rows) const {
    int low = -1;
    int high = static_cast<int>(count);
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (static_cast<int>(at(starts, middle)) / rows + middle <= index ? low : high) = middle;
    }
    return low;
  }

  // The page of sequence b that has its key j, and whether there is such a page.
  __device__ __forceinline__ int64_t page_of(int64_t b, int64_t j) const {
    return thread::load(pages + b * pages_batch + j / page * pages_column);
  }

  // Whether all pages are there that a sequence's keys lie in: asked by a warp.
  __device__ __forceinline__ bool has_its_pages(int64_t b, const Sequence& sequence) const {
    if (pages == nullptr) return true;
    bool are_there = true;
    for (int64_t j = lane_index() * page; j < sequence.keys; j += kWarpSize * page) {
      const int64_t at = page_of(b, j);
      are_there = are_there && at >= 0 && at < total_pages;
    }
    return ptx::vote_sync_all(kFullMask, are_there);
  }

  __device__ __forceinline__ KeyPlace place_of(int64_t b, const Sequence& sequence,
                                               int64_t j) const {
    if (pages == nullptr) return {packed ? 0 : b, sequence.first_key + j};
    return {page_of(b, j), j % page};
  }

  // Reports what is wrong, by threads index, index + threads ...
  __device__ __forceinline__ void report(int64_t index, int64_t threads) const {
    report_lengths(index, threads);
    if (pages == nullptr) return;
    const int64_t most_pages = keys / page;
    for (int64_t i = index; i < count * most_pages; i += threads) {
      const int64_t j = i % most_pages * page;
      if (j < at(used_k, i / most_pages)) check_page(page_of(i / most_pages, j), i);
    }
  }
  // ... of starts and lengths.
  __device__ __forceinline__ void report_lengths(int64_t index, int64_t threads) const {
    if (!packed) return;
    for (int64_t b = index; b < count; b += threads) {
      const int64_t first_query = at(starts_q, b);
      if (!check_q(first_query, b) || !check_q(at(starts_q, b + 1), b + 1, first_query)) continue;
      int64_t most = keys;
      if (starts_k.exists) {
        const int64_t first_key = at(starts_k, b);
        if (!check_k(first_key, b) || !check_k(at(starts_k, b + 1), b + 1, first_key)) continue;
        most = at(starts_k, b + 1) - first_key;
      }
      if (used_k.exists) check_used.below(most + 1)(at(used_k, b), b);
    }
  }
  // ... that `page` is no page, which is the nth of sequence b.
  __device__ __forceinline__ void report_page(int64_t b, int64_t nth, int64_t page) const {
    check_page(page, b * (keys / this->page) + nth);
  }
  // ... of so many pages of sequence b, from the first-th on; whether none is.
  __device__ __forceinline__ bool report_pages(int64_t b, int64_t first, int64_t end,
                                               int64_t threads) const {
    bool are_there = true;
#pragma unroll 1
    for (int64_t i = first; i < end; i += threads) {
      are_there &= check_page(thread::load(pages + b * pages_batch + i * pages_column),
                              b * (keys / page) + i);
    }
    return are_there;
  }
#endif
};

// Of a kernel's arguments: there is nothing to read where a call is dense.
struct DenseSequences {
  DenseSequences(const Call& /*call*/, const char* /*rung*/) {}
};
template <class AnyCall>
using SequencesOf = std::conditional_t<kIsPacked<AnyCall>, Sequences, DenseSequences>;

}  // namespace ws::attention
