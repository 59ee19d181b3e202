// main() for a fuzz target without libFuzzer: runs it once over each file named on the command
// line, and over each file below each directory named there. Finding none is a failure: a corpus
// that went missing must not look like a corpus that passed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

/// Adds what `argument` names to `files`; false if it names nothing that can be read.
bool collect(const fs::path& argument, std::vector<fs::path>& files) {
  std::error_code error;
  if (fs::is_regular_file(argument, error)) {
    files.push_back(argument);
    return true;
  }
  const std::size_t before = files.size();
  fs::recursive_directory_iterator entry(argument, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file()) files.push_back(entry->path());
  }
  if (error)
    std::fprintf(stderr, "%s: %s\n", argument.c_str(), error.message().c_str());
  else if (files.size() == before)
    std::fprintf(stderr, "%s: no files\n", argument.c_str());
  return !error && files.size() > before;
}

bool replay(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
    return false;
  }
  // A vector of exactly the file's size, so that the address sanitizer sees a read past its end.
  std::vector<char> octets{std::istreambuf_iterator<char>(in), {}};
  octets.shrink_to_fit();
  std::printf("%s (%zu octets)\n", file.c_str(), octets.size());
  std::fflush(stdout);  // a crash then names its file
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(octets.data()), octets.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  bool ok = argc > 1;
  if (!ok) std::fprintf(stderr, "usage: %s FILE-OR-DIRECTORY...\n", argv[0]);
  for (int i = 1; i < argc; ++i) ok = collect(argv[i], files) && ok;
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) ok = replay(file) && ok;
  std::printf("%zu files replayed\n", files.size());
  return ok ? 0 : 1;
}
