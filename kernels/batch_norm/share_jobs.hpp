// What is done with a set by warps that have a share of it each (shares.hpp). A job has:
//
//   Element; kInputs, how many tensors are read; Total, of a set, and how two Merge
//   fetch(share, runs, set) -> Fetched: numbers of the set, asked for while the share comes
//   total(share, set, fetched): a lane's part of the total
//   write(share, set, fetched, total): what becomes of the share
//   finish(set, total), by one thread
//   letter(total) -> Sums, opened(letter, count) -> Total: a total in 8 bytes, where it is known of
//   how many elements it is
#pragma once

#include "kernels/batch_norm/shares.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct NormaliseShare {
  using Element = T;
  using Total = thread::Moments;
  using Merge = MergeMoments;
  static constexpr int kInputs = 1;
  static constexpr int kWidth = row::kWidest<T>;
  struct Fetched {
    int64_t channel;  // the set's first
    bool several;
    Parameters of_first;  // a lane has those of a run: of the share's first 32, where several
  };

  Values weight;
  Values bias;
  Statistics statistics;

  static NormaliseShare of(const ForwardCall& call) {
    return {call.weight, call.bias, statistics_of(call)};
  }
  template <class ShareOf>
  __device__ __forceinline__ Fetched fetch(const ShareOf& share, const Runs<T>& runs,
                                           int64_t set) const {
    const int64_t channel = runs.number(set) * runs.width;
    const bool several = runs.width > 1;
    return {
        channel, several,
        several ? share.values(share.first_run(), parameters(channel)) : parameters(channel)(0)};
  }
  template <class ShareOf>
  __device__ __forceinline__ Total total(const ShareOf& share, const SetOf<T, 1>& set,
                                         const Fetched& /*fetched*/) const {
    Running running;
    if (lane_index() < share.count()) {
      running = Running(share.load(0, share.first() + lane_index())[0]);
    }
#pragma unroll 4
    for (int w = share.first() + lane_index(); w < share.held(); w += kWarpSize) {
      running.add_more<kWidth>(share.load(0, w));
    }
    share.template each_rest<false>(
        set, [&](int /*w*/, const auto& x) { running.add_more<kWidth>(x[0]); });
    return running.moments();
  }
  template <class ShareOf>
  __device__ __forceinline__ void write(const ShareOf& share, const SetOf<T, 1>& set,
                                        const Fetched& fetched, const Total& total) const {
    const Normal normal = statistics.normal(total);
    const auto write = [&](const typename ShareOf::Packed& x, T* to, const Parameters& of) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = thread::fma(x[i] - normal.mean, of.weight, of.bias);
      thread::store(to, thread::convert<T>(out));
    };
    const auto parameters = this->parameters(fetched.channel);
    const Parameters of_first{normal.rstd * fetched.of_first.weight, fetched.of_first.bias};
    share.template each_rest<true>(set, [&](int w, const auto& x) {
      Parameters of = of_first;
      if (fetched.several) {
        of = parameters(share.run_of(w));
        of.weight *= normal.rstd;
      }
      write(x[0], set.out + share.at(w), of);
    });
    if (fetched.several) {
      share.each_run(fetched.of_first, parameters, [&](int run, int begin, int end, Parameters of) {
        of.weight *= normal.rstd;
        T* to = set.out + share.at(run, begin + lane_index());
#pragma unroll 2
        for (int w = begin + lane_index(); w < end; w += kWarpSize) {
          write(share.load(0, w), to, of);
          to += kWarpSize * kWidth;
        }
      });
    } else {
#pragma unroll 4
      for (int w = share.first() + lane_index(); w < share.held(); w += kWarpSize) {
        write(share.load(0, w), set.out + share.at(w), of_first);
      }
    }
  }
  __device__ __forceinline__ void finish(int64_t set, const Total& total) const {
    statistics.finish(set, total);
  }
  __device__ __forceinline__ static Sums letter(const Total& total) {
    return {total.mean, total.squares};
  }
  __device__ __forceinline__ static Total opened(const Sums& letter, float count) {
    return {count, letter.grad, letter.product, 0.0F};
  }

 private:
  // Of a run of the set.
  __device__ __forceinline__ auto parameters(int64_t channel) const {
    return [this, channel](int run) { return Parameters::of(weight, bias, channel + run); };
  }
};

template <class T>
struct DifferentiateShare {
  using Element = T;
  using Total = Sums;
  using Merge = PlusSums;
  static constexpr int kInputs = 2;  // grad, x
  struct Fetched {
    Normal normal;
    float weight;
  };

  GradientRule rule;

  static DifferentiateShare of(const BackwardCall& call) { return {rule_of(call)}; }
  template <class ShareOf>
  __device__ __forceinline__ Fetched fetch(const ShareOf& /*share*/, const Runs<T>& /*runs*/,
                                           int64_t c) const {
    return {{rule.mean_of(c), of_channel(rule.rstd, c)}, of_channel(rule.weight, c, 1.0F)};
  }
  template <class ShareOf>
  __device__ __forceinline__ Total total(const ShareOf& share, const SetOf<T, 2>& set,
                                         const Fetched& fetched) const {
    const float mean = fetched.normal.mean;
    Sums sums = sums_of_windows(share, share.first(), share.held(), mean);
    share.template each_rest<false>(set, [&](int /*w*/, const auto& x) {
      add_window<ShareOf::kWidth>(sums, x[0], x[1], mean);
    });
    return sums;
  }
  template <class ShareOf>
  __device__ __forceinline__ void write(const ShareOf& share, const SetOf<T, 2>& set,
                                        const Fetched& fetched, const Total& total) const {
    const Gradient gradient = rule.gradient(fetched.normal, fetched.weight, total);
    share.template each_rest<true>(set, [&](int w, const auto& x) {
      store_window<ShareOf>(x[0], x[1], gradient, set.out + share.at(w));
    });
    store_gradients(share, share.first(), share.held(), gradient,
                    [&](int w) { return set.out + share.at(w); });
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    rule.finish(c, total);
  }
  __device__ __forceinline__ static Sums letter(const Total& total) { return total; }
  __device__ __forceinline__ static Total opened(const Sums& letter, float /*count*/) {
    return letter;
  }
};

// A cluster a set.
template <class Job, class Shape>
struct ClusterOfSharesKernel {
  using T = typename Job::Element;
  using Total = typename Job::Total;
  using Merge = typename Job::Merge;
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  using ShareOf = ShareOfWarp<T, Shape, Job::kInputs>;
  using AllReduce = cluster::AllReduce<Total, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Shares shares;
    Job job;
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    typename AllReduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t s = block_index() / cluster_size();
    const typename ShareOf::Set set(a.runs, s);
    ShareOf share(shared.share, a.shares, cluster_rank());
    share.fetch(set);
    const auto fetched = a.job.fetch(share, a.runs, s);
    AllReduce all_reduce(shared.totals);  // the cluster meets
    share.wait();
    const Total total = all_reduce(a.job.total(share, set, fetched), Total::none(), Merge{});
    a.job.write(share, set, fetched, total);
    if (cluster_rank() == 0 && thread_index() == kThreads - 1) a.job.finish(s, total);
    all_reduce.finish();
  }
};

#endif

// The rung of a job. Job<T>::of(call) is what goes to the kernel.
template <class Call, template <class> class Job>
struct ClusterOfShares {
  using Shapes = ShareShapes<Job<float>::kInputs>;

  static bool supports(const Call& call, Why& why) {
    return Shapes::takes(call.layout, call.dtype, why);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::with_shape(call.layout, call.dtype, [&]<class Shape>() {
        using Kernel = ClusterOfSharesKernel<Job<T>, Shape>;
        const int blocks = Shape::blocks(call.layout, call.dtype);
        launch<Kernel>(
            {.blocks = call.layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
            context.stream,
            {runs_of<T>(call.layout, call.dtype), Shares::of<Shape>(call.layout, call.dtype),
             Job<T>::of(call)});
      });
    });
  }
};

}  // namespace ws::batch_norm
