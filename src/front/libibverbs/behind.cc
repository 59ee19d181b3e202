// Finding and loading the machine's own libibverbs, and keeping its lists of devices.
#include "front/libibverbs/behind.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "front/libibverbs/unsupported.h"
#include "weft/settings.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" const char* ibv_get_sysfs_path();

namespace weft::front {
namespace {

constexpr const char* kSoname = "libibverbs.so.1";
constexpr const char* kPrivateNode = "IBVERBS_PRIVATE_34";

/// Never destroyed: a program may call verbs while the process exits.
struct State {
  /// Recursive: a constructor of what is being loaded might list devices.
  std::recursive_mutex loading;
  enum { NotTried, Trying, Absent, Loaded } outcome = NotTried;
  VerbsBehind verbs;

  std::mutex early;  ///< of the call that is made good when the library comes
  bool fork_init_wanted = false;

  std::mutex lists_lock;
  /// The program's list, and the foreign one that belongs to it.
  std::vector<std::pair<ibv_device**, ibv_device**>> lists;
};
State& state() {
  static auto* const the_state = new State;
  return *the_state;
}

/// Our own devices need nothing for a fork. For others it is noted.
int fork_init_alone() {
  std::unique_lock guard(state().early);
  if (behind().ibv_fork_init == fork_init_alone) {
    state().fork_init_wanted = true;
    return 0;
  }
  guard.unlock();
  return behind().ibv_fork_init();
}

constexpr VerbsBehind initial_verbs() {
  VerbsBehind verbs{};
#define WEFT_REFUSE(symbol, node) refuse(verbs.symbol);
  WEFT_VERBS_BEHIND(WEFT_REFUSE)
#undef WEFT_REFUSE
  verbs.ibv_fork_init = fork_init_alone;
  verbs.ibv_is_fork_initialized = [] { return IBV_FORK_UNNEEDED; };
  verbs.ibv_dontfork_range = [](void*, std::size_t) { return 0; };
  verbs.ibv_dofork_range = [](void*, std::size_t) { return 0; };
  verbs.ibv_query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; };
  verbs.ibv_ack_async_event = [](ibv_async_event*) {};
  return verbs;
}
constexpr VerbsBehind kInitialVerbs = initial_verbs();

/// The setting in force. A program with more privileges than its caller does not load what the
/// caller names.
std::string wanted_library() {
  const char* value = getauxval(AT_SECURE) != 0 ? nullptr : std::getenv("WEFT_VERBS_BEHIND");
  return value != nullptr ? value : std::string(find_setting("WEFT_VERBS_BEHIND")->initial);
}

/// The kernel's verbs show this file, with devices or without. rdma-core reads it, too, and without
/// it lists none.
bool kernel_has_verbs() {
  const std::string file =
      std::string(ibv_get_sysfs_path()) + "/class/infiniband_verbs/abi_version";
  return access(file.c_str(), F_OK) == 0;
}

/// Where the loader looks for what this program links, in its order: LD_LIBRARY_PATH, the program's
/// own folders, the system's.
std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  void* const program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size;
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  const std::unique_ptr<void, void (*)(void*)> memory(std::calloc(1, size.dls_size), std::free);
  auto* info = static_cast<Dl_serinfo*>(memory.get());
  if (info == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, info) != 0 ||
      dlinfo(program, RTLD_DI_SERINFO, info) != 0) {
    return folders;
  }
  const Dl_serpath* const paths = info->dls_serpath;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(paths[i].dls_name);
  return folders;
}

void* find_private(void* library, const char* name) {
  return dlvsym(library, name, kPrivateNode);
}

struct Opened {
  void* library = nullptr;
  bool is_weft = false;
  std::string fault;  ///< why there is no library
};

Opened open_library(const std::string& path) {
  // A path is not matched by soname, so that ours does not stand for it. Not RTLD_DEEPBIND, which
  // would give it another malloc than the program's.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {.fault = dlerror()};
  Opened refused;
  if (dlvsym(library, "weft_private_runtime", "WEFT_PRIVATE_1") != nullptr) {
    refused = {.is_weft = true, .fault = path + ": this is weft itself"};
  } else if (dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1") == nullptr) {
    refused = {.fault = path + ": this is not a verbs library"};
  } else if (find_private(library, "verbs_register_driver_34") == nullptr) {
    // Its providers would look for their symbols in ours, which stands in its place for them.
    refused = {.fault = path + ": its private interface is not " + kPrivateNode};
  } else {
    return {.library = library};
  }
  dlclose(library);
  return refused;
}

/// In the loader's folders the first that is not weft's own, which stands in front.
Opened find_library(const std::string& wanted) {
  if (wanted != "auto") return open_library(wanted);
  Opened answer;
  for (const std::string& folder : library_folders()) {
    const std::string path = folder + "/" + kSoname;
    if (access(path.c_str(), F_OK) != 0) continue;
    Opened opened = open_library(path);
    if (opened.library != nullptr) return opened;
    if (answer.fault.empty() && !opened.is_weft) answer = std::move(opened);
  }
  return answer;
}

void use(void* library) {
  State& s = state();
  s.verbs = kInitialVerbs;
#define WEFT_FILL(symbol, node)                                    \
  if (void* found = dlvsym(library, #symbol, node)) {              \
    s.verbs.symbol = reinterpret_cast<decltype(&::symbol)>(found); \
  }
  WEFT_VERBS_BEHIND(WEFT_FILL)
#undef WEFT_FILL
  connect_private_symbols(find_private, library);
  bool fork_init_wanted;
  {
    std::lock_guard guard(s.early);
    internal::verbs_behind.store(&s.verbs, std::memory_order_release);
    fork_init_wanted = s.fork_init_wanted;
  }
  if (fork_init_wanted) s.verbs.ibv_fork_init();
}

}  // namespace

namespace internal {
constinit std::atomic<const VerbsBehind*> verbs_behind{&kInitialVerbs};
}  // namespace internal

bool load_behind() {
  State& s = state();
  std::lock_guard guard(s.loading);
  if (s.outcome != State::NotTried) return s.outcome == State::Loaded;
  const std::string wanted = wanted_library();
  // Asked anew each time: the kernel's part may be loaded later.
  if (wanted == "off" || (wanted == "auto" && !kernel_has_verbs())) return false;
  s.outcome = State::Trying;
  const Opened found = find_library(wanted);
  if (found.library == nullptr) {
    s.outcome = State::Absent;
    if (!found.fault.empty()) {
      std::fprintf(stderr, "weft: %s; only weft's own devices are listed (WEFT_VERBS_BEHIND=%s)\n",
                   found.fault.c_str(), wanted.c_str());
    }
    return false;
  }
  use(found.library);
  s.outcome = State::Loaded;
  return true;
}

ForeignDevices list_foreign_devices() {
  ForeignDevices foreign;
  const int errno_before = errno;  // that there are none is no failure of ours
  if (load_behind()) {
    int count = 0;
    foreign.list = behind().ibv_get_device_list(&count);
    share_private_settings();
    if (foreign.list != nullptr && count > 0) foreign.count = static_cast<std::size_t>(count);
  }
  errno = errno_before;
  return foreign;
}

void keep_foreign_list(ibv_device** shown, const ForeignDevices& foreign) {
  if (foreign.list == nullptr) return;
  // The address may have been in use before: by a list that the program gave to free() itself.
  free_foreign_list(shown);
  State& s = state();
  std::lock_guard guard(s.lists_lock);
  s.lists.emplace_back(shown, foreign.list);
}

void free_foreign_list(ibv_device** shown) {
  State& s = state();
  ibv_device** theirs = nullptr;
  {
    std::lock_guard guard(s.lists_lock);
    for (auto& pair : s.lists) {
      if (pair.first != shown) continue;
      theirs = pair.second;
      std::swap(pair, s.lists.back());
      s.lists.pop_back();
      break;
    }
  }
  if (theirs != nullptr) behind().ibv_free_device_list(theirs);
}

ibv_context* device_mark(ibv_device*, int) {
  return nullptr;
}

}  // namespace weft::front
