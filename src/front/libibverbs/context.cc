// Opening a device: the context, its operation tables, and what a fork makes of it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <new>

#include "base/number_gate.h"
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
  Opening last_opening = 0;
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

void unlock_after_fork() {
  HandleTable<SharedMR>::instance().after_fork();
  HandleTable<SharedPD>::instance().after_fork();
  open_contexts().lock.unlock();
}

}  // namespace

void register_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    // First the runtime's handlers, then ours: in the child they run in this order, and ours asks
    // for the generation that the runtime's has counted up.
    verbs::ProcessRuntime::instance();
    pthread_atfork(
        [] {
          open_contexts().lock.lock();
          HandleTable<SharedPD>::instance().before_fork();
          HandleTable<SharedMR>::instance().before_fork();
        },
        unlock_after_fork,
        [] {
          for (ContextObject* c = open_contexts().first; c != nullptr; c = c->next) {
            if (!c->alive()) shut_after_fork(c);
          }
          unlock_after_fork();
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

void set_face(ContextObject* context, ibv_device* device, int cmd_fd) {
  context->face.object = context;
  verbs_context& verbs = context->face.verbs;
  set_extended_operations(&verbs);
  // Programs measure an operation's distance from the end against sz, so that one built with newer
  // headers sees that we have no more than this.
  verbs.sz = sizeof verbs;
  ibv_context& face = verbs.context;
  set_plain_operations(&face.ops);
  face.device = device;
  face.cmd_fd = cmd_fd;
  face.async_fd = context->async.fd();
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  face.num_comp_vectors = processors > 0 ? static_cast<int>(processors) : 1;
  pthread_mutex_init(&face.mutex, nullptr);
  face.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

/// There is no kernel device behind us. What programs take for its descriptor, duplicate and give
/// to ibv_import_device is an empty file, by which a context is known: no other is the same.
int make_cmd_fd() {
  return make_descriptor(Numbers::OutOfTheWay, [] {
    return ::syscall(SYS_memfd_create, "weft-device", MFD_CLOEXEC);
  });
}

bool is_same_file(int fd, const struct stat& file) {
  struct stat other;
  return fstat(fd, &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino;
}

/// A further context of that opening, or with 0 of a new one; `cmd_fd` is its own from then on.
/// Null, with errno: the descriptor is still the caller's.
ibv_context* add_context(ibv_device* device, int cmd_fd, Opening opening) {
  auto& runtime = verbs::ProcessRuntime::instance();
  if (to_object(device)->interface() == nullptr) return fail_null(ENODEV);
  auto engine = runtime.device();
  if (!engine) return fail_null(engine.error().code);
  auto* context = new (std::nothrow) ContextObject{};
  if (context == nullptr) return fail_null(ENOMEM);
  context->device = *engine;
  context->generation = runtime.generation();
  if (auto opened = context->async.open(**engine, runtime.numbers()); !opened) {
    delete context;
    return fail_null(opened.error().code);
  }
  set_face(context, device, cmd_fd);

  OpenContexts& contexts = open_contexts();
  std::lock_guard guard(contexts.lock);
  context->opening = opening != 0 ? opening : ++contexts.last_opening;
  context->next = contexts.first;
  contexts.first = context;
  return &context->face.verbs.context;
}

/// What an imported context takes over of the one that the descriptor leads to.
struct Origin {
  ibv_device* device = nullptr;
  Opening opening = 0;
  bool is_its_own_fd = false;  ///< of an open context, which will close it
};

/// Empty: none of this process.
Origin find_origin(int cmd_fd, const struct stat& file) {
  OpenContexts& contexts = open_contexts();
  std::lock_guard guard(contexts.lock);
  Origin origin;
  for (ContextObject* c = contexts.first; c != nullptr; c = c->next) {
    const ibv_context& face = c->face.verbs.context;
    if (!c->alive() || !is_same_file(face.cmd_fd, file)) continue;
    origin.device = face.device;
    origin.opening = c->opening;
    origin.is_its_own_fd |= face.cmd_fd == cmd_fd;
  }
  return origin;
}

}  // namespace
}  // namespace weft::front

using namespace weft::front;

WEFT_VERB(ibv_context*, open_device, (ibv_device * device)) {
  if (is_foreign(device)) return behind().ibv_open_device(device);
  register_fork_handlers();
  const int cmd_fd = make_cmd_fd();
  if (cmd_fd < 0) return nullptr;
  ibv_context* const context = add_context(device, cmd_fd, 0);
  if (context == nullptr) {
    const int code = errno;
    close(cmd_fd);
    errno = code;
  }
  return context;
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
  close(context->cmd_fd);
  delete object;
  return 0;
}

/// By the cmd_fd of an open context of this process, or a duplicate of it; as always, closing the
/// context closes the descriptor. Any other is a real device's, or nobody's
/// (EOPNOTSUPP): one of ours lives in its process, and a descriptor that came from another one
/// leads to nothing here.
WEFT_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  register_fork_handlers();
  struct stat file;
  const int known = fstat(cmd_fd, &file);
  const Origin origin = known == 0 ? find_origin(cmd_fd, file) : Origin{};
  if (origin.device == nullptr) {
    if (load_behind()) return behind().ibv_import_device(cmd_fd);
    return fail_null(known == 0 ? EOPNOTSUPP : EBADF);
  }
  // Two contexts must not close one descriptor.
  const int own_fd = origin.is_its_own_fd ? fcntl(cmd_fd, F_DUPFD_CLOEXEC, 0) : cmd_fd;
  if (own_fd < 0) return nullptr;
  ibv_context* const context = add_context(origin.device, own_fd, origin.opening);
  if (context == nullptr && own_fd != cmd_fd) {
    const int code = errno;
    close(own_fd);
    errno = code;
  }
  return context;
}
