// A window's life; binding goes through the send queue.
#include "verbs/mw.h"

namespace weft::verbs {

Result<void> MW::open(PD& pd, device::WindowKind kind) {
  auto stag = pd.device().allocate_window(pd.number(), kind);
  if (!stag) return stag.error();
  stag_ = *stag;
  pd_ = &pd;
  pd.uses().add();
  return {};
}

Result<void> MW::close() {
  if (auto done = pd_->device().deallocate_window(stag_); !done) return done;
  pd_->uses().drop();
  return {};
}

}  // namespace weft::verbs
