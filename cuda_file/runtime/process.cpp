#include "cuda_file/runtime/process.hpp"

#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction, kill
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "cuda_file/include/warpsmith_cuda/api.hpp"
#include "cuda_file/report.hpp"
#include "cuda_file/runtime/frame.hpp"
#include "cuda_file/runtime/memory.hpp"
#include "cuda_file/runtime/places.hpp"

namespace ws::cuda_file {
namespace {

// ---- What is told ------------------------------------------------------------------------------

struct Told {
  std::mutex mutex;
  std::vector<LaunchReport> launches;
  bool times_asked = false;
  bool written = false;
};
Told& told() {
  static auto& instance = *new Told;
  return instance;
}

struct ApiError {
  int error = 0;
  std::string what;
  emulator::Place place;
};
thread_local ApiError pending;
// ... of whichever host thread, for the end.
ApiError& unasked() {
  static auto& instance = *new ApiError;
  return instance;
}

bool profiles() {
  static const bool on = std::getenv(kProfileVariable) != nullptr;
  return on;
}

void write_report(const FaultReport* fault) {
  Told& of = told();
  const std::lock_guard lock(of.mutex);
  if (std::exchange(of.written, true)) return;
  std::fflush(stdout);
  const char* path = std::getenv(kReportVariable);
  if (path == nullptr) {
    if (fault != nullptr) fmt::print(stderr, "{}\n", fault->text());
    return;
  }
  Json report = {{"launches", Json::array()}, {"faults", Json::array()}};
  for (const LaunchReport& launch : of.launches) report["launches"].push_back(to_json(launch));
  if (fault != nullptr) report["faults"].push_back(to_json(*fault));
  report["times_asked"] = of.times_asked;
  // After a fault other host threads may still be at work.
  if (profiles() && fault == nullptr) report["profile"] = to_json(end_profile());
  std::ofstream(path) << report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string order_text() {
  const emulator::Options& options = emulator::options();
  std::string text = emulator::to_string(options.order);
  if (options.order == emulator::Order::kRandom) text += fmt::format(", seed {}", options.seed);
  return text;
}

Extent3 extent(const uint3& at) { return {at.x, at.y, at.z}; }

std::string launch_text(const Frame& of) {
  const auto three = [](const dim3& d) {
    return d.z > 1   ? fmt::format("{} x {} x {}", d.x, d.y, d.z)
           : d.y > 1 ? fmt::format("{} x {}", d.x, d.y)
                     : fmt::format("{}", d.x);
  };
  std::string text = fmt::format("{}: {} blocks of {} threads", emulator::to_string(of.place),
                                 three(of.extents.grid), three(of.extents.block));
  if (of.extents.shared > 0) text += fmt::format(", {} bytes of shared memory", of.extents.shared);
  if (of.extents.cooperative) text += ", cooperative";
  return text;
}

void put_in_launch(FaultReport& fault, const Frame& of, int64_t block, int thread) {
  fault.kernel = of.kernel.name;
  fault.launch = launch_text(of);
  fault.block = extent(block_position(of, block));
  fault.thread = extent(thread_position(of, thread));
}

void put_in_place(FaultReport& fault, emulator::Place place) {
  if (place.line() == 0) return;
  fault.file = place.file_name();
  fault.line = static_cast<int>(place.line());
}

void fault_of_emulator(const emulator::FaultError& error) {
  FaultReport fault;
  fault.kind = emulator::to_string(error.fault());
  fault.message = error.message();
  const std::string prefix = fault.kind + ": ";
  if (fault.message.starts_with(prefix)) fault.message.erase(0, prefix.size());
  put_in_place(fault, error.place());
  if (frame != nullptr) put_in_launch(fault, *frame, error.block(), error.thread());
  end_with(std::move(fault));
}

// ---- Signals -----------------------------------------------------------------------------------

// Where the signal came, as far as that can be said.
void put_in_here(FaultReport& fault, const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  put_in_place(fault, place_in_stack(reinterpret_cast<const void*>(registers[REG_RIP])));
  if (emulator::current_thread != nullptr) return;  // end_with() knows
  if (const Frame* of = running_frame()) {
    fault.kernel = of->kernel.name;
    fault.launch = launch_text(*of);
  }
}

void crash(int signal, siginfo_t* info, void* context) {
  static std::atomic_flag before;
  if (before.test_and_set()) _exit(kFaultCode);
  FaultReport fault;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const Allocation* of = signal == SIGSEGV || signal == SIGBUS ? find(address) : nullptr;
  const bool in_kernel = emulator::current_thread != nullptr;
  if (of != nullptr && !in_kernel) {
    fault.kind = "host access";
    fault.message =
        fmt::format("host code reaches {} at byte {}{}", of->text(), address - of->begin,
                    of->freed ? fmt::format(", freed at {}", emulator::to_string(of->freed_at))
                              : ": device memory goes through cudaMemcpy");
  } else if (signal == SIGSEGV || signal == SIGBUS) {
    fault.kind = in_kernel ? "illegal address" : "crash";
    fault.message = fmt::format(
        "there is no memory at {} ({})", info->si_addr,
        in_kernel ? "or the thread's stack has overflown" : "segmentation fault in host code");
  } else if (signal == SIGFPE) {
    fault.kind = "crash";
    fault.message = "an integer is divided by zero";
  } else {
    fault.kind = "crash";
    fault.message = fmt::format("signal {}, {}", signal, strsignal(signal));
  }
  put_in_here(fault, context);
  end_with(std::move(fault));
}

// `warpsmith run` says that time or memory is over.
void stop(int signal, siginfo_t*, void* context) {
  FaultReport fault;
  fault.kind = signal == SIGALRM ? "time" : "memory";
  put_in_here(fault, context);
  if (const Frame* of = running_frame()) {
    const auto blocks =
        static_cast<uint64_t>(of->extents.grid.x) * of->extents.grid.y * of->extents.grid.z;
    fault.message =
        fmt::format("{} of {} blocks of this launch have begun", of->blocks_begun.load(), blocks);
  } else {
    fault.message = "in host code";
  }
  end_with(std::move(fault));
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(signal, &action, nullptr);
}

// ---- Begin and end -----------------------------------------------------------------------------

void at_end() {
  ApiError& error = unasked();
  if (error.error != 0) {
    FaultReport fault;
    fault.kind = "launch";
    fault.message =
        fmt::format("{}: {}: nobody has asked cudaGetLastError()",
                    cudaGetErrorName(static_cast<cudaError_t>(error.error)), error.what);
    put_in_place(fault, error.place);
    end_with(std::move(fault));
  }
  write_report(nullptr);
}

struct Process {
  Process() {
    static std::array<std::byte, 256 * 1024> stack;
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    sigaltstack(&alternate, nullptr);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) handle(signal, crash);
    for (const int signal : {SIGALRM, SIGXCPU}) handle(signal, stop);
    emulator::fault_handler = fault_of_emulator;
    std::atexit(at_end);
    if (profiles()) begin_profile();
  }
};

}  // namespace

// Before the file's own statics.
[[gnu::init_priority(101)]] Process process;

void end_with(FaultReport fault) {
  fault.order = order_text();
  if (!fault.block && emulator::current_thread != nullptr && frame != nullptr) {
    const emulator::Thread& me = *emulator::current_thread;
    put_in_launch(fault, *frame, me.block->index, me.index);
  }
  // A thread's own stack may be too small to tell of it.
  std::thread([&] { write_report(&fault); }).join();
  _exit(kFaultCode);
}

void end_with(const std::string& kind, const std::string& message, emulator::Place place) {
  FaultReport fault;
  fault.kind = kind;
  fault.message = message;
  put_in_place(fault, place);
  end_with(std::move(fault));
}

void remember_error(int error, const std::string& what, emulator::Place place) {
  pending = {error, what, place};
  unasked() = pending;
}

int last_error(bool forget) {
  const int error = pending.error;
  unasked() = {};
  if (forget) pending = {};
  return error;
}

void add_launch(const LaunchReport& launch) {
  Told& of = told();
  const std::lock_guard lock(of.mutex);
  for (LaunchReport& known : of.launches) {
    if (known.kernel != launch.kernel || known.file != launch.file || known.line != launch.line) {
      continue;
    }
    known.launches += launch.launches;
    known.grid = launch.grid;
    known.block = launch.block;
    known.static_shared = launch.static_shared;
    known.dynamic_shared = launch.dynamic_shared;
    for (const auto& [name, count] : launch.counts) known.counts[name] += count;
    return;
  }
  of.launches.push_back(launch);
}

void times_were_asked() { told().times_asked = true; }

}  // namespace ws::cuda_file
