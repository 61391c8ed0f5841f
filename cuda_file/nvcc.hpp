// For a GPU: where nvcc is, how it is called for an ordinary CUDA file, what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cuda_file/cuda_file.hpp"

namespace ws::cuda_file {

// A program in one of the folders or on PATH; empty where there is none.
std::string find_program(const std::string& name, std::vector<std::string> folders = {});
// In CUDA_HOME, on PATH or in /usr/local/cuda; empty where there is none.
std::string find_nvcc();

// `capability` is "9.0", as nvidia-smi tells it of the GPU; where nothing is known of one, nvcc is
// to find out.
std::string target_option(const std::string& capability);
std::string capability_here();

// The file as it is, in the dialect and with the headers that the emulator's programs have;
// `headers` are the folders that have warpsmith/ and what the samples bring along.
std::vector<std::string> nvcc_command(const std::string& nvcc, const std::string& target,
                                      const std::filesystem::path& source,
                                      const std::filesystem::path& program,
                                      const std::vector<std::filesystem::path>& headers,
                                      const BuildOptions& options);

// Of nvcc, ptxas, the host's compiler and the linker.
std::vector<Diagnostic> nvcc_diagnostics(const std::string& output);

}  // namespace ws::cuda_file
