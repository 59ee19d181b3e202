// Mapped and touched once, so that no page is new while it is measured.
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

Memory::Memory(std::uint64_t octets_max, std::size_t sources, std::size_t targets)
    : targets_at_(kControlOctets + whole_pages(sources * stride(octets_max))),
      octets_(targets_at_ + whole_pages(targets * stride(octets_max))) {
  void* mapped =
      ::mmap(nullptr, octets_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail_errno("cannot map " + size_text(octets_) + " of buffers");
  base_ = static_cast<std::byte*>(mapped);
  std::memset(base_ + kControlOctets, 0x5A, octets_ - kControlOctets);
}

Memory::~Memory() {
  ::munmap(base_, octets_);
}

}  // namespace weft::measure
