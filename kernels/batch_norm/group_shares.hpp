// Gradients of groups of which each warp has a share: the job of share_jobs.hpp, and dweight and
// dbias, for which each share leaves the sums of its channels.
#pragma once

#include "kernels/batch_norm/groups.hpp"
#include "kernels/batch_norm/share_jobs.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct DifferentiateGroupShare {
  using Element = T;
  using Total = Sums;  // of grad * weight
  using Merge = PlusSums;
  static constexpr int kInputs = 2;  // grad, x
  struct Fetched {
    int64_t set;
    Normal normal;
    float of_first;  // a lane's weight, of the share's first 32 channels
  };

  GroupRule of;
  Shares shares;
  Sums* parts;  // [samples, channels, shares.most]

  template <class ShareOf>
  __device__ __forceinline__ Fetched fetch(const ShareOf& share, const Runs<T>& /*runs*/,
                                           int64_t set) const {
    return {set, of.normal(set), share.values(share.first_run(), weights(set))};
  }
  template <class ShareOf>
  __device__ __forceinline__ Total total(const ShareOf& share, const SetOf<T, 2>& /*set*/,
                                         const Fetched& fetched) const {
    Sums total = Sums::none();
    share.each_run(fetched.of_first, weights(fetched.set),
                   [&](int channel, int begin, int end, float weight) {
                     const Sums sums = sums_of_windows(share, begin, end, fetched.normal.mean);
                     total = PlusSums{}(total, {weight * sums.grad, weight * sums.product});
                     const Sums of_share = warp::all_reduce(sums, PlusSums{});
                     if (lane_index() == 0) {
                       const int64_t part = (fetched.set * of.width + channel) * shares.most;
                       const int nth = share.number() - shares.first_of(channel);
                       thread::store(parts + part + nth, Vec<Sums, 1>{{of_share}});
                     }
                   });
    return total;
  }
  template <class ShareOf>
  __device__ __forceinline__ void write(const ShareOf& share, const SetOf<T, 2>& set,
                                        const Fetched& fetched, const Total& total) const {
    share.each_run(fetched.of_first, weights(fetched.set),
                   [&](int /*channel*/, int begin, int end, float weight) {
                     store_gradients(share, begin, end, of.gradient(fetched.normal, weight, total),
                                     [&](int w) { return set.out + int64_t{w} * ShareOf::kWidth; });
                   });
  }
  __device__ __forceinline__ void finish(int64_t /*set*/, const Total& /*total*/) const {}
  __device__ __forceinline__ static Sums letter(const Total& total) { return total; }
  __device__ __forceinline__ static Total opened(const Sums& letter, float /*count*/) {
    return letter;
  }

 private:
  // Of a channel of the group.
  __device__ __forceinline__ auto weights(int64_t set) const {
    const int64_t first = set % of.groups * of.width;
    return [this, first](int channel) { return of.weight(first + channel); };
  }
};

// A warp a channel.
struct FinishChannelsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    GroupRule of;
    Shares shares;
    const Sums* parts;
    int64_t samples;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t c = block_index() * kWarps + warp_index();
    if (c >= a.of.channels) return;
    const int count = a.shares.count_of(static_cast<int>(c % a.of.width));
    const Sums total =
        a.of.sums_of<kWarpSize>(c, a.samples, count, lane_index(), [&](int64_t n, int64_t k) {
          return thread::load(a.parts + (n * a.of.channels + c) * a.shares.most + k);
        });
    if (lane_index() == 0) a.of.finish(c, total);
  }
};

#endif

// What the rungs of the job share.
struct GroupsOfShares {
  static bool supports(const BackwardCall& call, int64_t most_windows, Why& why) {
    const Layout& layout = call.layout;
    const int64_t windows = windows_of_set(layout, call.dtype);
    return shares_supported(layout, call.dtype, why) &&
           why.unless(windows <= most_windows, "holds ", most_windows, " vectors of a group, not ",
                      windows) &&
           why.unless(
               Shares::of_warps(layout, call.dtype, 1).gap == 0 &&
                   (layout.sets == layout.per || layout.sample[0] == layout.per * layout.count) &&
                   (layout.per == 1 || layout.set[0] == layout.count),
               "takes groups that are each a run of memory");
  }
  static size_t bytes(const BackwardCall& call, const Shares& shares) {
    constexpr size_t kBytesOfSums = 2 * sizeof(float);
    return static_cast<size_t>(call.rows.sets * shares.most) * kBytesOfSums;
  }
#if WS_DEVICE_CODE
  // dweight and dbias, after the launch that leaves the parts.
  template <class T>
  static void finish(const BackwardCall& call, const DifferentiateGroupShare<T>& job,
                     Stream stream) {
    using Finish = FinishChannelsKernel;
    launch<Finish>({.blocks = divide_up(job.of.channels, int64_t{Finish::kWarps}),
                    .threads = Finish::kThreads,
                    .overlaps = true},
                   stream, {job.of, job.shares, job.parts, call.layout.sets / call.layout.per});
  }
#endif
};

}  // namespace ws::batch_norm
