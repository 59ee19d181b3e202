// What librdmacm shares with us.
#include "front/libibverbs/export.h"
#include "front/libibverbs/objects.h"
#include "front/libibverbs/operations.h"

namespace weft::front {
namespace {

device::QPNumber qp_number_of(const void* ibv_qp_pointer) {
  auto* qp = const_cast<ibv_qp*>(static_cast<const ibv_qp*>(ibv_qp_pointer));
  // Another library's QP has another library's operations.
  if (qp->context == nullptr || qp->context->ops.post_send != post_send) return 0;
  return to_object(qp)->qp.number();
}

}  // namespace
}  // namespace weft::front

WEFT_EXPORT weft::verbs::Runtime* weft_private_runtime() {
  // Before librdmacm registers its own, which take its lock of the devices: who opens one there
  // takes that lock and then ours, and the handlers before a fork run in the order from last to
  // first.
  weft::front::register_fork_handlers();
  auto& runtime = weft::verbs::ProcessRuntime::instance();
  runtime.set_qp_number_of(weft::front::qp_number_of);
  return &runtime;
}
