// What a process and the machine have used so far: CPU time and context switches.
#pragma once

#include <cstdint>

namespace weft::measure {

/// CPU seconds of the whole machine, all CPUs added, as /proc/stat counts them (in hundredths).
struct MachineTime {
  double user = 0;    ///< nice included
  double system = 0;  ///< without interrupts
  double irq = 0;     ///< hardware and software interrupts
  double steal = 0;   ///< taken by the host of a virtual machine
  double idle = 0;    ///< waiting for I/O included
};

/// Of this process with all its threads, an engine's included, and of the machine.
struct Usage {
  double user = 0, system = 0;  ///< CPU seconds, by getrusage
  std::uint64_t voluntary = 0;  ///< context switches: it waited
  std::uint64_t involuntary = 0;
  MachineTime machine;

  double cpu() const { return user + system; }
  /// What was used between two of them.
  Usage since(const Usage& before) const;
};

/// Machine times are zero where there is no /proc/stat.
Usage usage_now();

/// User and system time of this process so far, all threads.
double cpu_seconds();

}  // namespace weft::measure
