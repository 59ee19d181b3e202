// The machine's own libibverbs behind ours: the verbs of its devices.
//
// An object is ours or foreign. Every exported verb asks which of the two its object is and hands a
// foreign one's call through, result and errno untouched; what programs call through a foreign
// context's operations never comes here. docs/adr/0012 says why it is done in this way.
//
// Threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "front/libibverbs/operations.h"

// Exported, but in no public header.
extern "C" int ibv_dontfork_range(void* base, std::size_t octets);
extern "C" int ibv_dofork_range(void* base, std::size_t octets);
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                                  int* type);

/// Every verb that may be called on a foreign object, or for foreign devices: its symbol, and the
/// version under which today's programs find it.
#define WEFT_VERBS_BEHIND(VERB)                    \
  VERB(ibv_create_comp_channel, "IBVERBS_1.0")     \
  VERB(ibv_destroy_comp_channel, "IBVERBS_1.0")    \
  VERB(ibv_ack_async_event, "IBVERBS_1.1")         \
  VERB(ibv_ack_cq_events, "IBVERBS_1.1")           \
  VERB(ibv_alloc_pd, "IBVERBS_1.1")                \
  VERB(ibv_attach_mcast, "IBVERBS_1.1")            \
  VERB(ibv_close_device, "IBVERBS_1.1")            \
  VERB(ibv_create_ah, "IBVERBS_1.1")               \
  VERB(ibv_create_ah_from_wc, "IBVERBS_1.1")       \
  VERB(ibv_create_cq, "IBVERBS_1.1")               \
  VERB(ibv_create_qp, "IBVERBS_1.1")               \
  VERB(ibv_create_srq, "IBVERBS_1.1")              \
  VERB(ibv_dealloc_pd, "IBVERBS_1.1")              \
  VERB(ibv_dereg_mr, "IBVERBS_1.1")                \
  VERB(ibv_destroy_ah, "IBVERBS_1.1")              \
  VERB(ibv_destroy_cq, "IBVERBS_1.1")              \
  VERB(ibv_destroy_qp, "IBVERBS_1.1")              \
  VERB(ibv_destroy_srq, "IBVERBS_1.1")             \
  VERB(ibv_detach_mcast, "IBVERBS_1.1")            \
  VERB(ibv_dofork_range, "IBVERBS_1.1")            \
  VERB(ibv_dontfork_range, "IBVERBS_1.1")          \
  VERB(ibv_fork_init, "IBVERBS_1.1")               \
  VERB(ibv_free_device_list, "IBVERBS_1.1")        \
  VERB(ibv_get_async_event, "IBVERBS_1.1")         \
  VERB(ibv_get_cq_event, "IBVERBS_1.1")            \
  VERB(ibv_get_device_guid, "IBVERBS_1.1")         \
  VERB(ibv_get_device_list, "IBVERBS_1.1")         \
  VERB(ibv_get_device_name, "IBVERBS_1.1")         \
  VERB(ibv_init_ah_from_wc, "IBVERBS_1.1")         \
  VERB(ibv_modify_qp, "IBVERBS_1.1")               \
  VERB(ibv_modify_srq, "IBVERBS_1.1")              \
  VERB(ibv_open_device, "IBVERBS_1.1")             \
  VERB(ibv_query_device, "IBVERBS_1.1")            \
  VERB(ibv_query_gid, "IBVERBS_1.1")               \
  VERB(ibv_query_pkey, "IBVERBS_1.1")              \
  VERB(ibv_query_port, "IBVERBS_1.1")              \
  VERB(ibv_query_qp, "IBVERBS_1.1")                \
  VERB(ibv_query_srq, "IBVERBS_1.1")               \
  VERB(ibv_reg_mr, "IBVERBS_1.1")                  \
  VERB(ibv_rereg_mr, "IBVERBS_1.1")                \
  VERB(ibv_resize_cq, "IBVERBS_1.1")               \
  VERB(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1") \
  VERB(ibv_get_pkey_index, "IBVERBS_1.5")          \
  VERB(ibv_qp_to_qp_ex, "IBVERBS_1.6")             \
  VERB(ibv_reg_mr_iova, "IBVERBS_1.7")             \
  VERB(ibv_reg_mr_iova2, "IBVERBS_1.8")            \
  VERB(ibv_get_device_index, "IBVERBS_1.9")        \
  VERB(ibv_import_device, "IBVERBS_1.10")          \
  VERB(ibv_import_mr, "IBVERBS_1.10")              \
  VERB(ibv_import_pd, "IBVERBS_1.10")              \
  VERB(ibv_query_ece, "IBVERBS_1.10")              \
  VERB(ibv_set_ece, "IBVERBS_1.10")                \
  VERB(ibv_unimport_mr, "IBVERBS_1.10")            \
  VERB(ibv_unimport_pd, "IBVERBS_1.10")            \
  VERB(_ibv_query_gid_ex, "IBVERBS_1.11")          \
  VERB(_ibv_query_gid_table, "IBVERBS_1.11")       \
  VERB(ibv_reg_dmabuf_mr, "IBVERBS_1.12")          \
  VERB(ibv_import_dm, "IBVERBS_1.13")              \
  VERB(ibv_is_fork_initialized, "IBVERBS_1.13")    \
  VERB(ibv_unimport_dm, "IBVERBS_1.13")            \
  VERB(ibv_query_qp_data_in_order, "IBVERBS_1.14") \
  VERB(ibv_query_gid_type, "IBVERBS_PRIVATE_34")

namespace weft::front {

/// The verbs of the library behind. None is null: while there is no such library, and where it has
/// no such verb, a function stands that fails, or that says what is true without foreign devices.
struct VerbsBehind {
#define WEFT_MEMBER(symbol, node) decltype(&::symbol) symbol;
  WEFT_VERBS_BEHIND(WEFT_MEMBER)
#undef WEFT_MEMBER
};

namespace internal {
/// What behind() answers. The loader stores a filled table with release, once.
extern std::atomic<const VerbsBehind*> verbs_behind;
}  // namespace internal

inline const VerbsBehind& behind() {
  return *internal::verbs_behind.load(std::memory_order_acquire);
}

/// Loads the library behind if there is one and that has not been done. False: there is none, as
/// far as can be seen now. What is wrong with one that is there is said on stderr, once.
bool load_behind();

/// The foreign devices of this moment, for one answer of ibv_get_device_list.
struct ForeignDevices {
  ibv_device** list = nullptr;  ///< of the library behind, which has to get it back; or null
  std::size_t count = 0;
};
ForeignDevices list_foreign_devices();
/// Ties the foreign list to the list that the program gets.
void keep_foreign_list(ibv_device** shown, const ForeignDevices& foreign);
/// Gives back the foreign list that belongs to a list of the program's, if any does.
void free_foreign_list(ibv_device** shown);

/// In a slot that is obsolete and that other libraries leave null: the mark of our devices.
ibv_context* device_mark(ibv_device* device, int descriptor);

// Null is nobody's. Told by our own functions' addresses, which stand in nobody else's objects.
inline bool is_ours(const ibv_device* device) {
  return device != nullptr && device->_ops._dummy1 == device_mark;
}
/// alloc_mw is an operation that stays when a fork shuts a context.
inline bool is_ours(const ibv_context* context) {
  return context != nullptr && context->ops.alloc_mw == alloc_mw;
}
template <typename Object>
bool is_ours(const Object* object) {
  return object != nullptr && is_ours(object->context);
}
template <typename Object>
bool is_foreign(const Object* object) {
  return object != nullptr && !is_ours(object);
}

// private_stubs.cc: the symbols that provider libraries import.
/// Has them call the library behind. `find` gives a symbol of its private node, or null.
void connect_private_symbols(void* (*find)(void* library, const char* name), void* library);
/// What the providers read of what the library behind set from the environment.
void share_private_settings();

}  // namespace weft::front
