// What is asked of the kernel about interfaces, beside a program with descriptors of its own.
#include "verbs/interfaces.h"

#include <netinet/in.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/number_gate.h"

namespace weft::verbs {
namespace {

// A thread of the device's asks while the program puts something under a number that is free.
TEST(Interfaces, WhoAsksLeavesTheNumbersOfTheProgramAlone) {
  const int number = ::dup(0);
  ::close(number);
  constexpr int kScans = 500;
  std::atomic<int> scans{0};
  std::thread device([&] {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_storage source{};
    for (; scans < kScans; ++scans) {
      scan_interfaces();
      source_address_for(reinterpret_cast<const sockaddr*>(&address), &source);
    }
  });
  int lost = 0;
  while (scans < kScans) {
    {
      const NumberGate gate;
      ::dup2(0, number);
    }
    std::this_thread::yield();
    if (::close(number) != 0) ++lost;
  }
  device.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace weft::verbs
