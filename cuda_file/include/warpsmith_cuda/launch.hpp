// What the rewriter puts into the file: launches, shared variables, device variables.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "warpsmith_cuda/types.hpp"

struct CUstream_st;
enum cudaError : unsigned;
typedef CUstream_st* cudaStream_t;  // NOLINT

namespace ws::cuda_file {

// The kernel of a launch, whoever owns its arguments: `call(object)` is one thread's run.
struct KernelCall {
  const char* name;
  const void* entry;   // the kernel's address where it is known: whose attributes count
  const void* object;  // arguments, which kernels may read where they stand
  size_t bytes;
  void (*call)(const void* object);
};

struct LaunchExtents {
  dim3 grid;
  dim3 block;
  size_t shared = 0;  // dynamic
  cudaStream_t stream = nullptr;
  dim3 cluster = dim3(1, 1, 1);
  bool cooperative = false;
};

// A kernel that is asked tells its __launch_bounds__, does nothing else and returns: each begins
// with `if (is_asked(its bounds)) return;`.
bool is_asked_at_most(long long threads);  // 0: no bound
template <class... Others>
bool is_asked(long long most_threads = 0, Others...) {
  return is_asked_at_most(most_threads);
}
// The answer of a kernel's call; 0: no bound.
int most_threads_by(void (*call)(const void*), const void* object);
int launch(const KernelCall& kernel, const LaunchExtents& extents, std::source_location place);

// What a launch keeps for a parameter: a reference stays one, to managed memory, say.
template <class Parameter>
using Kept = std::conditional_t<std::is_reference_v<Parameter>, Parameter, std::decay_t<Parameter>>;

// kernel<<<grid, block, shared, stream>>>(arguments) is
// launch_of("kernel", kernel).configure(grid, block, shared, stream)(arguments).
template <class Kernel, class... Parameters>
class Configured {
 public:
  Configured(const char* name, Kernel kernel) : name_(name), kernel_(kernel) {}

  Configured&& configure(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr,
                         std::source_location place = std::source_location::current()) && {
    extents_ = {grid, block, shared, stream};
    place_ = place;
    return std::move(*this);
  }

  // As __cluster_dims__ in its declaration says.
  Configured&& clustered(dim3 cluster) && {
    extents_.cluster = cluster;
    return std::move(*this);
  }

  // Arguments become the kernel's parameters here, on the host, once.
  void operator()(std::type_identity_t<Parameters>... arguments) && {
    run<Kept<Parameters>...>(reinterpret_cast<const void*>(kernel_),
                             std::forward<Parameters>(arguments)...);
  }

  template <class... Arguments>
  cudaError launch_as(const LaunchExtents& extents, Arguments&... arguments) && {
    extents_ = extents;
    return static_cast<cudaError>(run<Kept<Parameters>...>(reinterpret_cast<const void*>(kernel_),
                                                           static_cast<Parameters>(arguments)...));
  }

 protected:
  template <class... Values, class... Arguments>
  int run(const void* entry, Arguments&&... arguments) {
    struct Bound {
      Kernel kernel;
      std::tuple<Values...> arguments;
    } bound{kernel_, {std::forward<Arguments>(arguments)...}};
    return launch({name_, entry, &bound, sizeof(bound),
                   [](const void* object) {
                     // A thread has its own copies of them.
                     const auto& of = *static_cast<const Bound*>(object);
                     auto copies = of.arguments;
                     std::apply(of.kernel, copies);
                   }},
                  extents_, place_);
  }

 private:
  const char* name_;
  Kernel kernel_;
  LaunchExtents extents_;
  std::source_location place_;
};

template <class... Parameters>
Configured<void (*)(Parameters...), Parameters...> launch_of(const char* name,
                                                             void (*function)(Parameters...)) {
  return {name, function};
}

// A template, whose parameters the compiler finds from the arguments: `call` is a function that
// calls it.
template <class Call>
class Deduced : private Configured<Call> {
 public:
  using Configured<Call>::Configured;
  Deduced&& configure(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr,
                      std::source_location place = std::source_location::current()) && {
    static_cast<void>(
        std::move(*this).Configured<Call>::configure(grid, block, shared, stream, place));
    return std::move(*this);
  }
  Deduced&& clustered(dim3 cluster) && {
    static_cast<void>(std::move(*this).Configured<Call>::clustered(cluster));
    return std::move(*this);
  }
  template <class... Arguments>
  void operator()(Arguments&&... arguments) && {
    this->template run<std::decay_t<Arguments>...>(nullptr, std::forward<Arguments>(arguments)...);
  }
};
template <class Call>
Deduced<Call> launch_of_template(const char* name, Call call) {
  return {name, call};
}

// Of a kernel that can be called without its arguments, those of types whose copies are their
// bytes; else 0.
template <class... Parameters>
int most_threads_of(void (*kernel)(Parameters...)) {
  if constexpr ((std::is_trivially_copyable_v<std::remove_reference_t<Parameters>> && ...)) {
    struct Call {
      void (*kernel)(Parameters...);
      // Each argument is what stands here, and nobody looks at it.
      alignas(std::max_align_t) char zeros[(sizeof(std::remove_reference_t<Parameters>) + ... + 1)];
    } const object{kernel, {}};
    return most_threads_by(
        [](const void* of) {
          const auto& call = *static_cast<const Call*>(of);
          call.kernel(reinterpret_cast<std::remove_reference_t<Parameters>&>(
              const_cast<char&>(call.zeros[0]))...);
        },
        &object);
  }
  return 0;
}
inline int most_threads_of(const void*) { return 0; }  // a kernel that has lost its type

// A __shared__ variable: where it lies in the block's shared memory is found out by the first
// thread of a launch that comes by, and is the same for all blocks.
struct SharedVariable {
  const char* name;
  size_t bytes;
  size_t alignment;
  mutable unsigned long long known = 0;  // the launch's number and the offset
};
void* shared_variable(const SharedVariable& variable, std::source_location place);
void* dynamic_shared();

// `Name` is a function of the declaration's own type, so that each has a variable of its own.
template <class T, class Name>
WS_CUDA_INLINE T& shared(Name, std::source_location place = std::source_location::current()) {
  static constinit SharedVariable variable{Name()(), sizeof(T), alignof(T)};
  return *static_cast<T*>(shared_variable(variable, place));
}
// Of unknown extent: extern __shared__ T name[];
template <class T>
WS_CUDA_INLINE T& dynamic() {
  return *reinterpret_cast<T*>(dynamic_shared());
}
// The same outside of functions, where it can be no reference.
template <class T>
struct Dynamic {
  operator T*() const { return static_cast<T*>(dynamic_shared()); }  // NOLINT
  template <class Other>
  explicit operator Other*() const {  // of a cast
    return static_cast<Other*>(dynamic_shared());
  }
};

// A variable of the device.
enum class VariableKind { kDevice, kConstant, kManaged };
struct DeviceVariable {
  DeviceVariable(VariableKind kind, const volatile void* address, size_t bytes, const char* name,
                 std::source_location place = std::source_location::current());
};

}  // namespace ws::cuda_file
