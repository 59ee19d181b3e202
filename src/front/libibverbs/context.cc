// Opening a device: the context, its operation tables, and what a fork makes of it.
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <new>

#include "front/libibverbs/behind.h"
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"
#include "front/libibverbs/unsupported.h"

namespace weft::front {
namespace {

/// The contexts that are open, so that a forked child can shut them. Never destroyed.
struct OpenContexts {
  std::mutex lock;
  ContextObject* first = nullptr;
};
OpenContexts& open_contexts() {
  static auto* const contexts = new OpenContexts;
  return *contexts;
}

/// In the child nothing may touch the parent's connections, so what works without asking the
/// process's runtime is made to fail. Done once here, it costs the paths themselves nothing.
void shut_after_fork(ContextObject* context) {
  ibv_context_ops& ops = context->face.verbs.context.ops;
  refuse(ops.post_send);
  refuse(ops.bind_mw);
  refuse(ops.post_recv);
  refuse(ops.post_srq_recv);
  refuse(ops.req_notify_cq);
  ops.poll_cq = [](ibv_cq*, int, ibv_wc*) {
    errno = EOPNOTSUPP;
    return -1;
  };
}

}  // namespace

void register_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    // First the runtime's handlers, then ours: in the child they run in this order, and ours asks
    // for the generation that the runtime's has counted up.
    verbs::ProcessRuntime::instance();
    pthread_atfork([] { open_contexts().lock.lock(); }, [] { open_contexts().lock.unlock(); },
                   [] {
                     OpenContexts& contexts = open_contexts();
                     for (ContextObject* c = contexts.first; c != nullptr; c = c->next) {
                       if (!c->alive()) shut_after_fork(c);
                     }
                     contexts.lock.unlock();
                   });
  });
}

namespace {

void set_plain_operations(ibv_context_ops* ops) {
  // The slots that begin with _compat hold functions that no program calls: today's go by symbol.
  refuse(ops->_compat_query_device);
  refuse(ops->_compat_query_port);
  for (auto* slot :
       {&ops->_compat_alloc_pd, &ops->_compat_dealloc_pd, &ops->_compat_reg_mr,
        &ops->_compat_rereg_mr, &ops->_compat_dereg_mr, &ops->_compat_create_cq,
        &ops->_compat_cq_event, &ops->_compat_resize_cq, &ops->_compat_destroy_cq,
        &ops->_compat_create_srq, &ops->_compat_modify_srq, &ops->_compat_query_srq,
        &ops->_compat_destroy_srq, &ops->_compat_create_qp, &ops->_compat_query_qp,
        &ops->_compat_modify_qp, &ops->_compat_destroy_qp, &ops->_compat_create_ah,
        &ops->_compat_destroy_ah, &ops->_compat_attach_mcast, &ops->_compat_detach_mcast,
        &ops->_compat_async_event}) {
    refuse(*slot);
  }
  ops->alloc_mw = alloc_mw;
  ops->bind_mw = bind_mw;
  ops->dealloc_mw = dealloc_mw;
  ops->poll_cq = poll_cq;
  ops->req_notify_cq = req_notify_cq;
  ops->post_srq_recv = post_srq_recv;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
}

void set_extended_operations(verbs_context* verbs) {
  verbs->query_port = query_port;
  verbs->query_device_ex = query_device_ex;
  verbs->query_rt_values = query_rt_values;
  verbs->create_cq_ex = create_cq_ex;
  verbs->modify_cq = modify_cq;
  verbs->create_qp_ex = create_qp_ex;
  verbs->advise_mr = advise_mr;
  verbs->alloc_null_mr = alloc_null_mr;
  verbs->alloc_td = alloc_td;
  verbs->dealloc_td = dealloc_td;
  verbs->alloc_parent_domain = alloc_parent_domain;

  refuse(verbs->read_counters);
  refuse(verbs->attach_counters_point_flow);
  refuse(verbs->create_counters);
  refuse(verbs->destroy_counters);
  refuse(verbs->reg_dm_mr);
  refuse(verbs->alloc_dm);
  refuse(verbs->free_dm);
  refuse(verbs->modify_flow_action_esp);
  refuse(verbs->destroy_flow_action);
  refuse(verbs->create_flow_action_esp);
  refuse(verbs->modify_qp_rate_limit);
  refuse(verbs->post_srq_ops);
  refuse(verbs->destroy_rwq_ind_table);
  refuse(verbs->create_rwq_ind_table);
  refuse(verbs->destroy_wq);
  refuse(verbs->modify_wq);
  refuse(verbs->create_wq);
  refuse(verbs->ibv_destroy_flow);
  refuse(verbs->ABI_placeholder2);
  refuse(verbs->ibv_create_flow);
  refuse(verbs->ABI_placeholder1);
  refuse(verbs->open_qp);
  refuse(verbs->get_srq_num);
  refuse(verbs->create_srq_ex);
  refuse(verbs->open_xrcd);
  refuse(verbs->close_xrcd);
}

void set_face(ContextObject* context, ibv_device* device) {
  context->face.object = context;
  verbs_context& verbs = context->face.verbs;
  set_extended_operations(&verbs);
  // Programs measure an operation's distance from the end against sz, so that one built with newer
  // headers sees that we have no more than this.
  verbs.sz = sizeof verbs;
  ibv_context& face = verbs.context;
  set_plain_operations(&face.ops);
  face.device = device;
  face.cmd_fd = -1;  // there is no kernel device behind us
  face.async_fd = context->async.fd();
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  face.num_comp_vectors = processors > 0 ? static_cast<int>(processors) : 1;
  pthread_mutex_init(&face.mutex, nullptr);
  face.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

}  // namespace
}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_context*, open_device, (ibv_device * device)) {
  if (is_foreign(device)) return behind().ibv_open_device(device);
  register_fork_handlers();
  auto& runtime = weft::verbs::ProcessRuntime::instance();
  if (to_object(device)->interface() == nullptr) return fail_null(ENODEV);
  auto engine = runtime.device();
  if (!engine) return fail_null(engine.error().code);
  auto* context = new (std::nothrow) ContextObject{};
  if (context == nullptr) return fail_null(ENOMEM);
  context->device = *engine;
  context->generation = runtime.generation();
  if (auto opened = context->async.open(**engine); !opened) {
    delete context;
    return fail_null(opened.error().code);
  }
  set_face(context, device);

  OpenContexts& contexts = open_contexts();
  std::lock_guard guard(contexts.lock);
  context->next = contexts.first;
  contexts.first = context;
  return &context->face.verbs.context;
}

/// What is still open of the context stays usable: closing does not pull memory from under a
/// program that forgot to destroy something.
WEFT_VERB(int, close_device, (ibv_context * context)) {
  if (is_foreign(context)) return behind().ibv_close_device(context);
  ContextObject* object = to_object(context);
  if (object->uses.any()) return 0;
  {
    OpenContexts& contexts = open_contexts();
    std::lock_guard guard(contexts.lock);
    ContextObject** link = &contexts.first;
    while (*link != object) link = &(*link)->next;
    *link = object->next;
  }
  pthread_mutex_destroy(&context->mutex);
  delete object;
  return 0;
}

/// Of ours none has a descriptor that could be handed on.
WEFT_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  if (cmd_fd >= 0 && load_behind()) return behind().ibv_import_device(cmd_fd);
  return fail_null(EOPNOTSUPP);
}
