// The program around a kernel of somebody's own, whose file stands above this text and whose calls
// below it: reads calls from one file, makes them, writes what they left to another.
//
//   request:   uint32 calls; each: int32 entry, uint32 poison, int32 timed runs, int32 tensors,
//              int32 words; each tensor: int64 bytes (-1: none), int32 is_read, its bytes if it is;
//              each word: int64 kind, int64 bits
//   response:  uint32 entries, a byte for each: 0 not there, 1 with a stream, 2 without;
//              each call: int32 length of a message and the message, or 0 and the bytes of all its
//              tensors; behind them, if runs are timed, int32 how many were and each one's
//              microseconds, as float
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace warpsmith_driver {

// An argument of a call, before it has its type.
struct Word {
  enum Kind : int64_t { kTensor, kInteger, kNumber, kDims };
  void* pointer = nullptr;
  int64_t integer = 0;
  double number = 0;
};

template <class T>
T value_of(const Word& word) {
  if constexpr (std::is_pointer_v<T>) {
    return static_cast<T>(word.pointer);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(word.number);
  } else {
    return static_cast<T>(word.integer);
  }
}

// A way to call the function; null where it cannot be called so.
struct Entry {
  void (*call)(const Word* words, cudaStream_t stream) = nullptr;
  unsigned char how = 0;
};

// `Theirs::call(...)` calls the function, where it takes such arguments.
template <class Theirs, class Enable, class... Types>
struct Takes : std::false_type {};
template <class Theirs, class... Types>
struct Takes<Theirs, std::void_t<decltype(Theirs::call(std::declval<Types>()...))>, Types...>
    : std::true_type {};

template <class Theirs, class... Types>
struct Call {
  template <size_t... i>
  static void with_stream(const Word* words, cudaStream_t stream, std::index_sequence<i...>) {
    Theirs::call(value_of<Types>(words[i])..., stream);
  }
  template <size_t... i>
  static void without_stream(const Word* words, std::index_sequence<i...>) {
    Theirs::call(value_of<Types>(words[i])...);
  }
};

template <class Theirs, class... Types>
Entry entry() {
  using Indices = std::make_index_sequence<sizeof...(Types)>;
  if constexpr (Takes<Theirs, void, Types..., cudaStream_t>::value) {
    return {[](const Word* words, cudaStream_t stream) {
              Call<Theirs, Types...>::with_stream(words, stream, Indices());
            },
            1};
  } else if constexpr (Takes<Theirs, void, Types...>::value) {
    return {[](const Word* words, cudaStream_t) {
              Call<Theirs, Types...>::without_stream(words, Indices());
            },
            2};
  } else {
    return {};
  }
}

// ---- Calls from a file --------------------------------------------------------------------------

template <class T>
T read(std::FILE* file) {
  T value;
  if (std::fread(&value, sizeof(T), 1, file) != 1) std::exit(3);
  return value;
}

inline void check(cudaError_t error, std::string& message, const char* what) {
  if (error != cudaSuccess && message.empty()) {
    message = std::string(what) + ": " + cudaGetErrorString(error);
  }
}

// Memory of a tensor between guards. In the emulator there are none: it sees itself what is written
// outside.
class Guarded {
 public:
  Guarded(size_t bytes, std::string& message) : bytes_(bytes) {
    check(cudaMalloc(&memory_, bytes_ + 2 * kGuard), message, "cudaMalloc");
    if (kGuard == 0 || !message.empty()) return;
    check(cudaMemset(memory_, kFill, kGuard), message, "cudaMemset");
    check(cudaMemset(data() + bytes_, kFill, kGuard), message, "cudaMemset");
  }
  char* data() const { return static_cast<char*>(memory_) + kGuard; }
  void* memory() const { return memory_; }
  // Empty, or where the first byte lies that is no longer what it was.
  std::string damage(std::string& message) const {
    std::vector<char> bytes(kGuard);
    for (const bool is_behind : {false, true}) {
      if (bytes.empty()) break;
      const char* const from = is_behind ? data() + bytes_ : data() - kGuard;
      check(cudaMemcpy(bytes.data(), from, kGuard, cudaMemcpyDeviceToHost), message, "cudaMemcpy");
      for (size_t i = 0; i < kGuard; ++i) {
        if (bytes[i] == static_cast<char>(kFill)) continue;
        return is_behind
                   ? "byte " + std::to_string(bytes_ + i) + " of its " + std::to_string(bytes_)
                   : std::to_string(kGuard - i) + " bytes before its first";
      }
    }
    return {};
  }

 private:
  // Build: this file is part of the program that the user's file becomes, which links no runtime of
  // ours.
#ifdef WS_EMULATED
  static constexpr size_t kGuard = 0;
#else
  static constexpr size_t kGuard = 4096;  // keeps the alignment of cudaMalloc
#endif
  static constexpr int kFill = 0x7B;
  void* memory_ = nullptr;
  size_t bytes_;
};

// Takes the L2 cache, and leaves nothing in it that has to be written back.
__global__ void read_all(const float4* from, size_t count, float* sink) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const float4 v = from[i];
    sum += v.x + v.y + v.z + v.w;
  }
  // Nobody passes a sink; the compiler cannot know, and keeps the loads.
  if (sink != nullptr) sink[threadIdx.x] = sum;
}

// Runs of the call on tensors that are no longer in the L2 cache, as `warpsmith bench` times; fewer
// where they take long.
inline std::vector<float> timed(const Entry& entry, const std::vector<Word>& words, int32_t runs,
                                std::string& message) {
  constexpr size_t kMoreThanTheCache = size_t{256} << 20;
  constexpr float kLongEnough = 2000;  // milliseconds
  float spent = 0;
  std::vector<float> times;
  void* flush = nullptr;
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaMalloc(&flush, kMoreThanTheCache), message, "cudaMalloc");
  check(cudaMemset(flush, 0x3C, kMoreThanTheCache), message, "cudaMemset");
  check(cudaEventCreate(&begin), message, "cudaEventCreate");
  check(cudaEventCreate(&end), message, "cudaEventCreate");
  for (int32_t i = 0; i < runs && message.empty(); ++i) {
    float milliseconds = 0;
    // While the GPU reads, the host gets the events and the call into the queue.
    read_all<<<1024, 512>>>(static_cast<const float4*>(flush), kMoreThanTheCache / sizeof(float4),
                            nullptr);
    check(cudaEventRecord(begin), message, "cudaEventRecord");
    entry.call(words.data(), nullptr);
    check(cudaEventRecord(end), message, "cudaEventRecord");
    check(cudaEventSynchronize(end), message, "a timed run");
    check(cudaEventElapsedTime(&milliseconds, begin, end), message, "cudaEventElapsedTime");
    times.push_back(milliseconds * 1000);
    spent += milliseconds;
    if (times.size() >= 3 && spent > kLongEnough) break;
  }
  check(cudaFree(flush), message, "cudaFree");
  return times;
}

// Whether the next call has a device to run on.
inline bool one_call(const std::vector<Entry>& entries, std::FILE* in, std::FILE* out) {
  const auto which = read<int32_t>(in);
  const auto poison = read<uint32_t>(in);
  const auto runs = read<int32_t>(in);
  const auto tensors = read<int32_t>(in);
  const auto count = read<int32_t>(in);
  std::string message;
  std::vector<Guarded> memory;
  std::vector<int> place;  // in it, of each tensor; -1: none
  std::vector<std::vector<char>> bytes;
  for (int32_t i = 0; i < tensors; ++i) {
    const auto size = read<int64_t>(in);
    const auto is_read = read<int32_t>(in);
    place.push_back(size > 0 ? static_cast<int>(memory.size()) : -1);
    bytes.emplace_back(size < 0 ? 0 : static_cast<size_t>(size), static_cast<char>(poison));
    if (size <= 0) continue;
    if (is_read != 0 &&
        std::fread(bytes.back().data(), 1, bytes.back().size(), in) != bytes.back().size()) {
      std::exit(3);
    }
    memory.emplace_back(bytes.back().size(), message);
    if (!message.empty()) continue;
    check(cudaMemcpy(memory.back().data(), bytes.back().data(), bytes.back().size(),
                     cudaMemcpyHostToDevice),
          message, "cudaMemcpy");
  }
  const auto data_of = [&](size_t tensor) -> void* {
    return place[tensor] < 0 ? nullptr : memory[static_cast<size_t>(place[tensor])].data();
  };
  std::vector<Word> words(static_cast<size_t>(count));
  std::vector<std::vector<int>> dims;
  dims.reserve(words.size());
  for (Word& word : words) {
    const auto kind = read<int64_t>(in);
    const auto bits = read<int64_t>(in);
    word.integer = bits;
    std::memcpy(&word.number, &bits, sizeof(bits));
    if (kind == Word::kTensor) word.pointer = data_of(static_cast<size_t>(bits));
    if (kind == Word::kDims) {
      dims.emplace_back();
      for (int d = 0; d < 8; ++d) dims.back().push_back(static_cast<int8_t>(bits >> (8 * d)));
      word.pointer = dims.back().data();
    }
  }
  const Entry& entry = entries[static_cast<size_t>(which)];
  if (message.empty()) {
    entry.call(words.data(), nullptr);
    check(cudaGetLastError(), message, "after the launch, cudaGetLastError() says");
    check(cudaDeviceSynchronize(), message, "cudaDeviceSynchronize() says");
  }
  const bool is_usable = message.empty() || cudaDeviceSynchronize() == cudaSuccess;
  for (size_t i = 0; i < place.size() && message.empty(); ++i) {
    if (place[i] < 0) continue;
    check(cudaMemcpy(bytes[i].data(), data_of(i), bytes[i].size(), cudaMemcpyDeviceToHost), message,
          "cudaMemcpy");
    const std::string damage = memory[static_cast<size_t>(place[i])].damage(message);
    if (damage.empty() || !message.empty()) continue;
    message =
        "out of bounds: it has written outside of tensor " + std::to_string(i + 1) + ", " + damage;
  }
  std::vector<float> times;
  if (runs > 0 && message.empty()) times = timed(entry, words, runs, message);
  for (const Guarded& of_tensor : memory) check(cudaFree(of_tensor.memory()), message, "cudaFree");
  const auto length = static_cast<int32_t>(message.size());
  std::fwrite(&length, sizeof(length), 1, out);
  std::fwrite(message.data(), 1, message.size(), out);
  if (!message.empty()) return is_usable;
  for (const std::vector<char>& of_tensor : bytes)
    std::fwrite(of_tensor.data(), 1, of_tensor.size(), out);
  if (runs > 0) {
    const auto timed_runs = static_cast<int32_t>(times.size());
    std::fwrite(&timed_runs, sizeof(timed_runs), 1, out);
    std::fwrite(times.data(), sizeof(float), times.size(), out);
  }
  return true;
}

inline int make_calls(const std::vector<Entry>& entries, const char* request,
                      const char* response) {
  std::FILE* in = std::fopen(request, "rb");
  std::FILE* out = std::fopen(response, "wb");
  if (in == nullptr || out == nullptr) return 3;
  const auto count = static_cast<uint32_t>(entries.size());
  std::fwrite(&count, sizeof(count), 1, out);
  for (const Entry& entry : entries) std::fputc(entry.how, out);
  const auto calls = read<uint32_t>(in);
  for (uint32_t i = 0; i < calls; ++i) {
    // A fault in the next call must not lose this one.
    std::fflush(out);
    if (!one_call(entries, in, out)) break;
  }
  std::fclose(in);
  return std::fclose(out) == 0 ? 0 : 3;
}

}  // namespace warpsmith_driver
