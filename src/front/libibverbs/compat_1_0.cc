// The IBVERBS_1.0 bindings of names that IBVERBS_1.1 redefined.
//
// A program bound to these was built before 2007 and passes the structs of that ABI, whose layouts
// differ from today's. No such program is known to exist; the symbols stay because the map is
// append-only, and each refuses instead of misreading its arguments. Such a program never gets past
// the first call: the device list is empty. Parameters are left unnamed and untyped on purpose.
//
// Each function fails as its verb is documented to: a null pointer, -1, or the errno value, with
// errno EOPNOTSUPP. Threads: any.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "front/libibverbs/export.h"

namespace {

/// For verbs that return an object.
void* refuse_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}

/// For verbs that return 0 or an errno value.
int refuse_with_value() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

/// For verbs that return 0 or -1.
int refuse_with_minus_one() {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

// The macro hides nothing but the two spellings of one name: the function the compiler sees has a
// name of its own, so that it cannot collide with the current verb in this library.
#define WEFT_COMPAT(type, name, parameters)               \
  extern "C" type compat_##name parameters;               \
  WEFT_SYMVER(compat_##name, "ibv_" #name "@IBVERBS_1.0") \
  WEFT_EXPORT type compat_##name parameters

// Devices.
WEFT_COMPAT(void*, get_device_list, (int* count)) {
  if (count != nullptr) *count = 0;
  return refuse_object();
}
WEFT_COMPAT(void, free_device_list, (void*)) {}
WEFT_COMPAT(const char*, get_device_name, (void*)) {
  return static_cast<const char*>(refuse_object());
}
WEFT_COMPAT(std::uint64_t, get_device_guid, (void*)) {
  errno = EOPNOTSUPP;
  return 0;
}
WEFT_COMPAT(void*, open_device, (void*)) {
  return refuse_object();
}
WEFT_COMPAT(int, close_device, (void*)) {
  return refuse_with_minus_one();
}
WEFT_COMPAT(int, query_device, (void*, void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, query_port, (void*, std::uint8_t, void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, query_gid, (void*, std::uint8_t, int, void*)) {
  return refuse_with_minus_one();
}
WEFT_COMPAT(int, query_pkey, (void*, std::uint8_t, int, void*)) {
  return refuse_with_minus_one();
}

// Asynchronous events.
WEFT_COMPAT(int, get_async_event, (void*, void*)) {
  return refuse_with_minus_one();
}
WEFT_COMPAT(void, ack_async_event, (void*)) {}

// Protection domains and memory.
WEFT_COMPAT(void*, alloc_pd, (void*)) {
  return refuse_object();
}
WEFT_COMPAT(int, dealloc_pd, (void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(void*, reg_mr, (void*, void*, std::size_t, int)) {
  return refuse_object();
}
WEFT_COMPAT(int, dereg_mr, (void*)) {
  return refuse_with_value();
}

// Completion queues.
WEFT_COMPAT(void*, create_cq, (void*, int, void*, void*, int)) {
  return refuse_object();
}
WEFT_COMPAT(int, resize_cq, (void*, int)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, destroy_cq, (void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, get_cq_event, (void*, void*, void*)) {
  return refuse_with_minus_one();
}
WEFT_COMPAT(void, ack_cq_events, (void*, unsigned)) {}

// Shared receive queues.
WEFT_COMPAT(void*, create_srq, (void*, void*)) {
  return refuse_object();
}
WEFT_COMPAT(int, modify_srq, (void*, void*, int)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, query_srq, (void*, void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, destroy_srq, (void*)) {
  return refuse_with_value();
}

// Queue pairs.
WEFT_COMPAT(void*, create_qp, (void*, void*)) {
  return refuse_object();
}
WEFT_COMPAT(int, query_qp, (void*, void*, int, void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, modify_qp, (void*, void*, int)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, destroy_qp, (void*)) {
  return refuse_with_value();
}

// Address handles and multicast.
WEFT_COMPAT(void*, create_ah, (void*, void*)) {
  return refuse_object();
}
WEFT_COMPAT(int, destroy_ah, (void*)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, attach_mcast, (void*, void*, std::uint16_t)) {
  return refuse_with_value();
}
WEFT_COMPAT(int, detach_mcast, (void*, void*, std::uint16_t)) {
  return refuse_with_value();
}

// Drivers of the time before providers were private called this at load. There is nothing to
// register with: this library has no providers. Never the default binding of its name.
extern "C" void compat_register_driver(const char*, void*);
WEFT_SYMVER(compat_register_driver, "ibv_register_driver@IBVERBS_1.1")
WEFT_EXPORT void compat_register_driver(const char*, void*) {}
