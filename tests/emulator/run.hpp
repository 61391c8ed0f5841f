// Runs lambdas as kernels in the emulator, in every order, and expects what they should do or the
// fault that they should end in.
#pragma once

#include <gtest/gtest.h>

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

// The object of type T at this byte of the block's shared memory.
template <class T>
T& at(std::byte* shared, size_t byte) {
  return *reinterpret_cast<T*>(shared + byte);
}

// Ordinary accesses, checked as those of SharedArray are.
template <class T>
T load_shared(std::byte* shared, size_t byte) {
  read_shared(shared + byte, sizeof(T), "shared load");
  return at<T>(shared, byte);
}
template <class T>
void store_shared(std::byte* shared, size_t byte, T value) {
  write_shared(shared + byte, sizeof(T), "shared store");
  at<T>(shared, byte) = value;
}

}  // namespace ws::emulator
