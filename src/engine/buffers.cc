// Where staging lies, and which of it is lent next.
#include "engine/buffers.h"

#include <sys/mman.h>

namespace weft::engine {
namespace {

constexpr std::size_t kLargePage = 2 * 1024 * 1024;
constexpr std::size_t kHomeOctets = 2 * kLargePage;
static_assert(TransmitPool::kResting * sizeof(TransmitBuffer) <= kHomeOctets);

/// Memory that begins with a large page; in small ones, where there are no others. Null: none.
std::shared_ptr<void> map_large_pages() {
  constexpr std::size_t kMapped = kHomeOctets + kLargePage;
  void* const mapped =
      ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::uint8_t*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % kLargePage;
  std::uint8_t* const home = first + before;
  // Both can only fail for want of the kernel's memory, and cost address space then.
  if (before != 0) ::munmap(first, before);
  ::munmap(home + kHomeOctets, kLargePage - before);
  ::madvise(home, kHomeOctets, MADV_HUGEPAGE);  // or not, as the machine is set
  try {
    return {home, [](void* at) { ::munmap(at, kHomeOctets); }};
  } catch (const std::bad_alloc&) {  // it has been unmapped
    return nullptr;
  }
}

}  // namespace

void TransmitBuffer::operator delete(TransmitBuffer* buffer, std::destroying_delete_t) {
  const std::shared_ptr<void> home = std::move(buffer->home);
  buffer->~TransmitBuffer();
  if (home == nullptr) ::operator delete(buffer, std::align_val_t{alignof(TransmitBuffer)});
}

std::unique_ptr<TransmitBuffer> TransmitPool::borrow() {
  std::unique_ptr<TransmitBuffer> buffer = BufferPool::borrow();
  others_ = std::min(others_, kept_);
  return buffer;
}

void TransmitPool::give_back(std::unique_ptr<TransmitBuffer> buffer) {
  if (home_ == nullptr || buffer->home != nullptr) return put(std::move(buffer), kept_);
  if (others_ == kKeep && !keeps_all()) return static_cast<void>(--borrowed_);
  put(std::move(buffer), others_++);
}

void TransmitPool::give_back_to_rest(std::unique_ptr<TransmitBuffer> buffer) {
  if (home_ == nullptr) make_resting();
  buffer->home != nullptr ? put(std::move(buffer), others_) : give_back(std::move(buffer));
}

/// Those kept from `place` on are lent before it.
void TransmitPool::put(std::unique_ptr<TransmitBuffer> buffer, std::size_t place) {
  const std::size_t before = kept_;
  BufferPool::give_back(std::move(buffer));
  const auto first = free_.begin();
  std::rotate(first + std::min(place, before), first + before, first + kept_);
}

void TransmitPool::lose(std::unique_ptr<TransmitBuffer> buffer) {
  if (buffer->home != nullptr && --resting_ == 0) home_ = nullptr;
  --borrowed_;
  static_cast<void>(buffer.release());
}

/// In the place of those that are kept.
void TransmitPool::make_resting() {
  if (!keeps_all()) home_ = map_large_pages();
  if (home_ == nullptr) return;
  while (kept_ != 0) free_[--kept_] = nullptr;
  others_ = 0;
  keep_ = kResting + kKeep;
  auto* place = static_cast<std::uint8_t*>(home_.get());
  for (; kept_ < kResting; ++kept_, place += sizeof(TransmitBuffer)) {
    free_[kept_].reset(new (place) TransmitBuffer);
    free_[kept_]->home = home_;
  }
  resting_ = kResting;
}

}  // namespace weft::engine
