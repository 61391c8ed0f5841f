// Memory for workspaces with a zeroed prefix, kept from call to call, so that the prefix is cleared
// once and not in every call.
#pragma once

#include <mutex>
#include <optional>

#include "catalogue/catalogue.hpp"

namespace ws::binding {

// A workspace from the memory that the current device keeps for a stream. While it lives, no other
// thread is given memory of the same stream: calls enqueue all they do before the next one.
class ZeroedMemory {
 public:
  // Nothing where the memory cannot be a kept one: while a graph is being captured, which outlives
  // the order of the stream; of more than kMost bytes; and where the prefix ends in the middle of
  // 256 bytes and more follows it. Callers then clear memory of their own.
  static std::optional<ZeroedMemory> take(const Workspace& need, Stream stream);

  void* data() const { return data_; }
  // The call failed midway and may have left its prefix as it was then.
  void clear() noexcept;

  static constexpr size_t kMost = size_t{48} << 20;  // what decoding by a latent cache wants is 35

 private:
  struct Block;
  ZeroedMemory(Block& block, std::unique_lock<std::mutex> lock, void* data, Stream stream)
      : block_(&block), lock_(std::move(lock)), data_(data), stream_(stream) {}

  Block* block_;
  std::unique_lock<std::mutex> lock_;
  void* data_;
  Stream stream_;
};

}  // namespace ws::binding
