// The fault guard among other handlers of the process.
#include "engine/guarded_mover.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "base/crc32c.h"

namespace weft::engine {
namespace {

constexpr auto kHere = core::ReadBy::ThisCore, kElsewhere = core::ReadBy::AnotherCore;

struct sigaction before_program;
std::atomic<int> program_calls = 0;

/// A program's crash handler that also calls the one it replaced, as crash reporters do.
void handle_in_program(int signal_number, siginfo_t* info, void* context) {
  ++program_calls;
  if (program_calls > 3) _exit(9);
  if ((before_program.sa_flags & SA_SIGINFO) != 0) {
    before_program.sa_sigaction(signal_number, info, context);
  }
}

/// How a child that does this ends, as waitpid tells.
int status_of_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fault : {SIGSEGV, SIGBUS}) ::signal(fault, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

void install_program_handler(int flags = SA_SIGINFO | SA_NODEFER) {
  struct sigaction ours = {};
  ours.sa_sigaction = handle_in_program;
  ours.sa_flags = flags;
  sigaction(SIGSEGV, &ours, &before_program);
}

std::uint8_t* unmapped_page() {
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::uint8_t*>(page);
}

TEST(GuardedMoverTest, AnAtomicOperationOnAVanishedPageIsRefused) {
  GuardedMover::install_handler();
  GuardedMover mover;
  std::uint64_t original = 0;
  alignas(8) std::uint64_t number = 40;
  auto* there = reinterpret_cast<std::uint8_t*>(&number);
  EXPECT_TRUE(mover.update(there, {wire::AtomicOpcode::FetchAdd, {.data = 2}}, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_EQ(number, 42u);
  EXPECT_FALSE(
      mover.update(unmapped_page(), {wire::AtomicOpcode::FetchAdd, {.data = 2}}, &original));
  void* read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(mover.update(static_cast<std::uint8_t*>(read_only),
                            {wire::AtomicOpcode::FetchAdd, {.data = 2}}, &original));
}

// Whatever it makes of the cache and the sizes: large and small in turns, more than a cache holds.
TEST(GuardedMoverTest, PlacesWhatArrivedAndNothingElse) {
  GuardedMover mover;
  constexpr std::size_t kRoom = 8 << 20;
  std::vector<std::uint8_t> source(256 << 10), target(kRoom), expected(kRoom);
  std::iota(source.begin(), source.end(), std::uint8_t{1});
  std::mt19937 random(1);
  for (std::size_t at = 0; at < kRoom;) {
    const std::size_t most = random() % 3 == 0 ? 5'000 : source.size() - 256;
    const std::size_t octets = std::min<std::size_t>(kRoom - at, random() % most);
    const Octets piece = Octets(source).subspan(random() % 256, octets);
    ASSERT_TRUE(mover.place(target.data() + at, piece, nullptr));
    std::copy(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    at += octets + random() % 70;
  }
  EXPECT_TRUE(target == expected);
}

// Some are copied in other ways: where the target lies a little behind the source, but for pages,
// and what is long.
class MovesOf : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MovesOf, OctetsWhereverBothLie) {
  GuardedMover mover;
  constexpr std::size_t kPage = 4096;
  const std::size_t octets = GetParam();
  std::vector<std::uint8_t> source(octets), target(octets + 2 * kPage);
  std::iota(source.begin(), source.end(), std::uint8_t{1});
  const std::size_t first = (reinterpret_cast<std::uintptr_t>(source.data()) % kPage + kPage -
                             reinterpret_cast<std::uintptr_t>(target.data()) % kPage) %
                            kPage;
  for (std::size_t behind = 0; behind < 80; ++behind) {
    std::uint8_t* const to = target.data() + first + behind;
    const auto fetch = [&](std::uint32_t* state, core::ReadBy read_by) {
      return mover.fetch(to, source.data(), octets, state, read_by);
    };
    std::uint32_t states[2] = {kCRC32CStart, kCRC32CStart};
    const std::function<bool()> moves[] = {
        [&] { return mover.place(to, source, nullptr); },
        [&] { return fetch(nullptr, kHere); },
        [&] { return fetch(nullptr, kElsewhere); },
        [&] { return fetch(&states[0], kHere); },
        [&] { return fetch(&states[1], kElsewhere); },
    };
    for (const auto& move : moves) {
      std::fill(target.begin(), target.end(), std::uint8_t{0});
      ASSERT_TRUE(move());
      EXPECT_TRUE(std::equal(source.begin(), source.end(), to)) << behind;
      EXPECT_EQ(std::count(target.data(), to, 0), to - target.data()) << behind;
      EXPECT_EQ(to[octets], 0) << behind;
    }
    for (const std::uint32_t state : states) {
      EXPECT_EQ(state, crc32c_extend_portable(kCRC32CStart, source)) << behind;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Lengths, MovesOf, ::testing::Values(9'000, 20'001));

/// In children, as below.
TEST(GuardedMoverTest, EachAccessToAVanishedPageIsRefused) {
  static std::array<std::uint8_t, 4096> octets;
  std::uint32_t state = 0;
  GuardedMover mover;
  std::uint8_t* const page = unmapped_page();
  // Half of it is there.
  constexpr std::size_t kLong = 128 * 1024;
  static std::array<std::uint8_t, kLong> longer;
  auto* const half = static_cast<std::uint8_t*>(
      mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(half + kLong / 2, kLong / 2, PROT_NONE), 0);
  const std::function<bool()> accesses[] = {
      [&] { return mover.crc_registered(&state, page, octets.size()); },
      [&] { return mover.fetch(octets.data(), page, octets.size(), &state, kHere); },
      [&] { return mover.fetch(octets.data(), page, octets.size(), nullptr, kHere); },
      [&] { return mover.fetch(octets.data(), page, 1, nullptr, kHere); },
      [&] { return mover.place(page, octets, nullptr); },
      [&] { return mover.place(page, Octets(octets).first(8), nullptr); },
      [&] { return mover.crc_registered(&state, half, kLong); },
      [&] { return mover.fetch(longer.data(), half, kLong, &state, kHere); },
      [&] { return mover.fetch(longer.data(), half, kLong, nullptr, kHere); },
      [&] { return mover.fetch(longer.data(), half, kLong, &state, kElsewhere); },
      [&] { return mover.fetch(longer.data(), half, kLong, nullptr, kElsewhere); },
      [&] { return mover.place(half, longer, nullptr); },
      [&] { return mover.place(half, longer, &state); },
  };
  for (const auto& access : accesses) {
    const int status = status_of_child([&] {
      GuardedMover::install_handler();
      _exit(access() ? 1 : 0);
    });
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

#ifdef __SANITIZE_ADDRESS__
// Its memcpy takes a range that ends at 2^64 for one of negative size.
constexpr std::uint64_t kHighest = ~std::uint64_t{0} - 4;
#else
constexpr std::uint64_t kHighest = ~std::uint64_t{0} - 3;
#endif

/// In children, because ThreadSanitizer does not survive a second jump out of a signal handler.
TEST(GuardedMoverTest, AddressesWhereNoMemoryCanBeAreRefused) {
  for (const std::uint64_t address :
       {std::uint64_t{1}, std::uint64_t{1} << 62, std::uint64_t{0x00ff'0000'0000'0000},
        std::uint64_t{0xffff'8000'0000'0000}, ~std::uint64_t{0} - 4, kHighest}) {
    SCOPED_TRACE(address);
    for (const bool write : {true, false}) {
      const int status = status_of_child([&] {
        GuardedMover::install_handler();
        GuardedMover mover;
        std::array<std::uint8_t, 4> octets{};
        auto* place = reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(address));
        const bool done = write ? mover.place(place, octets, nullptr)
                                : mover.fetch(octets.data(), place, octets.size(), nullptr, kHere);
        _exit(done ? 1 : 0);
      });
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
  }
}

/// The program's handler lacks SA_NODEFER, so its signal is blocked while it calls ours.
TEST(GuardedMoverTest, FaultsThatComeByTheProgramsHandlerAreRefusedEachTime) {
  const int status = status_of_child([] {
    GuardedMover::install_handler();
    install_program_handler(SA_SIGINFO);
    GuardedMover mover;
    const std::array<std::uint8_t, 8> octets{};
    for (int i = 0; i < 3; ++i) {
      if (mover.place(unmapped_page(), octets, nullptr)) _exit(1);
    }
    _exit(0);
  });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(GuardedMoverTest, HandlersThatCallEachOtherDoNotGoRound) {
  const int status = status_of_child([] {
    GuardedMover::install_handler();
    install_program_handler();
    GuardedMover::install_handler();
    *unmapped_page() = 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the store is not optimised away
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(GuardedMoverTest, ASignalThatWasSentStillEndsTheProcess) {
  const int status = status_of_child([] {
    GuardedMover::install_handler();
    raise(SIGSEGV);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

#ifndef __SANITIZE_THREAD__
TEST(GuardedMoverTest, GuardsBehindAProgramsHandler) {
  const int status = status_of_child([] {
    GuardedMover::install_handler();
    install_program_handler();
    GuardedMover::install_handler();
    GuardedMover mover;
    const std::array<std::uint8_t, 16> octets = {};
    std::uint8_t* gone = unmapped_page();
    for (int i = 0; i < 5; ++i) {
      if (mover.place(gone, octets, nullptr)) _exit(1);
    }
    _exit(program_calls == 0 ? 42 : 2);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}
#endif

}  // namespace
}  // namespace weft::engine
