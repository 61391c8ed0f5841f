// A kernel of somebody's own as a program that makes the calls it is asked for, in a process of its
// own: what it does wrong ends that process and not this one.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_file/cuda_file.hpp"
#include "harness/instance.hpp"
#include "own_kernel/signature.hpp"

namespace ws::own_kernel {

struct Limits {
  double seconds = 60;  // of one run of the program
  uint64_t memory_bytes = uint64_t{4} << 30;
};

// What a call left: the bytes of all its tensors, one behind the other, or what went wrong.
struct Left {
  std::string failure;
  std::string defect_kind;  // the emulator's name of a fault: "race"
  std::vector<std::byte> bytes;
  std::vector<float> microseconds;  // of timed runs
};

class Program {
 public:
  // The file as it stands, with calls of `operation` around it. Throws as cuda_file::build() does.
  Program(const std::filesystem::path& source, const Operation& operation, const Limits& limits);

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  const cuda_file::Built& built() const { return built_; }
  // How the function is called on this dtype; none where the file has none that can be.
  std::optional<Form> form(DType dtype) const;
  DTypes dtypes() const;
  // As it is called then; throws InvalidArgument where it cannot be.
  Signature signature(DType dtype) const;

  struct Run {
    std::string order = "forward";  // of the emulator's threads
    std::byte poison = harness::kFirstPoison;
    bool profile = false;
    int timed_runs = 0;  // on a GPU
  };
  // A call on each of the instances, up to the first that ends the process.
  std::vector<Left> run(std::span<const harness::Instance* const> instances, const Run& how,
                        cuda_file::Outcome* outcome = nullptr);

 private:
  void write_request(std::span<const harness::Instance* const> instances, const Run& how) const;
  std::vector<Left> read_response(std::span<const harness::Instance* const> instances,
                                  int timed_runs);

  const Operation& operation_;
  Limits limits_;
  cuda_file::Built built_;
  std::filesystem::path folder_;
  std::vector<std::pair<DType, Form>> entries_;  // that the program asks for
  std::vector<bool> is_there_;                   // by entry
};

// The bytes of a tensor in what a call left.
size_t bytes_of(const Tensor& tensor);

}  // namespace ws::own_kernel
