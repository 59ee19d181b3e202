// IBVERBS_PRIVATE_34: what rdma-core's provider libraries import from libibverbs.
//
// A provider is linked to libibverbs.so.1, and in a process with weft that is ours, whoever loads
// it: the library behind, or a program that links it itself (perftest links libmlx5 and libefa,
// bound at load, where one missing symbol ends the process before main()). So every symbol is here,
// and each leads to the library behind, whose contexts the providers work on. While there is none,
// a command reports EOPNOTSUPP, an allocation yields null, and a driver that registers is kept for
// the library that may come.
//
// Signatures are rdma-core's own business, and some have "...": what is exported jumps through a
// slot and leaves arguments, stack and result alone. A refusal reads no argument but, at most, the
// first; in the C calling conventions that we build for the caller owns the argument area.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"

namespace {

int refuse_command() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

/// For what returns a count, or a negative number.
int refuse_count() {
  errno = EOPNOTSUPP;
  return -1;
}

void* refuse_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}

void ignore() {}

/// __ioctl_final_num_attrs counts the attributes of a chain of command buffers. Ours is never sent,
/// so the count of the first one is as good as any and keeps the caller's allocation in bounds.
unsigned first_argument(unsigned attribute_count) {
  return attribute_count;
}

void remember_driver(const void* driver);

}  // namespace

/// Each symbol, and what it does while there is no library behind.
#define WEFT_PRIVATE_SYMBOLS(SYMBOL)                     \
  SYMBOL(_verbs_init_and_alloc_context, refuse_object)   \
  SYMBOL(verbs_open_device, refuse_object)               \
  SYMBOL(verbs_uninit_context, ignore)                   \
  SYMBOL(verbs_set_ops, ignore)                          \
  SYMBOL(verbs_init_cq, ignore)                          \
  SYMBOL(__verbs_log, ignore)                            \
  SYMBOL(ibv_read_ibdev_sysfs_file, refuse_count)        \
  SYMBOL(__ioctl_final_num_attrs, first_argument)        \
  SYMBOL(execute_ioctl, refuse_command)                  \
  SYMBOL(ibv_cmd_poll_cq, refuse_count)                  \
  SYMBOL(verbs_register_driver_34, remember_driver)      \
  SYMBOL(ibv_cmd_advise_mr, refuse_command)              \
  SYMBOL(ibv_cmd_alloc_dm, refuse_command)               \
  SYMBOL(ibv_cmd_alloc_mw, refuse_command)               \
  SYMBOL(ibv_cmd_alloc_pd, refuse_command)               \
  SYMBOL(ibv_cmd_attach_mcast, refuse_command)           \
  SYMBOL(ibv_cmd_close_xrcd, refuse_command)             \
  SYMBOL(ibv_cmd_create_ah, refuse_command)              \
  SYMBOL(ibv_cmd_create_counters, refuse_command)        \
  SYMBOL(ibv_cmd_create_cq, refuse_command)              \
  SYMBOL(ibv_cmd_create_cq_ex, refuse_command)           \
  SYMBOL(ibv_cmd_create_cq_ex2, refuse_command)          \
  SYMBOL(ibv_cmd_create_flow, refuse_command)            \
  SYMBOL(ibv_cmd_create_flow_action_esp, refuse_command) \
  SYMBOL(ibv_cmd_create_qp, refuse_command)              \
  SYMBOL(ibv_cmd_create_qp_ex, refuse_command)           \
  SYMBOL(ibv_cmd_create_qp_ex2, refuse_command)          \
  SYMBOL(ibv_cmd_create_rwq_ind_table, refuse_command)   \
  SYMBOL(ibv_cmd_create_srq, refuse_command)             \
  SYMBOL(ibv_cmd_create_srq_ex, refuse_command)          \
  SYMBOL(ibv_cmd_create_wq, refuse_command)              \
  SYMBOL(ibv_cmd_dealloc_mw, refuse_command)             \
  SYMBOL(ibv_cmd_dealloc_pd, refuse_command)             \
  SYMBOL(ibv_cmd_dereg_mr, refuse_command)               \
  SYMBOL(ibv_cmd_destroy_ah, refuse_command)             \
  SYMBOL(ibv_cmd_destroy_counters, refuse_command)       \
  SYMBOL(ibv_cmd_destroy_cq, refuse_command)             \
  SYMBOL(ibv_cmd_destroy_flow, refuse_command)           \
  SYMBOL(ibv_cmd_destroy_flow_action, refuse_command)    \
  SYMBOL(ibv_cmd_destroy_qp, refuse_command)             \
  SYMBOL(ibv_cmd_destroy_rwq_ind_table, refuse_command)  \
  SYMBOL(ibv_cmd_destroy_srq, refuse_command)            \
  SYMBOL(ibv_cmd_destroy_wq, refuse_command)             \
  SYMBOL(ibv_cmd_detach_mcast, refuse_command)           \
  SYMBOL(ibv_cmd_free_dm, refuse_command)                \
  SYMBOL(ibv_cmd_get_context, refuse_command)            \
  SYMBOL(ibv_cmd_modify_cq, refuse_command)              \
  SYMBOL(ibv_cmd_modify_flow_action_esp, refuse_command) \
  SYMBOL(ibv_cmd_modify_qp, refuse_command)              \
  SYMBOL(ibv_cmd_modify_qp_ex, refuse_command)           \
  SYMBOL(ibv_cmd_modify_srq, refuse_command)             \
  SYMBOL(ibv_cmd_modify_wq, refuse_command)              \
  SYMBOL(ibv_cmd_open_qp, refuse_command)                \
  SYMBOL(ibv_cmd_open_xrcd, refuse_command)              \
  SYMBOL(ibv_cmd_post_recv, refuse_command)              \
  SYMBOL(ibv_cmd_post_send, refuse_command)              \
  SYMBOL(ibv_cmd_post_srq_recv, refuse_command)          \
  SYMBOL(ibv_cmd_query_context, refuse_command)          \
  SYMBOL(ibv_cmd_query_device_any, refuse_command)       \
  SYMBOL(ibv_cmd_query_mr, refuse_command)               \
  SYMBOL(ibv_cmd_query_port, refuse_command)             \
  SYMBOL(ibv_cmd_query_qp, refuse_command)               \
  SYMBOL(ibv_cmd_query_srq, refuse_command)              \
  SYMBOL(ibv_cmd_read_counters, refuse_command)          \
  SYMBOL(ibv_cmd_reg_dm_mr, refuse_command)              \
  SYMBOL(ibv_cmd_reg_dmabuf_mr, refuse_command)          \
  SYMBOL(ibv_cmd_reg_mr, refuse_command)                 \
  SYMBOL(ibv_cmd_req_notify_cq, refuse_command)          \
  SYMBOL(ibv_cmd_rereg_mr, refuse_command)               \
  SYMBOL(ibv_cmd_resize_cq, refuse_command)

// The slots. By name and not in a table, so that the assembler needs to know no offset; "used", for
// it is the assembler alone that knows of most.
extern "C" {
#define WEFT_SLOT(symbol, alone)                                         \
  extern __attribute__((visibility("hidden"))) void* weft_slot_##symbol; \
  __attribute__((used)) void* weft_slot_##symbol = reinterpret_cast<void*>(alone);
WEFT_PRIVATE_SYMBOLS(WEFT_SLOT)
#undef WEFT_SLOT
}

// endbr64 and bti mark a place that may be jumped to, where the processor insists on that.
#if defined(__x86_64__)
#define WEFT_JUMP(symbol) "endbr64\n jmp *weft_slot_" #symbol "(%rip)\n"
#elif defined(__aarch64__)
#define WEFT_JUMP(symbol)                                                                \
  "hint #34\n adrp x16, weft_slot_" #symbol "\n ldr x16, [x16, :lo12:weft_slot_" #symbol \
  "]\n br x16\n"
#else
#error "how does this processor jump to an address in memory?"
#endif

#define WEFT_TRAMPOLINE(symbol, alone)                                                         \
  __asm__(".pushsection .text\n .balign 16\n .globl " #symbol "\n .type " #symbol              \
          ", %function\n " #symbol ":\n " WEFT_JUMP(symbol) " .size " #symbol ", . - " #symbol \
                                                            "\n .popsection");
WEFT_PRIVATE_SYMBOLS(WEFT_TRAMPOLINE)
#undef WEFT_TRAMPOLINE

/// True lets a provider destroy its objects after the device went away.
/// A program may hold a copy of this object in its own image, so its size is part of the ABI.
WEFT_EXPORT bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;
static_assert(sizeof verbs_allow_disassociate_destroy == 1);

namespace {

/// Drivers of providers that the program itself links, which register before main().
struct EarlyDrivers {
  std::mutex lock;
  std::vector<const void*> drivers;
  const bool* allow_disassociate_destroy = nullptr;  ///< the library behind's own
};
EarlyDrivers& early() {
  static auto* const the_early = new EarlyDrivers;
  return *the_early;
}

using Register = void (*)(const void* driver);
Register current_register() {
  void* const slot = std::atomic_ref(weft_slot_verbs_register_driver_34).load();
  return reinterpret_cast<Register>(slot);
}

void remember_driver(const void* driver) {
  std::unique_lock guard(early().lock);
  const Register now = current_register();
  if (now == remember_driver) {
    early().drivers.push_back(driver);
    return;
  }
  guard.unlock();
  now(driver);
}

}  // namespace

namespace weft::front {

void connect_private_symbols(void* (*find)(void* library, const char* name), void* library) {
  std::vector<const void*> drivers;
  {
    std::lock_guard guard(early().lock);
#define WEFT_CONNECT(symbol, alone)                   \
  if (void* found = find(library, #symbol)) {         \
    std::atomic_ref(weft_slot_##symbol).store(found); \
  }
    WEFT_PRIVATE_SYMBOLS(WEFT_CONNECT)
#undef WEFT_CONNECT
    early().allow_disassociate_destroy =
        static_cast<const bool*>(find(library, "verbs_allow_disassociate_destroy"));
    std::swap(drivers, early().drivers);
  }
  // A provider that is loaded already registers no second time when the library behind opens it.
  if (current_register() == remember_driver) return;
  for (const void* driver : drivers) current_register()(driver);
}

void share_private_settings() {
  // Its own references may lead to our object or to its own: either may hold what was set.
  const bool* theirs = early().allow_disassociate_destroy;
  if (theirs == nullptr || !*theirs) return;
  std::atomic_ref(verbs_allow_disassociate_destroy).store(true, std::memory_order_relaxed);
}

}  // namespace weft::front
