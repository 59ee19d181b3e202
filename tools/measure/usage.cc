// getrusage for the process, /proc/stat for the machine.
#include "measure/usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace weft::measure {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

MachineTime machine_now() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)) {
    return {};
  }
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {(user + nice) / tick, system / tick, (irq + softirq) / tick, steal / tick,
          (idle + iowait) / tick};
}

}  // namespace

Usage Usage::since(const Usage& before) const {
  return {user - before.user,
          system - before.system,
          voluntary - before.voluntary,
          involuntary - before.involuntary,
          {machine.user - before.machine.user, machine.system - before.machine.system,
           machine.irq - before.machine.irq, machine.steal - before.machine.steal,
           machine.idle - before.machine.idle}};
}

Usage usage_now() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {seconds(used.ru_utime), seconds(used.ru_stime), static_cast<std::uint64_t>(used.ru_nvcsw),
          static_cast<std::uint64_t>(used.ru_nivcsw), machine_now()};
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace weft::measure
