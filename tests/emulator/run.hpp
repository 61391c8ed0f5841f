// Runs lambdas as kernels in the emulator, in every order, and expects what they should do or the
// fault that they should end in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "tests/run.hpp"

namespace ws::emulator {

// body(std::byte* shared) for each thread, with threads run forward, in reverse and in random
// orders.
template <class Body>
void run_kernel(const LaunchShape& shape, Body&& body) {
  test::in_every_order([&] { launch(shape, body); });
}

// The same; each run must end in `fault`, with `words` in its message.
template <class Body>
void expect_fault(Fault fault, const std::string& words, const LaunchShape& shape, Body&& body) {
  test::in_every_order([&] {
    try {
      launch(shape, body);
      ADD_FAILURE() << "no fault; expected " << to_string(fault) << " with the words: " << words;
    } catch (const FaultError& error) {
      EXPECT_STREQ(to_string(error.fault()), to_string(fault)) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_NE(error.context().place, "");
      EXPECT_NE(error.context().launch, "");
    }
  });
}

// ---- Planted bugs ------------------------------------------------------------------------------
// A kernel whose bug can be planted is a function of the host: kernel(bug) allocates, launches and
// says whether the results hold. Without the bug (false, or the first of an enum) it is correct.

// How many orders it meets: forward, reverse, and random ones.
inline constexpr int kOrders = 8;

template <class Body>
void in_orders(int orders, Body body) {
  const Options before = options();
  for (int i = 0; i < orders; ++i) {
    options().order = i == 0 ? Order::kForward : i == 1 ? Order::kReverse : Order::kRandom;
    options().seed = static_cast<uint64_t>(i);
    SCOPED_TRACE(concatenate("order ", to_string(options().order), ", seed ", i));
    body();
  }
  options() = before;
}

// once() launches; in each order it must end without a fault and with the right results.
template <class Once>
void expect_passes(Once once, int orders = kOrders) {
  in_orders(orders, [&] {
    try {
      EXPECT_TRUE(once());
    } catch (const FaultError& error) {
      ADD_FAILURE() << "a false alarm: " << error.what();
    }
  });
}

// In each order, or in at least so many, once() must end in a fault of one of these kinds.
template <class Once>
void expect_named(std::initializer_list<Fault> kinds, Once once, int least = kOrders,
                  int orders = kOrders) {
  int named = 0;
  std::string missed;
  in_orders(orders, [&] {
    try {
      missed += concatenate(" ", to_string(options().order), " ", options().seed,
                            once() ? " (right results)" : " (wrong results)");
    } catch (const FaultError& error) {
      ++named;
      EXPECT_TRUE(std::ranges::find(kinds, error.fault()) != kinds.end()) << error.what();
    }
  });
  EXPECT_GE(named, least) << "of " << orders << " orders; nothing was found in" << missed;
}

// Both of a kernel: correct it passes in every order, with the bug planted it is named.
template <class Kernel, class Bug = bool>
void expect_planted(std::initializer_list<Fault> kinds, Kernel kernel, Bug bug = Bug{true},
                    int least = kOrders, int orders = kOrders) {
  {
    SCOPED_TRACE("the correct kernel");
    expect_passes([&] { return kernel(Bug{}); }, orders);
  }
  SCOPED_TRACE("the planted bug");
  expect_named(kinds, [&] { return kernel(bug); }, least, orders);
}

// A launch whose blocks hold a Storage: body(Storage&) for each thread.
template <class Storage, class Body>
void launch_with(LaunchShape shape, Body body) {
  shape.shared_bytes = sizeof(Storage);
  launch(shape, [&](std::byte* shared) { body(*reinterpret_cast<Storage*>(shared)); });
}

// Whether found[i] is value(i), for all of them.
template <class T, class Value>
testing::AssertionResult equal(test::Buffer<T>& found, Value value) {
  for (size_t i = 0; i < found.size(); ++i) {
    const T expected = static_cast<T>(value(static_cast<int>(i)));
    if (!(found[i] == expected)) {
      return testing::AssertionFailure()
             << "element " << i << " is " << +found[i] << " instead of " << +expected;
    }
  }
  return testing::AssertionSuccess();
}

// Element i: value(i).
template <class T, class Value>
std::vector<T> filled(int size, Value value) {
  std::vector<T> all;
  for (int i = 0; i < size; ++i) all.push_back(static_cast<T>(value(i)));
  return all;
}

// ---- Shared memory by hand ---------------------------------------------------------------------

// The object of type T at this byte of the block's shared memory.
template <class T>
T& at(std::byte* shared, size_t byte) {
  return *reinterpret_cast<T*>(shared + byte);
}

// Ordinary accesses, checked as those of SharedArray are.
template <class T>
T load_shared(std::byte* shared, size_t byte, WS_PLACE) {
  T value;
  at(place);
  load_shared(&value, shared + byte, sizeof(T));
  return value;
}
template <class T>
void store_shared(std::byte* shared, size_t byte, T value WS_AND_PLACE) {
  at(place);
  store_shared(shared + byte, &value, sizeof(T));
}

}  // namespace ws::emulator
