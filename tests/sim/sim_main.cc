// Runs seeds. Prints what fails, and the command that runs it again.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/sim/simulation.h"

namespace weft::sim {
namespace {

struct Options {
  std::uint64_t from = 1;
  std::uint64_t seeds = 1000;
  bool verbose = false;
  std::string broken;  ///< a name of kBreaks or "all"
};

int usage(std::FILE* out, const char* program) {
  std::fprintf(out,
               "usage: %s [--from SEED] [--seeds N] [--verbose]\n"
               "Two protocol cores under one virtual clock over a hostile transport: each seed is\n"
               "one run, held against a model. --verbose prints what happens.\n"
               "The last line counts the seeds; the status is 0 only if none failed.\n",
               program);
  return out == stderr ? 2 : 0;
}

bool parse_number(const char* text, std::uint64_t& number) {
  char* end = nullptr;
  number = std::strtoull(text, &end, 0);
  return *text != '\0' && *text != '-' && *end == '\0';
}

/// The mistake has to be found by the very check it is made for.
bool is_caught(const Break& mistake) {
  constexpr std::uint64_t kSeedsMax = 3000;
  Tally tally;
  for (std::uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    Verdict verdict(mistake.name, false);
    Simulation(seed, verdict, tally).run();
    if (verdict.check() == mistake.caught_by) {
      std::printf("%-20s caught at seed %" PRIu64 " (%s): %s\n", mistake.name, seed,
                  name(mistake.caught_by), verdict.text().c_str());
      return true;
    }
  }
  std::printf("%-20s NOT CAUGHT in %" PRIu64 " seeds\n", mistake.name, kSeedsMax);
  return false;
}

int run_breaks(const std::string& which) {
  bool known = false, all_caught = true;
  for (const Break& mistake : kBreaks) {
    if (which != "all" && which != mistake.name) continue;
    known = true;
    all_caught &= is_caught(mistake);
  }
  if (!known) std::fprintf(stderr, "no such mistake: %s\n", which.c_str());
  return known && all_caught ? 0 : 1;
}

void print(const Tally& tally) {
  std::printf("%" PRIu64 " streams' ends, %" PRIu64 " startups failed, %" PRIu64
              " revision 1 retries; %" PRIu64 " send queue WRs: %" PRIu64 " succeeded; %" PRIu64
              " receives filled; %" PRIu64 " WRs failed, %" PRIu64 " flushed; %" PRIu64
              " windows bound\n",
              tally.streams, tally.startups_failed, tally.retries, tally.operations,
              tally.succeeded, tally.receives, tally.failed, tally.flushed, tally.windows);
  std::printf("%" PRIu64 " Terminates, %" PRIu64 " resets, %" PRIu64 " early FINs, %" PRIu64
              " octets corrupted, %" PRIu64 " delays, %" PRIu64 " splits\n",
              tally.terminates, tally.cuts, tally.early_fins, tally.corruptions, tally.delays,
              tally.splits);
}

int run_seeds(const Options& options, const char* program) {
  constexpr std::uint64_t kFailuresShown = 10;
  Tally tally;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < options.seeds && failed < kFailuresShown; ++i) {
    const std::uint64_t seed = options.from + i;
    Verdict verdict("", options.verbose);
    Simulation(seed, verdict, tally).run();
    if (!verdict.failed()) continue;
    ++failed;
    std::printf("seed %" PRIu64 " failed (%s): %s\n  replay: %s --from %" PRIu64
                " --seeds 1 --verbose\n",
                seed, name(*verdict.check()), verdict.text().c_str(), program, seed);
    std::fflush(stdout);
  }
  print(tally);
  std::printf("%" PRIu64 " seeds run (%" PRIu64 " without trouble), %" PRIu64 " failed\n",
              tally.seeds, tally.peaceful, failed);
  return failed == 0 && tally.seeds > 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--help" || option == "-h") return usage(stdout, argv[0]);
    if (option == "--verbose") {
      options.verbose = true;
    } else if (option == "--from" && has_value && parse_number(argv[i + 1], options.from)) {
      ++i;
    } else if (option == "--seeds" && has_value && parse_number(argv[i + 1], options.seeds)) {
      ++i;
    } else if (option == "--break" && has_value) {
      options.broken = argv[++i];
    } else {
      return usage(stderr, argv[0]);
    }
  }
  return options.broken.empty() ? run_seeds(options, argv[0]) : run_breaks(options.broken);
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  return weft::sim::run(argc, argv);
}
