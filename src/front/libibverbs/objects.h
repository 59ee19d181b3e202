// The objects that programs hold pointers to: each is the public C struct first and our own object
// behind it.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/result.h"
#include "front/libibverbs/handles.h"
#include "verbs/async_queue.h"
#include "verbs/completion_channel.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/mw.h"
#include "verbs/pd.h"
#include "verbs/process_runtime.h"
#include "verbs/qp.h"
#include "verbs/ring_place.h"
#include "verbs/srq.h"

namespace weft::front {

/// A device as the list shows it. Made once per name and kept for ever, so that a pointer from one
/// list compares equal to that of another and stays valid when the list is freed.
struct DeviceObject : ibv_device {
  /// Where a provider's device has its operations, by which a provider knows its own: mlx5dv looks
  /// here at any device.
  const void* provider_operations = nullptr;

  /// The interface as it is now, or null when it is gone.
  const verbs::Interface* interface() const {
    return verbs::ProcessRuntime::instance().interface_named(name);
  }
};
inline DeviceObject* to_object(ibv_device* device) { return static_cast<DeviceObject*>(device); }
inline DeviceObject* to_device_object(ibv_context* context) { return to_object(context->device); }
/// The device of that interface.
DeviceObject* device_object_for(const verbs::Interface& interface);

struct ContextObject;

/// What a program's ibv_context lies in. Kept apart from ContextObject because the way back from
/// the pointer is by offsets.
struct ContextFace {
  ContextObject* object;
  verbs_context verbs;
};
static_assert(std::is_standard_layout_v<ContextFace>);

struct ContextObject {
  ContextFace face;
  device::Device* device = nullptr;
  std::uint32_t generation = 0;  ///< of the process that opened it
  Opening opening = 0;           ///< shared with the contexts that were imported of it
  verbs::AsyncQueue async;
  verbs::UseCount uses;
  ContextObject* next = nullptr; ///< in the list of open contexts

  /// False in a child that inherited this context by fork: it may only destroy what it inherited.
  bool alive() const {
    return generation == verbs::ProcessRuntime::instance().generation();
  }
};
inline ContextObject* to_object(ibv_context* context) {
  constexpr std::size_t kOffset =
      offsetof(ContextFace, verbs) + offsetof(verbs_context, context);
  auto* face = reinterpret_cast<std::uint8_t*>(context) - kOffset;
  return reinterpret_cast<ContextFace*>(face)->object;
}

/// What uses of one thread are made with. Our locks cost nothing where there is no second thread.
struct TDObject : ibv_td {
  verbs::UseCount uses;
};
inline TDObject* to_object(ibv_td* td) { return static_cast<TDObject*>(td); }

struct SharedPD : Shared<SharedPD> {
  verbs::PD pd;
};

/// The allocator that a program gave a parent domain, for the rings of the queues made with it.
class DomainAllocator final : public verbs::RingAllocator {
 public:
  void set(ibv_pd* domain, const ibv_parent_domain_init_attr& attr);
  bool is_set() const { return domain_ != nullptr; }
  Result<void*> allocate(verbs::RingKind kind, std::size_t octets) override;
  void release(verbs::RingKind kind, void* memory) override;

 private:
  ibv_pd* domain_ = nullptr;
  decltype(ibv_parent_domain_init_attr::alloc) alloc_ = nullptr;
  decltype(ibv_parent_domain_init_attr::free) free_ = nullptr;
  void* context_ = nullptr;
};

/// A PD, or a parent domain: what programs may use like a PD, and what is made with it belongs to
/// the PD that it stands for.
struct PDObject : ibv_pd {
  SharedPD* shared = nullptr;
  PDObject* parent = nullptr;  ///< of a parent domain: its PD
  TDObject* td = nullptr;      ///< of a parent domain: may be null
  DomainAllocator allocator;   ///< of a parent domain: may not be set
  /// The program's, and one of each thing that was made with it and still points to it: an import
  /// may be taken back before them.
  std::atomic<std::uint32_t> references{1};

  verbs::PD& real() { return shared->pd; }
  verbs::RingAllocator* ring_allocator() { return allocator.is_set() ? &allocator : nullptr; }
  void add_user() { references.fetch_add(1, std::memory_order_relaxed); }
  void drop_user();
  bool has_users() const { return references.load(std::memory_order_acquire) != 1; }
};
inline PDObject* to_object(ibv_pd* pd) {
  return static_cast<PDObject*>(pd);
}

struct SharedMR : Shared<SharedMR> {
  ~SharedMR() {
    if (domain != nullptr) domain->drop_reference();
  }
  verbs::MR mr;
  SharedPD* domain = nullptr;  ///< the region's, to which `mr` points; with a reference
};

struct MRObject : ibv_mr {
  SharedMR* shared = nullptr;
};
inline MRObject* to_object(ibv_mr* mr) { return static_cast<MRObject*>(mr); }

/// `rkey` is the key that the last ibv_alloc_mw or ibv_bind_mw gave; of type 2 the program chooses
/// the key and keeps it itself.
struct MWObject : ibv_mw {
  verbs::MW mw;
};
inline MWObject* to_object(ibv_mw* mw) { return static_cast<MWObject*>(mw); }

struct ChannelObject : ibv_comp_channel {
  verbs::CompletionChannel channel;
  verbs::UseCount uses;
};
inline ChannelObject* to_object(ibv_comp_channel* channel) {
  return static_cast<ChannelObject*>(channel);
}

/// Every CQ has the extended face; the plain one is its beginning.
struct CQObject : ibv_cq_ex {
  verbs::CQ cq;
  const device::CompletionEntry* entry = nullptr;  ///< between start_poll and end_poll
  PDObject* domain = nullptr;                      ///< the parent domain that it was made with
};
inline CQObject* to_object(ibv_cq_ex* cq) { return static_cast<CQObject*>(cq); }
inline CQObject* to_object(ibv_cq* cq) { return to_object(reinterpret_cast<ibv_cq_ex*>(cq)); }

struct SRQObject : ibv_srq {
  verbs::SRQ srq;
};
inline SRQObject* to_object(ibv_srq* srq) { return static_cast<SRQObject*>(srq); }

/// Every QP has the extended face; programs get at it only when they asked for send operations.
struct QPObject : ibv_qp_ex {
  verbs::QP qp;
  bool has_send_ops = false;
  ibv_qp_attr attributes = {};  ///< what modify_qp was given and iWARP has no use for
  ibv_qp_state ib_state = IBV_QPS_RESET;  ///< persona ib: the last state that was asked for
  // Between wr_start and wr_complete.
  std::optional<verbs::QP::SendBatch> batch;
  device::SendEntry* entry = nullptr;  ///< the one being built
  int batch_error = 0;
};
inline QPObject* to_object(ibv_qp_ex* qp) { return static_cast<QPObject*>(qp); }
inline QPObject* to_object(ibv_qp* qp) { return to_object(reinterpret_cast<ibv_qp_ex*>(qp)); }

/// The number in an enum that a C program filled: it may be none of the enumerators, and then C++
/// does not allow so much as looking at it as an enum.
template <typename Enum>
std::uint32_t to_number(const Enum& value) {
  static_assert(sizeof value == sizeof(std::uint32_t));
  std::uint32_t number;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// The two ways in which verbs fail. Each sets errno.
inline int fail(int code) {
  errno = code;
  return code;
}
inline std::nullptr_t fail_null(int code) {
  errno = code;
  return nullptr;
}
/// 0, or fail with the error's code.
inline int finish(const Result<void>& result) { return result ? 0 : fail(result.error().code); }

}  // namespace weft::front
