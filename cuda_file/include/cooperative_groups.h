// Cooperative groups: the block, tiles of a warp, the lanes that are active, the grid, the cluster.
#pragma once

#include <cuda_runtime.h>

// NOLINTBEGIN
namespace cooperative_groups {

namespace device = ::ws::cuda_file::device;

namespace detail {
WS_CUDA_INLINE unsigned thread_in_block() { return device::thread_number(); }
WS_CUDA_INLINE unsigned block_in_grid() {
  const uint3 t = device::block_index();
  const dim3 g = device::grid_extent();
  return (t.z * g.y + t.y) * g.x + t.x;
}
WS_CUDA_INLINE unsigned volume(dim3 d) { return d.x * d.y * d.z; }
}  // namespace detail

class thread_block {
 public:
  using size_type = unsigned;
  static void sync(WS_CUDA_PLACE) { __syncthreads(place); }
  void barrier_wait(WS_CUDA_PLACE) const { __syncthreads(place); }
  static unsigned thread_rank() { return detail::thread_in_block(); }
  static unsigned size() { return detail::volume(device::block_extent()); }
  static unsigned num_threads() { return size(); }
  static uint3 group_index() { return device::block_index(); }
  static uint3 thread_index() { return device::thread_index(); }
  static dim3 group_dim() { return device::block_extent(); }
  static dim3 dim_threads() { return device::block_extent(); }
};
WS_CUDA_INLINE thread_block this_thread_block() { return {}; }

// Lanes of a warp, by their mask: what tiles and coalesced groups have in common.
class lanes_group {
 public:
  using size_type = unsigned;
  WS_CUDA_INLINE explicit lanes_group(unsigned mask) : mask_(mask) {}
  WS_CUDA_INLINE void sync(WS_CUDA_PLACE) const { __syncwarp(mask_, place); }
  WS_CUDA_INLINE unsigned size() const { return static_cast<unsigned>(__popc(mask_)); }
  WS_CUDA_INLINE unsigned num_threads() const { return size(); }
  WS_CUDA_INLINE unsigned thread_rank() const {
    const unsigned lane = detail::thread_in_block() % 32;
    return static_cast<unsigned>(__popc(mask_ & ((1u << lane) - 1)));
  }
  template <class T>
  WS_CUDA_INLINE T shfl(T value, int rank, WS_CUDA_PLACE) const {
    return __shfl_sync(mask_, value, lane_of(rank % static_cast<int>(size())), 32, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_down(T value, unsigned delta, WS_CUDA_PLACE) const {
    const unsigned from = thread_rank() + delta;
    return __shfl_sync(mask_, value,
                       lane_of(static_cast<int>(from < size() ? from : thread_rank())), 32, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_up(T value, unsigned delta, WS_CUDA_PLACE) const {
    const unsigned mine = thread_rank();
    return __shfl_sync(mask_, value, lane_of(static_cast<int>(mine >= delta ? mine - delta : mine)),
                       32, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_xor(T value, unsigned bits, WS_CUDA_PLACE) const {
    const unsigned from = thread_rank() ^ bits;
    return __shfl_sync(mask_, value,
                       lane_of(static_cast<int>(from < size() ? from : thread_rank())), 32, place);
  }
  WS_CUDA_INLINE int any(int predicate, WS_CUDA_PLACE) const {
    return __any_sync(mask_, predicate, place);
  }
  WS_CUDA_INLINE int all(int predicate, WS_CUDA_PLACE) const {
    return __all_sync(mask_, predicate, place);
  }
  WS_CUDA_INLINE unsigned ballot(int predicate, WS_CUDA_PLACE) const {
    return packed(__ballot_sync(mask_, predicate, place));
  }
  template <class T>
  WS_CUDA_INLINE unsigned match_any(T value, WS_CUDA_PLACE) const {
    return packed(__match_any_sync(mask_, value, place));
  }
  template <class T>
  WS_CUDA_INLINE unsigned match_all(T value, int& predicate, WS_CUDA_PLACE) const {
    return packed(__match_all_sync(mask_, value, &predicate, place));
  }
  WS_CUDA_INLINE unsigned ws_mask() const { return mask_; }

 protected:
  // The lane with this rank.
  WS_CUDA_INLINE int lane_of(int rank) const {
    unsigned mask = mask_;
    for (; rank > 0; --rank) mask &= mask - 1;
    return __ffs(static_cast<int>(mask)) - 1;
  }
  // A set of lanes as one of ranks.
  WS_CUDA_INLINE unsigned packed(unsigned lanes) const {
    unsigned result = 0;
    unsigned rank = 0;
    for (unsigned mask = mask_; mask != 0; mask &= mask - 1, ++rank) {
      if ((lanes & mask & -mask) != 0) result |= 1u << rank;
    }
    return result;
  }

 private:
  unsigned mask_;
};

class coalesced_group : public lanes_group {
 public:
  using lanes_group::lanes_group;
  static unsigned meta_group_rank() { return 0; }
  static unsigned meta_group_size() { return 1; }
};
WS_CUDA_INLINE coalesced_group coalesced_threads(WS_CUDA_PLACE) {
  return coalesced_group(__activemask(place));
}

template <unsigned kSize, class Parent = void>
class thread_block_tile : public lanes_group {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "a tile has a power of two of threads, up to 32");

 public:
  WS_CUDA_INLINE thread_block_tile() : lanes_group(mask_here()) {}
  template <class Other>
  WS_CUDA_INLINE thread_block_tile(const thread_block_tile<kSize, Other>& other)
      : lanes_group(other) {}
  static unsigned thread_rank() { return detail::thread_in_block() % kSize; }
  static constexpr unsigned size() { return kSize; }
  static constexpr unsigned num_threads() { return kSize; }
  static unsigned meta_group_rank() { return detail::thread_in_block() / kSize; }
  static unsigned meta_group_size() {
    return (detail::volume(device::block_extent()) + kSize - 1) / kSize;
  }
  template <class T>
  WS_CUDA_INLINE T shfl(T value, int rank, WS_CUDA_PLACE) const {
    return __shfl_sync(ws_mask(), value, rank, kSize, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_down(T value, unsigned delta, WS_CUDA_PLACE) const {
    return __shfl_down_sync(ws_mask(), value, delta, kSize, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_up(T value, unsigned delta, WS_CUDA_PLACE) const {
    return __shfl_up_sync(ws_mask(), value, delta, kSize, place);
  }
  template <class T>
  WS_CUDA_INLINE T shfl_xor(T value, unsigned bits, WS_CUDA_PLACE) const {
    return __shfl_xor_sync(ws_mask(), value, static_cast<int>(bits), kSize, place);
  }

 private:
  // A block's last warp may have fewer lanes.
  static unsigned mask_here() {
    const unsigned first = detail::thread_in_block() % 32 / kSize * kSize;
    const unsigned there =
        detail::volume(device::block_extent()) - detail::thread_in_block() / 32 * 32;
    const unsigned all = there >= 32 ? 0xFFFFFFFFu : (1u << there) - 1;
    const unsigned tile = kSize == 32 ? 0xFFFFFFFFu : ((1u << kSize) - 1) << first;
    return tile & all;
  }
};
template <unsigned kSize, class Parent>
WS_CUDA_INLINE thread_block_tile<kSize, Parent> tiled_partition(const Parent&) {
  return {};
}

// Of a size that is known when it runs.
class thread_group : public lanes_group {
 public:
  WS_CUDA_INLINE thread_group(const thread_block&) : lanes_group(0), is_block_(true) {}
  WS_CUDA_INLINE thread_group(const lanes_group& lanes) : lanes_group(lanes) {}
  WS_CUDA_INLINE void sync(WS_CUDA_PLACE) const {
    is_block_ ? __syncthreads(place) : lanes_group::sync(place);
  }
  WS_CUDA_INLINE unsigned size() const {
    return is_block_ ? thread_block::size() : lanes_group::size();
  }
  WS_CUDA_INLINE unsigned num_threads() const { return size(); }
  WS_CUDA_INLINE unsigned thread_rank() const {
    return is_block_ ? thread_block::thread_rank() : lanes_group::thread_rank();
  }

 private:
  bool is_block_ = false;
};
WS_CUDA_INLINE thread_group tiled_partition(const thread_group& parent, unsigned size) {
  const unsigned first = detail::thread_in_block() % 32 / size * size;
  const unsigned tile = size >= 32 ? 0xFFFFFFFFu : ((1u << size) - 1) << first;
  const unsigned all = parent.ws_mask() != 0 ? parent.ws_mask() : 0xFFFFFFFFu;
  return lanes_group(tile & all);
}
template <class Group>
WS_CUDA_INLINE coalesced_group binary_partition(const Group& group, bool predicate, WS_CUDA_PLACE) {
  const unsigned yes = __ballot_sync(group.ws_mask(), predicate, place);
  return coalesced_group(predicate ? yes : group.ws_mask() & ~yes);
}
template <class Group, class Label>
WS_CUDA_INLINE coalesced_group labeled_partition(const Group& group, Label label, WS_CUDA_PLACE) {
  return coalesced_group(__match_any_sync(group.ws_mask(), label, place));
}

class grid_group {
 public:
  static void sync(WS_CUDA_PLACE) { device::sync_grid(place); }
  static bool is_valid() { return device::is_cooperative(); }
  static unsigned long long thread_rank() {
    return static_cast<unsigned long long>(detail::block_in_grid()) *
               detail::volume(device::block_extent()) +
           detail::thread_in_block();
  }
  static unsigned long long block_rank() { return detail::block_in_grid(); }
  static dim3 block_index() { return device::block_index(); }
  static unsigned long long size() {
    return static_cast<unsigned long long>(detail::volume(device::grid_extent())) *
           detail::volume(device::block_extent());
  }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long num_blocks() { return detail::volume(device::grid_extent()); }
  static dim3 group_dim() { return device::grid_extent(); }
  static dim3 dim_blocks() { return device::grid_extent(); }
};
WS_CUDA_INLINE grid_group this_grid() { return {}; }

class cluster_group {
 public:
  static void sync(WS_CUDA_PLACE) {
    device::arrive_cluster(place);
    device::wait_cluster(place);
  }
  static void barrier_arrive(WS_CUDA_PLACE) { device::arrive_cluster(place); }
  static void barrier_wait(WS_CUDA_PLACE) { device::wait_cluster(place); }
  static unsigned block_rank() { return device::cluster_rank(); }
  static unsigned num_blocks() { return device::cluster_blocks(); }
  static dim3 block_index() { return dim3(device::cluster_rank(), 0, 0); }
  static dim3 dim_blocks() { return dim3(device::cluster_blocks()); }
  static dim3 dim_threads() {
    const dim3 block = device::block_extent();
    return dim3(device::cluster_blocks() * block.x, block.y, block.z);
  }
  static dim3 thread_index() {
    const uint3 at = device::thread_index();
    return dim3(device::cluster_rank() * device::block_extent().x + at.x, at.y, at.z);
  }
  static unsigned thread_rank() {
    return device::cluster_rank() * detail::volume(device::block_extent()) +
           detail::thread_in_block();
  }
  static unsigned num_threads() {
    return device::cluster_blocks() * detail::volume(device::block_extent());
  }
  static unsigned size() { return num_threads(); }
  template <class T>
  static T* map_shared_rank(T* shared, int rank, WS_CUDA_PLACE) {
    return static_cast<T*>(device::map_to_rank(shared, static_cast<unsigned>(rank), place));
  }
};
WS_CUDA_INLINE cluster_group this_cluster() { return {}; }

template <class Group>
WS_CUDA_INLINE void sync(const Group& group, WS_CUDA_PLACE) {
  group.sync(place);
}
WS_CUDA_INLINE void sync(const thread_block&, WS_CUDA_PLACE) { __syncthreads(place); }
WS_CUDA_INLINE void sync(const grid_group&, WS_CUDA_PLACE) { device::sync_grid(place); }

// By one of a group's threads.
template <class Group, class Function, class... Arguments>
WS_CUDA_INLINE void invoke_one(const Group& group, Function&& function, Arguments&&... arguments) {
  if (group.thread_rank() == 0) function(static_cast<Arguments&&>(arguments)...);
}

// Copies by all threads of a group, which wait for them: an element a thread at a time. Of a layout
// in elements the smaller number counts.
template <class Group, class To, class From>
WS_CUDA_INLINE void memcpy_async(const Group& group, To* to, size_t to_elements, const From* from,
                                 size_t from_elements) {
  const size_t elements = to_elements < from_elements ? to_elements : from_elements;
  for (size_t i = group.thread_rank(); i < elements; i += group.num_threads()) to[i] = from[i];
}
template <class Group, class T>
WS_CUDA_INLINE void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  memcpy_async(group, to, bytes / sizeof(T), from, bytes / sizeof(T));
  for (size_t i = bytes / sizeof(T) * sizeof(T) + group.thread_rank(); i < bytes;
       i += group.num_threads()) {
    reinterpret_cast<char*>(to)[i] = reinterpret_cast<const char*>(from)[i];
  }
}
template <class Group>
WS_CUDA_INLINE void wait(const Group& group, WS_CUDA_PLACE) {
  sync(group, place);
}
template <unsigned kStages, class Group>
WS_CUDA_INLINE void wait_prior(const Group& group, WS_CUDA_PLACE) {
  sync(group, place);
}

template <class T>
struct plus {
  WS_CUDA_INLINE T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  WS_CUDA_INLINE T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  WS_CUDA_INLINE T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  WS_CUDA_INLINE T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  WS_CUDA_INLINE T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  WS_CUDA_INLINE T operator()(T a, T b) const { return a ^ b; }
};

// Of the values of a group's lanes, for each of them.
template <class Group, class T, class Operation>
WS_CUDA_INLINE T reduce(const Group& group, T value, Operation operation, WS_CUDA_PLACE) {
  T total = group.shfl(value, 0, place);
  for (unsigned i = 1; i < group.size(); ++i) {
    total = operation(total, group.shfl(value, static_cast<int>(i), place));
  }
  return total;
}
template <class Group, class T, class Operation>
WS_CUDA_INLINE T inclusive_scan(const Group& group, T value, Operation operation, WS_CUDA_PLACE) {
  const unsigned mine = group.thread_rank();
  for (unsigned delta = 1; delta < group.size(); delta *= 2) {
    const T other = group.shfl_up(value, delta, place);
    if (mine >= delta) value = operation(other, value);
  }
  return value;
}
template <class Group, class T>
WS_CUDA_INLINE T inclusive_scan(const Group& group, T value, WS_CUDA_PLACE) {
  return inclusive_scan(group, value, plus<T>(), place);
}
template <class Group, class T, class Operation>
WS_CUDA_INLINE T exclusive_scan(const Group& group, T value, Operation operation, WS_CUDA_PLACE) {
  const T sum = inclusive_scan(group, value, operation, place);
  const T before = group.shfl_up(sum, 1, place);
  return group.thread_rank() == 0 ? T{} : before;
}
template <class Group, class T>
WS_CUDA_INLINE T exclusive_scan(const Group& group, T value, WS_CUDA_PLACE) {
  return exclusive_scan(group, value, plus<T>(), place);
}

}  // namespace cooperative_groups
// NOLINTEND
