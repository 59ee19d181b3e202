// operator new and delete, in every form, over malloc.
#include "engine/testing/failing_allocator.h"

#include <cstdlib>
#include <new>

namespace weft::engine::testing {
namespace {

struct Shortage {
  bool on = false;
  int left = 0;  ///< allocations that still succeed
  std::size_t octets_min = 0;
  bool struck = false;
};
constinit thread_local Shortage shortage;
constinit thread_local std::size_t calls = 0;

void* allocate(std::size_t octets, std::size_t alignment) {
  ++calls;
  if (shortage.on && octets >= shortage.octets_min && shortage.left-- == 0) {
    shortage.on = false;
    shortage.struck = true;
    return nullptr;
  }
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(octets);
  return std::aligned_alloc(alignment, (octets + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t octets, std::size_t alignment) {
  void* p = allocate(octets, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void give_back(void* p) {
  if (p != nullptr) ++calls;
  std::free(p);
}

constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
constexpr std::size_t of(std::align_val_t alignment) {
  return static_cast<std::size_t>(alignment);
}

}  // namespace

FailAllocation::FailAllocation(int nth, std::size_t octets_min) {
  shortage = {true, nth, octets_min, false};
}
FailAllocation::~FailAllocation() {
  shortage.on = false;
}
bool FailAllocation::struck() const {
  return shortage.struck;
}

std::size_t memory_calls() {
  return calls;
}

}  // namespace weft::engine::testing

using namespace weft::engine::testing;
using std::align_val_t;
using std::nothrow_t;
using std::size_t;

void* operator new(size_t n) {
  return allocate_or_throw(n, kUsual);
}
void* operator new[](size_t n) {
  return allocate_or_throw(n, kUsual);
}
void* operator new(size_t n, align_val_t a) {
  return allocate_or_throw(n, of(a));
}
void* operator new[](size_t n, align_val_t a) {
  return allocate_or_throw(n, of(a));
}
void* operator new(size_t n, const nothrow_t&) noexcept {
  return allocate(n, kUsual);
}
void* operator new[](size_t n, const nothrow_t&) noexcept {
  return allocate(n, kUsual);
}
void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return allocate(n, of(a));
}
void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return allocate(n, of(a));
}
void operator delete(void* p) noexcept {
  give_back(p);
}
void operator delete[](void* p) noexcept {
  give_back(p);
}
void operator delete(void* p, size_t) noexcept {
  give_back(p);
}
void operator delete[](void* p, size_t) noexcept {
  give_back(p);
}
void operator delete(void* p, align_val_t) noexcept {
  give_back(p);
}
void operator delete[](void* p, align_val_t) noexcept {
  give_back(p);
}
void operator delete(void* p, size_t, align_val_t) noexcept {
  give_back(p);
}
void operator delete[](void* p, size_t, align_val_t) noexcept {
  give_back(p);
}
