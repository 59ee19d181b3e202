// How it is mapped.
#include "measure/memory.h"

#include <sys/mman.h>

#include <cstring>

#include "measure/basics.h"

namespace weft::measure {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t whole_pages(std::size_t octets) {
  return (octets + kPage - 1) / kPage * kPage;
}

}  // namespace

Memory::Memory(std::uint64_t octets_max, std::size_t sources, std::size_t targets, BuffersUsed used)
    : targets_at_(kControlOctets + whole_pages(sources * stride(octets_max))),
      octets_(targets_at_ + whole_pages(targets * stride(octets_max))) {
  void* mapped =
      ::mmap(nullptr, octets_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail_errno("cannot map " + size_text(octets_) + " of buffers");
  base_ = static_cast<std::byte*>(mapped);
  ::madvise(mapped, octets_, MADV_HUGEPAGE);  // or not, as the machine is set
  const auto touch = [this](std::size_t from, std::size_t to) {
    std::memset(base_ + from, 0x5A, to - from);
  };
  if (used.sources) touch(kControlOctets, targets_at_);
  if (used.targets) touch(targets_at_, octets_);
}

Memory::~Memory() {
  ::munmap(base_, octets_);
}

}  // namespace weft::measure
