// Runs small kernels in tests. The tests that use it hold in the emulator and, compiled by nvcc, on
// a GPU: there they check that the emulator does what the hardware does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "warpsmith/launch.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::test {

// Elements that host and kernels both reach.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t size) : size_(size) {
#ifdef WS_EMULATED
    data_ = static_cast<T*>(runtime::allocate(size * sizeof(T)));
#else
    ws::detail::check_cuda(cudaMallocManaged(&data_, size * sizeof(T)), "cudaMallocManaged");
#endif
    std::memset(static_cast<void*>(data_), 0, size * sizeof(T));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    std::ranges::copy(values, data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
#ifdef WS_EMULATED
    runtime::free(data_);
#else
    cudaFree(data_);
#endif
  }

  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// Until all that was launched has ended.
inline void wait() {
#ifndef WS_EMULATED
  ws::detail::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
}

// Launches and waits.
template <class Kernel>
void run(const Grid& grid, const typename Kernel::Arguments& arguments) {
  launch<Kernel>(grid, nullptr, arguments);
  wait();
}

// Calls body() with threads run forward, in reverse and in two random orders; on a GPU once.
template <class Body>
void in_every_order(Body body) {
#ifdef WS_EMULATED
  using emulator::Order;
  struct Case {
    const char* name;
    Order order;
    uint64_t seed;
  };
  const emulator::Options before = emulator::options();
  for (const Case& c : {Case{"forward", Order::kForward, 0}, Case{"reverse", Order::kReverse, 0},
                        Case{"random 1", Order::kRandom, 1}, Case{"random 2", Order::kRandom, 2}}) {
    SCOPED_TRACE(std::string("order ") + c.name);
    emulator::options().order = c.order;
    emulator::options().seed = c.seed;
    body();
  }
  emulator::options() = before;
#else
  body();
#endif
}

// Skips a test of a kernel that the GPU at hand cannot run.
#ifdef WS_EMULATED
#define WS_REQUIRE_ARCH(arch)
#else
inline int capability() {
  int major = 0;
  int minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return major * 10 + minor;
}
#define WS_REQUIRE_ARCH(arch) \
  if (!ws::runs_on(arch, ws::test::capability())) GTEST_SKIP() << "needs " << ws::to_string(arch)
#endif

#ifdef WS_EMULATED
// Expects the launch to end in this fault, with `words` in its message.
template <class Kernel>
void expect_fault(emulator::Fault fault, const std::string& words, const Grid& grid,
                  const typename Kernel::Arguments& arguments) {
  try {
    run<Kernel>(grid, arguments);
    ADD_FAILURE() << "no fault; expected " << emulator::to_string(fault) << " about " << words;
  } catch (const emulator::FaultError& error) {
    EXPECT_STREQ(emulator::to_string(error.fault()), emulator::to_string(fault)) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}
#endif

}  // namespace ws::test
