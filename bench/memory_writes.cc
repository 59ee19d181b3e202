// Is iwarp_write as fast as the verbs? Writes and Reads by <weft/sockets.h> beside the same by
// ibv_post_send, between the same two processes, round by round in turn.
//
// usage: memory_writes [--quick] [ROUNDS]
//
// The target's program sleeps. Each leg moves whole messages from one buffer into one buffer, 128
// in flight, completions polled 16 at a time, and ends with a Read of eight octets, which is
// answered behind all Writes. One at a time: one Read after the other. The verbs do it twice: with
// every request signalled, as a program does that wants to hear of each, which is what
// <weft/sockets.h> gives; and with one in 16, as a program may that has no use for the others. The
// last columns are the medians of the rounds' ratios, sockets : verbs, of throughput (of time where
// one at a time), and the lowest and highest of them.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/sockets.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kMemory = 4 << 20;
constexpr std::uint32_t kInFlight = 128;
constexpr int kBatch = 16;
constexpr std::uint32_t kSeldom = 16;

void need(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Leg {
  const char* name;
  bool reads;
  std::uint32_t octets;
  std::uint32_t in_flight;
  std::uint32_t count;
};

/// Both ways to the same thing: post one, take what is done.
class Way {
 public:
  virtual ~Way() = default;
  /// `last`: nothing is posted before it is done.
  virtual void post(bool reads, std::uint32_t octets, bool last) = 0;
  virtual int take() = 0;

  /// Seconds.
  double run(const Leg& leg) {
    const double began = seconds();
    std::uint32_t posted = 0, done = 0;
    while (done < leg.count) {
      while (posted < leg.count && posted - done < leg.in_flight) {
        ++posted;
        post(leg.reads, leg.octets, posted == leg.count || leg.in_flight == 1);
      }
      done += static_cast<std::uint32_t>(take());
    }
    post(true, 8, true);
    while (take() == 0) {
    }
    return seconds() - began;
  }
};

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int new_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int mode = IWARP_MODE_REQUIRED;
  need(::setsockopt(fd, SOL_IWARP, IWARP_MODE, &mode, sizeof mode) == 0, "IWARP_MODE");
  return fd;
}

class BySockets final : public Way {
 public:
  BySockets(int port, std::vector<std::uint8_t>& memory)
      : memory_(memory.data()), fd_(new_socket()) {
    const sockaddr_in address = loopback(port);
    need(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
         "connect");
    need(iwarp_register(fd_, memory_, memory.size(), IWARP_LOCAL_WRITE) >= 0, "iwarp_register");
    iwarp_key key;
    need(::recv(fd_, &key, sizeof key, MSG_WAITALL) == sizeof key, "recv");
    need(iwarp_import(&key, &remote_) == 0, "iwarp_import");
  }
  void post(bool reads, std::uint32_t octets, bool) override {
    const int result = reads ? iwarp_post_read(fd_, memory_, octets, &remote_, 0, 0)
                             : iwarp_post_write(fd_, memory_, octets, &remote_, 0, 0);
    need(result == 0, "iwarp_post");
  }
  int take() override {
    std::array<iwarp_completion, kBatch> completions;
    const int count = iwarp_poll(fd_, completions.data(), kBatch);
    need(count >= 0, "iwarp_poll");
    for (int i = 0; i < count; ++i) need(completions[static_cast<unsigned>(i)].error == 0, "error");
    return count;
  }

 private:
  std::uint8_t* memory_;
  int fd_;
  iwarp_remote remote_{};
};

struct Told {
  std::uint64_t address;
  std::uint32_t key;
};

ibv_qp_init_attr queue_sizes() {
  ibv_qp_init_attr attributes{};
  attributes.cap.max_send_wr = kInFlight + 1;
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.qp_type = IBV_QPT_RC;
  return attributes;
}

class ByVerbs final : public Way {
 public:
  ByVerbs(int port, std::vector<std::uint8_t>& memory) {
    sockaddr_in address = loopback(port);
    need(rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    need(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) == 0,
         "rdma_resolve_addr");
    need(rdma_resolve_route(id_, 5000) == 0, "rdma_resolve_route");
    ibv_qp_init_attr attributes = queue_sizes();
    need(rdma_create_qp(id_, nullptr, &attributes) == 0, "rdma_create_qp");
    region_ = ibv_reg_mr(id_->pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    need(region_ != nullptr, "ibv_reg_mr");
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 16;
    need(rdma_connect(id_, &param) == 0, "rdma_connect");
    need(id_->event->param.conn.private_data_len >= sizeof told_, "private data");
    std::memcpy(&told_, id_->event->param.conn.private_data, sizeof told_);
    place_ = {reinterpret_cast<std::uintptr_t>(memory.data()), 0, region_->lkey};
  }
  /// One in so many is signalled.
  void signal_every(std::uint32_t every) { every_ = every; }
  void post(bool reads, std::uint32_t octets, bool last) override {
    ibv_send_wr request{}, *bad = nullptr;
    place_.length = octets;
    request.wr_id = ++stands_for_;
    request.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    if (stands_for_ == every_ || last) {
      request.send_flags = IBV_SEND_SIGNALED;
      stands_for_ = 0;
    }
    request.sg_list = &place_;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = told_.address;
    request.wr.rdma.rkey = told_.key;
    need(ibv_post_send(id_->qp, &request, &bad) == 0, "ibv_post_send");
  }
  int take() override {
    std::array<ibv_wc, kBatch> completions;
    const int count = ibv_poll_cq(id_->send_cq, kBatch, completions.data());
    need(count >= 0, "ibv_poll_cq");
    std::uint64_t done = 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<unsigned>(i)];
      need(completion.status == IBV_WC_SUCCESS, "completion");
      done += completion.wr_id;
    }
    return static_cast<int>(done);
  }

 private:
  rdma_cm_id* id_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_sge place_{};
  Told told_{};
  std::uint32_t every_ = 1;
  std::uint64_t stands_for_ = 0;  ///< requests, the next signalled one
};

/// The passive process: tells its two ports, gives its memory, sleeps.
[[noreturn]] void serve(int tell) {
  std::vector<std::uint8_t> memory(kMemory, 1);
  const int listener = new_socket();
  sockaddr_in own = loopback(0);
  socklen_t octets = sizeof own;
  need(::bind(listener, reinterpret_cast<sockaddr*>(&own), octets) == 0, "bind");
  need(::listen(listener, 1) == 0, "listen");
  need(::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &octets) == 0, "getsockname");
  rdma_cm_id *verbs_listener = nullptr, *id = nullptr;
  sockaddr_in any = loopback(0);
  need(rdma_create_id(nullptr, &verbs_listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  need(rdma_bind_addr(verbs_listener, reinterpret_cast<sockaddr*>(&any)) == 0, "rdma_bind_addr");
  need(rdma_listen(verbs_listener, 1) == 0, "rdma_listen");
  const std::array<int, 2> ports{ntohs(own.sin_port), ntohs(rdma_get_src_port(verbs_listener))};
  need(::write(tell, ports.data(), sizeof ports) == sizeof ports, "write");

  const int fd = ::accept(listener, nullptr, nullptr);
  const int region =
      iwarp_register(fd, memory.data(), memory.size(), IWARP_REMOTE_READ | IWARP_REMOTE_WRITE);
  iwarp_key key;
  need(iwarp_export(fd, region, &key) == 0, "iwarp_export");
  need(::send(fd, &key, sizeof key, 0) == sizeof key, "send");

  need(rdma_get_request(verbs_listener, &id) == 0, "rdma_get_request");
  ibv_qp_init_attr attributes = queue_sizes();
  need(rdma_create_qp(id, nullptr, &attributes) == 0, "rdma_create_qp");
  ibv_mr* mr =
      ibv_reg_mr(id->pd, memory.data(), memory.size(),
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  need(mr != nullptr, "ibv_reg_mr");
  const Told told{reinterpret_cast<std::uintptr_t>(memory.data()), mr->rkey};
  rdma_conn_param param{};
  param.responder_resources = param.initiator_depth = 16;
  param.private_data = &told;
  param.private_data_len = sizeof told;
  need(rdma_accept(id, &param) == 0, "rdma_accept");
  for (;;) ::pause();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  bool quick = false;
  std::size_t rounds = 7;
  for (int i = 1; i < count; ++i) {
    if (std::string_view(words[i]) == "--quick") {
      quick = true;
    } else {
      rounds = std::max(1ul, std::strtoul(words[i], nullptr, 10));
    }
  }
  if (quick) rounds = 1;
  int ends[2];
  need(::pipe(ends) == 0, "pipe");
  const pid_t child = ::fork();
  need(child >= 0, "fork");
  if (child == 0) serve(ends[1]);
  std::array<int, 2> ports{};
  need(::read(ends[0], ports.data(), sizeof ports) == sizeof ports, "the target's ports");
  std::vector<std::uint8_t> memory(kMemory, 2);
  BySockets sockets(ports[0], memory);
  ByVerbs verbs(ports[1], memory);

  constexpr Leg kLegs[] = {
      {"write 8", false, 8, kInFlight, 400'000},
      {"write 4 KiB", false, 4096, kInFlight, 100'000},
      {"write 64 KiB", false, 64 << 10, kInFlight, 12'000},
      {"write 1 MiB", false, 1 << 20, kInFlight, 800},
      {"read 64 KiB", true, 64 << 10, kInFlight, 8'000},
      {"read 8, one at a time", true, 8, 1, 10'000},
  };
  std::printf("%-22s %14s %14s %14s   %-24s %s\n", "", "sockets", "verbs", "1 in 16 told",
              "sockets : verbs", "sockets : 1 in 16 told");
  for (Leg leg : kLegs) {
    if (quick) leg.count = leg.in_flight * 2;
    const auto run_verbs = [&verbs](const Leg& what, std::uint32_t every) {
      verbs.signal_every(every);
      return verbs.run(what);
    };
    std::array<std::vector<double>, 3> times;  // sockets, verbs, verbs that are seldom told
    std::array<std::vector<double>, 2> ratios;
    const Leg warm{leg.name, leg.reads, leg.octets, leg.in_flight, leg.count / 10 + 1};
    sockets.run(warm);
    run_verbs(warm, 1);
    run_verbs(warm, kSeldom);
    for (std::size_t round = 0; round < rounds; ++round) {
      // In turn, and each first as often as the others.
      std::array<double, 3> time{};
      for (std::size_t turn = 0; turn < 3; ++turn) {
        const std::size_t way = (round + turn) % 3;
        time[way] = way == 0 ? sockets.run(leg) : run_verbs(leg, way == 1 ? 1 : kSeldom);
      }
      for (std::size_t way = 0; way < 3; ++way) times[way].push_back(time[way]);
      for (std::size_t other = 0; other < 2; ++other) {
        ratios[other].push_back(leg.in_flight == 1 ? time[0] / time[other + 1]
                                                   : time[other + 1] / time[0]);
      }
    }
    const char* unit = leg.in_flight == 1 ? "us" : leg.octets < 4096 ? "M/s" : "GB/s";
    std::printf("%-22s", leg.name);
    for (const auto& time : times) {
      const double each = median(time) / leg.count;
      const double figure = leg.in_flight == 1  ? each * 1e6
                            : leg.octets < 4096 ? 1e-6 / each
                                                : static_cast<double>(leg.octets) / each / 1e9;
      std::printf(" %9.2f %-4s", figure, unit);
    }
    for (const auto& ratio : ratios) {
      const auto [least, most] = std::minmax_element(ratio.begin(), ratio.end());
      std::printf("   %.3f (%.3f to %.3f)", median(ratio), *least, *most);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return 0;
}
