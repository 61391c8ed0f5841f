#include "cuda_file/runtime/process.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction, kill
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <optional>
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

// Whoever prints now is done at once, or has crashed there.
void flush_output() {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (ftrylockfile(stdout) == 0) {
      fflush_unlocked(stdout);
      return funlockfile(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void write_report(const FaultReport* fault) {
  Told& of = told();
  const std::lock_guard lock(of.mutex);
  if (std::exchange(of.written, true)) return;
  flush_output();
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

void put_in_launch(FaultReport& fault, const Frame& of) {
  fault.kernel = of.kernel.name;
  fault.launch = launch_text(of);
}
void put_in_launch(FaultReport& fault, const Frame& of, int64_t block, int thread) {
  put_in_launch(fault, of);
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
//
// A signal comes anywhere, also between the locks of malloc or of printf. So its handler only notes
// where it came; to tell of it is left to a thread that does nothing else.

// A thread when a signal came.
struct Here {
  struct Launch {
    KernelCall kernel;
    LaunchExtents extents;
    emulator::Place place;
    uint64_t blocks_begun;
  };
  CallStack stack;
  std::optional<Launch> launch;
  bool in_kernel = false;  // of `launch`, as thread `thread` of block `block`
  int64_t block = 0;
  int thread = 0;
};

// By a handler.
Here here(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  Here at;
  at.stack = call_stack_at(static_cast<uintptr_t>(registers[REG_RIP]));
  const emulator::Thread* me = emulator::current_thread;
  at.in_kernel = me != nullptr && frame != nullptr;
  if (at.in_kernel) {
    at.block = me->block->index;
    at.thread = me->index;
  }
  if (const Frame* of = at.in_kernel ? frame : running_frame()) {
    at.launch = {of->kernel, of->extents, of->place, of->blocks_begun.load()};
  }
  return at;
}

void put_in(FaultReport& fault, const Here& at) {
  put_in_place(fault, place_of(at.stack));
  if (!at.launch) return;
  const Frame of{.kernel = at.launch->kernel,
                 .extents = at.launch->extents,
                 .place = at.launch->place,
                 .number = 0};
  if (at.in_kernel) {
    put_in_launch(fault, of, at.block, at.thread);
  } else {
    put_in_launch(fault, of);
  }
}

pthread_t teller;
pthread_t main_thread;
// Signals of this process to itself.
int to_teller() { return SIGRTMIN; }
int to_main_thread() { return SIGRTMIN + 1; }

struct Crash {
  int signal;
  const void* address;
  Here at;
};
constinit Crash crashed{};

void crash(int signal, siginfo_t* info, void* context) {
  static std::atomic_flag before;
  if (pthread_equal(pthread_self(), teller) != 0) _exit(kFaultCode);
  if (!before.test_and_set()) {
    crashed = {signal, info->si_addr, here(context)};
    pthread_kill(teller, to_teller());
  }
  for (;;) pause();
}

[[noreturn]] void tell(const Crash& crash) {
  FaultReport fault;
  const auto address = reinterpret_cast<uintptr_t>(crash.address);
  const bool of_memory = crash.signal == SIGSEGV || crash.signal == SIGBUS;
  const Allocation* of = of_memory ? find(address) : nullptr;
  const bool in_kernel = crash.at.in_kernel;
  if (of != nullptr && !in_kernel) {
    fault.kind = "host access";
    fault.message =
        fmt::format("host code reaches {} at byte {}{}", of->text(), address - of->begin,
                    of->freed ? fmt::format(", freed at {}", emulator::to_string(of->freed_at))
                              : ": device memory goes through cudaMemcpy");
  } else if (of_memory) {
    fault.kind = in_kernel ? "illegal address" : "crash";
    fault.message = fmt::format(
        "there is no memory at {} ({})", crash.address,
        in_kernel ? "or the thread's stack has overflown" : "segmentation fault in host code");
  } else if (crash.signal == SIGFPE) {
    fault.kind = "crash";
    fault.message = "an integer is divided by zero";
  } else {
    fault.kind = "crash";
    fault.message = fmt::format("signal {}, {}", crash.signal, strsignal(crash.signal));
  }
  put_in(fault, crash.at);
  end_with(std::move(fault));
}

// Where the program's main thread is, which says so while it goes on.
constinit Here where{};
sem_t said;
void say_where(int, siginfo_t*, void* context) {
  where = here(context);
  sem_post(&said);
}

// `warpsmith run` says that a limit is reached.
[[noreturn]] void tell_end(const std::string& limit) {
  FaultReport fault;
  fault.kind = limit;
  fault.message = "in host code";
  pthread_kill(main_thread, to_main_thread());
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  if (sem_timedwait(&said, &until) == 0) {
    put_in(fault, where);
    if (where.launch) {
      const dim3& grid = where.launch->extents.grid;
      fault.message =
          fmt::format("{} of {} blocks of this launch have begun", where.launch->blocks_begun,
                      static_cast<uint64_t>(grid.x) * grid.y * grid.z);
    }
  }
  end_with(std::move(fault));
}

void* wait_and_tell(void* signals) {
  int signal = 0;
  sigwait(static_cast<const sigset_t*>(signals), &signal);
  if (signal == to_teller()) tell(crashed);
  tell_end(signal == SIGALRM ? "time" : signal == SIGXFSZ ? "output" : "memory");
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void watch_signals() {
  static sigset_t of_teller;
  sigemptyset(&of_teller);
  for (const int signal : {SIGALRM, SIGXCPU, SIGXFSZ, to_teller()}) sigaddset(&of_teller, signal);
  // Here, and so in every thread to come.
  pthread_sigmask(SIG_BLOCK, &of_teller, nullptr);
  main_thread = pthread_self();
  sem_init(&said, 0, 0);
  call_stack_at(0);  // makes what the next call needs
  pthread_create(&teller, nullptr, wait_and_tell, &of_teller);
  handle(to_main_thread(), say_where);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) handle(signal, crash);
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
    watch_signals();
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
