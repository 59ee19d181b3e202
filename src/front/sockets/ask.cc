// Questions, and answers to them.
#include "front/sockets/ask.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/number_gate.h"
#include "front/sockets/handed.h"
#include "front/sockets/kernel.h"
#include "front/sockets/numbers.h"
#include "front/sockets/rights.h"

namespace weft::sockets {
namespace {

/// The first octet of an abstract address is 0.
constexpr std::array<char, 12> kMark{'\0', 'w', 'e', 'f', 't', '-', 'a', 's', 'k', '-', 'a', 't'};

constexpr timespec kAnswerPatience{10, 0};
/// How often, and how long apart, who is told to ask again does.
constexpr int kTries = 100;
constexpr timespec kNap{0, 1'000'000};

/// The smallest send buffer, which says that the descriptor shows readiness, has less.
constexpr int kChannelOctetsMin = 16 * 1024;

struct Address {
  sockaddr_un un{};
  socklen_t octets = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

Address address_of(std::uint64_t maker) {
  Address address;
  address.un.sun_family = AF_UNIX;
  std::memcpy(address.un.sun_path, kMark.data(), kMark.size());
  std::memcpy(address.un.sun_path + kMark.size(), &maker, sizeof maker);
  address.octets = offsetof(sockaddr_un, sun_path) + kMark.size() + sizeof maker;
  return address;
}

/// What goes with a question: the descriptor, and where to answer.
using QuestionRights = Rights<2>;

struct Owned {
  int fd = -1;
  ~Owned() { close(); }
  void close() {
    if (fd >= 0) kernel::close(std::exchange(fd, -1));
  }
};

bool send_question(int through, std::uint64_t maker, int near, int answer) {
  Address to = address_of(maker);
  QuestionRights rights({near, answer});
  rights.message.msg_name = &to.un;
  rights.message.msg_namelen = to.octets;
  ssize_t sent = -1;
  do {
    sent = kernel::sendmsg(through, &rights.message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

}  // namespace

Result<int> open_questions(std::uint64_t maker) {
  const int fd = kernel::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Error{errno, "no descriptor to be asked at"};
  const Address at = address_of(maker);
  if (kernel::bind(fd, at.get(), at.octets) == 0) return out_of_the_way(fd);
  const int code = errno;
  kernel::close(fd);
  return Error{code, "no address to be asked at"};
}

std::optional<Question> Question::take(int questions) {
  QuestionRights rights;
  ssize_t got = -1;
  std::array<int, 2> came;
  beside_dup3([&] {
    got = kernel::recvmsg(questions, &rights.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    came = rights.descriptors();  // anybody may send here, and anything
    if (got >= 0) std::transform(came.begin(), came.end(), came.begin(), out_of_the_way);
  });
  if (got < 0) return {};
  return Question(came[0], came[1]);
}

Question::~Question() {
  if (near_ >= 0) kernel::close(near_);
  if (answer_ >= 0) kernel::close(answer_);
}

void Question::answer(Answer word) const {
  if (answer_ >= 0) kernel::send(answer_, &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::optional<Answer> ask(int near) {
  const auto end = read_end(near);
  if (!end) return {};
  Owned mine, its;
  {
    int ends[2] = {-1, -1};
    const Owned through{kernel::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    if (through.fd < 0 || kernel::socketpair(SOCK_STREAM | SOCK_CLOEXEC, ends) != 0) return {};
    mine.fd = ends[0];
    its.fd = ends[1];
    if (!send_question(through.fd, end->maker, near, its.fd)) return {};
  }
  its.close();  // once the maker's copy is closed too, nothing comes any more
  pollfd fd{mine.fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = kernel::ppoll(&fd, 1, &kAnswerPatience);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return {};
  // Without a word it has gone, which shows when it is asked again, or is short of descriptors.
  Answer word = Answer::NotNow;
  kernel::recv(mine.fd, &word, sizeof word, MSG_DONTWAIT);
  return word;
}

bool carries_octets(int near) {
  int octets = 0;
  socklen_t size = sizeof octets;
  return kernel::getsockopt(near, SOL_SOCKET, SO_SNDBUF, &octets, &size) == 0 &&
         octets >= kChannelOctetsMin;
}

bool begin_use(int near) {
  const int code = errno;
  bool may = false;
  for (int i = 0; i < kTries && !may; ++i) {
    if (i != 0) kernel::ppoll(nullptr, 0, &kNap);
    may = carries_octets(near);
    if (may) break;
    const auto word = ask(near);
    may = word == Answer::Yes;
    if (word != Answer::NotNow) break;
  }
  errno = code;
  return may;
}

}  // namespace weft::sockets
