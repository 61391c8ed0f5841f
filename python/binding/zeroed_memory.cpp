#include "python/binding/zeroed_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "warpsmith/runtime.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::binding {

// What a device keeps for a stream: [zeros | scratch]. A prefix lies at the end of the zeros, so
// that the scratch follows it at once, whatever its length; the zeros before it stay zeros.
struct ZeroedMemory::Block {
  std::mutex mutex;
  std::byte* memory = nullptr;
  size_t zeros = 0;
  size_t scratch = 0;
};

namespace {

constexpr size_t kAlignment = 256;

size_t grown(size_t have, size_t need, size_t least) {
  return need <= have ? have : std::max({2 * have, need, least});
}

}  // namespace

std::optional<ZeroedMemory> ZeroedMemory::take(const Workspace& need, Stream stream) {
  const bool splits = need.zeroed % kAlignment != 0 && need.bytes > need.zeroed;
  if (splits || need.bytes > kMost || runtime::is_capturing(stream)) return std::nullopt;

  // By device and stream. Blocks live as long as the process: what is enqueued may still use them.
  static std::mutex mutex;
  static std::map<std::pair<int, uint64_t>, Block> blocks;
  const std::pair key(runtime::current_device(), runtime::stream_id(stream));
  Block& block = [&]() -> Block& {
    const std::lock_guard lock(mutex);
    return blocks[key];
  }();

  std::unique_lock lock(block.mutex);
  const size_t prefix = round_up(need.zeroed, kAlignment);
  const size_t rest = need.bytes - need.zeroed;
  if (prefix > block.zeros || rest > block.scratch) {
    const size_t zeros = grown(block.zeros, prefix, 4096);
    const size_t scratch = grown(block.scratch, round_up(rest, kAlignment), 4096);
    // The old memory is not freed, which would wait for the device; doubling bounds what is lost.
    auto* const memory = static_cast<std::byte*>(runtime::allocate(zeros + scratch));
    set_zero(memory, zeros, stream);
    block.memory = memory;
    block.zeros = zeros;
    block.scratch = scratch;
  }
  void* const data = block.memory + block.zeros - prefix;
  return ZeroedMemory(block, std::move(lock), data, stream);
}

void ZeroedMemory::clear() noexcept {
  try {
    set_zero(block_->memory, block_->zeros, stream_);
  } catch (const Error&) {
    block_->zeros = 0;  // the device is lost, or the memory: the next call takes new one
  }
}

}  // namespace ws::binding
