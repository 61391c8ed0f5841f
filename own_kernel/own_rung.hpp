// A kernel of somebody's own as a rung to the harness, verified by the code that verifies ours.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/selection.hpp"
#include "harness/verify.hpp"
#include "own_kernel/program.hpp"

namespace ws::own_kernel {

// The program makes all calls at once, in each order of threads; what they left is then given to
// the harness, call by call, as if the rung ran.
class OwnRung {
 public:
  OwnRung(Program& program, const Operation& operation, bool deterministic);
  OwnRung(const OwnRung&) = delete;
  OwnRung& operator=(const OwnRung&) = delete;
  ~OwnRung();

  // The problems of a selection that the function can be called on, for each dtype that it takes.
  // Throws InvalidArgument where that is none, and says why.
  std::vector<std::pair<DType, Case>> problems(const harness::Selection& selection) const;
  // A result for each, up to the first fault: a program that is broken tells no more.
  std::vector<harness::Verification> verify(std::span<const std::pair<DType, Case>> problems,
                                            uint64_t seed,
                                            const harness::SampleLimits& sample = {});

  // One run, seen by line; its counts, by the names of the emulator's.
  struct Seen {
    Profile profile;
    std::map<std::string, uint64_t> counts;
  };
  Seen profile(DType dtype, const Case& chosen, uint64_t seed);
  // Microseconds of runs on a GPU, sorted; fewer than `runs` where they take long.
  std::vector<float> time(DType dtype, const Case& chosen, uint64_t seed, int runs);

 private:
  // What a call of the rung knows.
  struct Call {
    std::array<void*, kMaxTensors> data;
  };
  static void make_call(const Problem& problem, void* place);
  static void run(const void* call, const Context& context);

  Program& program_;
  const Operation& original_;
  Operation operation_;  // the catalogue's, with calls of ours
  Implementation implementation_;
  Rung rung_;
  // What the next runs leave, in the order in which verify makes them; of that instance.
  static OwnRung* running_;
  const Problem* problem_ = nullptr;
  std::vector<const Left*> left_;
  size_t next_ = 0;
};

}  // namespace ws::own_kernel
