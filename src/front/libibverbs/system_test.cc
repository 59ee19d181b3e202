// fork, and sysfs: what the library says about the system around it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// Exported, but not in the public header.
extern "C" {
int ibv_dontfork_range(void* base, std::size_t octets);
int ibv_dofork_range(void* base, std::size_t octets);
const char* ibv_get_sysfs_path();
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, std::size_t size);
}

namespace {

/// Whether `body` is true in a child, whose environment and first calls are its own.
template <typename Body>
bool in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(Fork, NothingNeedsMarking) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  // The pages really come along: a marked one would be missing in the child.
  const long page = sysconf(_SC_PAGESIZE);
  void* memory = nullptr;
  ASSERT_EQ(posix_memalign(&memory, static_cast<std::size_t>(page),
                           static_cast<std::size_t>(page)), 0);
  auto* octets = static_cast<char*>(memory);
  octets[0] = 42;
  EXPECT_EQ(ibv_dontfork_range(memory, static_cast<std::size_t>(page)), 0);
  EXPECT_TRUE(in_child([&] { return octets[0] == 42; }));
  EXPECT_EQ(ibv_dofork_range(memory, static_cast<std::size_t>(page)), 0);
  free(memory);
}

TEST(Sysfs, PathIsTheEnvironmentsWithoutTrailingSlashes) {
  const auto path_is = [](const char* wanted, const std::string& expected) {
    return in_child([&] {
      if (wanted == nullptr) {
        unsetenv("SYSFS_PATH");
      } else {
        setenv("SYSFS_PATH", wanted, 1);
      }
      const char* first = ibv_get_sysfs_path();
      setenv("SYSFS_PATH", "/elsewhere", 1);
      return first == expected && ibv_get_sysfs_path() == first;  // settled for ever
    });
  };
  EXPECT_TRUE(path_is(nullptr, "/sys"));
  EXPECT_TRUE(path_is("/mnt/sysfs", "/mnt/sysfs"));
  EXPECT_TRUE(path_is("/mnt/sysfs///", "/mnt/sysfs"));
  EXPECT_TRUE(path_is("/", ""));
  const std::string longest(2 * PATH_MAX, 'x');
  EXPECT_TRUE(path_is(longest.c_str(), longest.substr(0, PATH_MAX - 1)));
}

class SysfsFile : public ::testing::Test {
 protected:
  SysfsFile() {
    EXPECT_NE(mkdtemp(directory), nullptr);
    name = std::string(directory) + "/attribute";
  }
  ~SysfsFile() override {
    unlink(name.c_str());
    rmdir(directory);
  }
  /// Reads a file with this content into a buffer of `size`; -errno if it fails.
  int read(const std::string& content, std::size_t size) {
    FILE* file = std::fopen(name.c_str(), "w");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
    std::fclose(file);
    std::memset(buffer, '#', sizeof buffer);
    errno = 0;
    const int octets = ibv_read_sysfs_file(directory, "attribute", buffer, size);
    EXPECT_EQ(buffer[size], '#') << "written past the buffer";
    return octets < 0 ? -errno : octets;
  }

  char directory[32] = "/tmp/weft_sysfs_XXXXXX";
  std::string name;
  char buffer[16];
};

TEST_F(SysfsFile, TextWithoutItsNewline) {
  EXPECT_EQ(read("active\n", 16 - 1), 6);
  EXPECT_STREQ(buffer, "active");
  EXPECT_EQ(read("active", 15), 6);
  EXPECT_STREQ(buffer, "active");
  EXPECT_EQ(read("a\n\n", 15), 2) << "only the last newline";
  EXPECT_STREQ(buffer, "a\n");
  EXPECT_EQ(read("", 15), 0);
  EXPECT_STREQ(buffer, "");
}

TEST_F(SysfsFile, TextThatDoesNotFit) {
  EXPECT_EQ(read("1234\n", 5), 4) << "the zero takes the newline's place";
  EXPECT_STREQ(buffer, "1234");
  EXPECT_EQ(read("12345", 5), -EOVERFLOW);
  EXPECT_EQ(read("123456\n", 5), -EOVERFLOW);
}

TEST_F(SysfsFile, FilesThatAreNotThere) {
  char text[8];
  EXPECT_EQ(ibv_read_sysfs_file(directory, "none", text, sizeof text), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_read_sysfs_file("/", "tmp", text, sizeof text), -1);
  EXPECT_EQ(errno, EISDIR);
  const std::string longest(PATH_MAX, 'x');
  EXPECT_EQ(ibv_read_sysfs_file("/tmp", longest.c_str(), text, sizeof text), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

}  // namespace
