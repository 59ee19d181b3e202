// A whole QP against a hostile peer and a program that does anything: the input is a script.
//
// Checked at every step: Reads within their limits, nothing placed outside a region that may be
// written, by us or through a window. At the end: each WR completed exactly once, each queue in
// posting order, at most one of all with a status other than success or flushed, and no octet
// outside the regions changed.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/byte_order.h"
#include "core/qp/qp.h"
#include "core/qp/testing/fakes.h"
#include "core/qp/testing/hostile.h"
#include "wire/fpdu.h"

namespace weft::core::testing {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// The script, read octet by octet; zeros after its end.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  std::uint8_t next() {
    if (rest_.empty()) return 0;
    const std::uint8_t octet = rest_.front();
    rest_ = rest_.subspan(1);
    return octet;
  }
  bool flag() { return next() & 1; }
  Bytes take(std::size_t octets) {
    Bytes out(octets);
    for (std::uint8_t& octet : out) octet = next();
    return out;
  }

 private:
  Octets rest_;
};

constexpr std::size_t kArena = 4096;
constexpr std::uint64_t kBase = 0x10000;

/// Placements only where a region that allows them lies: [begin, end) of the arena.
class WatchingMover final : public Mover {
 public:
  explicit WatchingMover(Bytes& arena) : arena_(arena) {}
  std::uint32_t crc_extend(std::uint32_t state, Octets data) override {
    return crc32c_extend_portable(state, data);
  }
  bool crc_registered(std::uint32_t* state, const std::uint8_t* source, std::size_t n) override {
    if (!readable(source, n)) return false;
    *state = crc32c_extend_portable(*state, Octets(source, n));
    return true;
  }
  bool fetch(std::uint8_t* target, const std::uint8_t* source, std::size_t n,
             std::uint32_t* state, ReadBy) override {
    if (!readable(source, n)) return false;
    std::memcpy(target, source, n);
    if (state) *state = crc32c_extend_portable(*state, Octets(target, n));
    return true;
  }
  bool place(std::uint8_t* target, Octets source, std::uint32_t* state) override {
    require(target >= arena_.data() + 1024 && target + source.size() <= arena_.data() + 3072);
    if (unmapped) return false;
    std::memcpy(target, source.data(), source.size());
    if (state) *state = crc32c_extend_portable(*state, source);
    return true;
  }
  bool update(std::uint8_t* target, const AtomicChange& change,
              std::uint64_t* original) override {
    // Only region 0 may be changed so, and what the windows may be bound to.
    require(target >= arena_.data() + 1024 && target + 8 <= arena_.data() + 2560);
    require(reinterpret_cast<std::uintptr_t>(target) % 8 == 0);
    if (unmapped) return false;
    std::memcpy(original, target, sizeof *original);
    const std::uint64_t changed = change.applied_to(*original);
    std::memcpy(target, &changed, sizeof changed);
    return true;
  }
  bool unmapped = false;

 private:
  bool readable(const std::uint8_t* source, std::size_t n) const {
    require(source >= arena_.data() + 1024 && source + n <= arena_.data() + 3584);
    return !unmapped;
  }
  Bytes& arena_;
};

class Run {
 public:
  Run(const std::uint8_t* data, std::size_t size) : script_(data, size) {
    // 1024..2048 everything, 2048..3072 local write only, 3072..3584 remote read only.
    const std::uint8_t kinds = script_.next();
    config_.pd = config_.receive_pd = kPD;
    config_.stream = kStream;
    config_.send_depth = 8;
    config_.ord_max = config_.ird_max = 4;
    config_.gather_octets_min = kinds & 1 ? 64 : 32768;
    config_.strict_receive = kinds & 2;
    config_.complete_placed = kinds & 128;
    queues_.shared = kinds & 4;
    stags_[0] = add(1024, 1024, kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic, kPD);
    stags_[1] = add(2048, 1024, kLocalWrite, kPD);
    stags_[2] = add(3072, 512, kRemoteRead, kPD, kStream);  // the peer may invalidate it
    stags_[3] = add(1024, 1024, kLocalWrite | kRemoteWrite | kRemoteRead, kOtherPD);
    // Two windows, and what they may be bound to: 2048..2560, which no peer reaches otherwise.
    stags_[4] = add(2048, 512, kLocalWrite | kWindowBind, kPD);
    for (const WindowKind kind : {WindowKind::Type1, WindowKind::Type2}) {
      const auto made = table_.allocate_window(kPD, kind, ++random_);
      require(made.ok());
      stags_[5 + static_cast<std::size_t>(kind)] = *made;
    }
    qp_storage_ = std::make_unique<AlignedStorage>(QP::storage_octets(config_));
    qp_ = std::make_unique<QP>(config_, queues_, mover_, table_, qp_storage_->octets());
    stream_.role = kinds & 8 ? Role::Responder : Role::Initiator;
    stream_.ird = stream_.ord = 3;
    stream_.transmit_markers = kinds & 16;
    stream_.rtr = stream_.role == Role::Initiator ? RTR(kinds >> 5 & 3) : RTR::None;
    bind();
  }

  void play() {
    for (int steps = 0; !script_.empty() && steps < 4000; ++steps) {
      step();
      drain();
      require(qp().reads_open() <= config_.ord_max + 1u);
      require(qp().inbound_reads_open() <= stream_.ird);
    }
    finish();
  }

 private:
  QP& qp() { return *qp_; }

  STag add(std::size_t offset, std::size_t octets, std::uint32_t access, PD pd,
           StreamId stream = {}) {
    const auto stag = table_.register_region({.pd = pd, .stream = stream, .access = access,
                                              .base_to = kBase, .address = arena_.data() + offset,
                                              .octets = octets},
                                             ++random_);
    require(stag.ok());
    return *stag;
  }
  void bind() {
    // The same number of octets in a small MSS: messages of several segments are common.
    require(qp().bind_stream(stream_, 200, now_).ok());
    send_msn_ = read_msn_ = atomic_response_msn_ = 1;
    mo_ = 0;
    outstanding_ = 0;
    arrived_.clear();
    reads_.clear();
  }

  STag stag() {
    const std::uint8_t pick = script_.next();
    if (pick < 0xd0) return stags_[pick % 4];
    return pick < 0xf0 ? stags_[pick % 7] : STag{pick * 0x01010101u};
  }
  std::uint64_t to() {
    const std::uint8_t pick = script_.next();
    if (pick < 0xc0) return kBase + pick * 4u;
    if (pick < 0xe0) return kBase + 1024 - (pick - 0xc0);
    return std::uint64_t{0} - (pick - 0xe0);
  }
  std::vector<SGE> sges(std::size_t max) {
    std::vector<SGE> out(script_.next() % (max + 1));
    for (SGE& sge : out) sge = {to(), script_.next() * 2u, stag()};
    return out;
  }

  // The program's side.
  void post_send() {
    FakeQueues::PostedSend posted;
    SendWR& wr = posted.wr;
    const std::uint8_t flags = script_.next();
    wr.id = ++sends_posted_;
    wr.opcode = WorkOpcode(script_.next() % (static_cast<int>(WorkOpcode::Receive) + 1));
    wr.signaled = flags & 1;
    wr.solicited = flags & 2;
    wr.read_fence = flags & 4;
    wr.local_fence = flags & 8;
    wr.remote_stag = stag();
    wr.remote_to = to();
    wr.invalidate_stag = stag();
    if (flags & 16) posted.inline_data = Bytes(script_.next(), 0x11);
    posted.sges = sges(5);
    if (wr.opcode == WorkOpcode::BindWindow && (flags & 32)) {
      posted.sges.clear();
      posted.binding = WindowBinding{stag(), stag(), to(), script_.next() * 4u,
                                     script_.next() & ~std::uint32_t{kWindowBind}};
      STag& window = stags_[5 + (flags >> 6 & 1)];
      if (script_.flag()) posted.binding->stag = window = STag{window.value ^ 1};
      if (script_.flag()) posted.binding->region = stags_[4];
    } else if (wr.opcode >= WorkOpcode::WriteImmediate && (flags & 32)) {
      posted.operands = {script_.next(), script_.next(), script_.next(), script_.next()};
      wr.immediate.value = script_.next();
    }
    queues_.sends.push_back(posted);
  }
  void transmit() {
    Bytes staging(4096);
    std::vector<Piece> pieces(1 + script_.next() % 32);
    TransmitBatch batch(staging, pieces, 1 + script_.next() * 16u);
    qp().poll_transmit(batch, now_);
    outstanding_ += batch.octets();
    if (stream_.transmit_markers) return;
    Bytes sent;
    for (const Piece& piece : batch.pieces()) {
      sent.insert(sent.end(), piece.data, piece.data + piece.octets);
    }
    note_reads(sent);
  }
  // Read Requests that left, for a peer that answers some of them well.
  void note_reads(Octets sent) {
    while (sent.size() >= 2) {
      const std::size_t whole = wire::fpdu_octets(load_be16(sent.data()));
      require(whole <= sent.size());
      if (sent[3] == 0x41) reads_.push_back({wire::ReadRequest::parse(sent.subspan(20)), {}});
      if (sent[3] == 0x4a) reads_.push_back({{}, wire::AtomicRequest::parse(sent.subspan(20))});
      sent = sent.subspan(whole);
    }
  }

  // The peer's side.
  void give(const Bytes& ulpdu) {
    arrive(fpdu(ulpdu));
  }
  void arrive(const Bytes& octets) {
    arrived_.insert(arrived_.end(), octets.begin(), octets.end());
    if (arrived_.size() > 65536) arrived_.clear();  // held back too long: a peer that gives up
    const std::size_t cut = ++arrivals_ % 3 == 1 ? header_octets() : arrived_.size() / 3;
    const Octets head = Octets(arrived_).first(cut), rest = Octets(arrived_).subspan(cut);
    const auto landing = arrivals_ % 3 != 0 ? qp().find_landing(head, 1, now_) : std::nullopt;
    const std::size_t landed = landing ? land(*landing, head, rest) : 0;
    const Octets behind = rest.subspan(landed);
    std::size_t done = 0;
    if (landed > 0) {
      done = qp().finish_landed(head, *landing, behind).consumed;
      if (done > 0) done += head.size() + landed;
    }
    if (done == 0) {
      const Octets parts[] = {head, Octets(landed > 0 ? landing->place : nullptr, landed), behind};
      done = qp().handle_octets({parts}, now_).consumed;
    }
    require(done <= arrived_.size());
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(done));
  }
  /// Of the FPDU at the front.
  std::size_t header_octets() const {
    const bool tagged = arrived_.size() > 2 && (arrived_[2] & wire::kTaggedBit) != 0;
    const std::size_t ddp = tagged ? wire::kTaggedHeaderOctets : wire::kUntaggedHeaderOctets;
    return std::min(arrived_.size(), wire::kUlpduLengthOctets + ddp);
  }
  /// Receives what is here of the payload into its place, as an engine would.
  std::size_t land(const Landing& landing, Octets head, Octets rest) {
    if (landing.octets > rest.size()) return 0;
    if (mover_.unmapped) return qp().handle_landing_fault(head, now_), 0;
    mover_.place(landing.place, rest.first(landing.octets), nullptr);
    const std::size_t first = landing.octets / 2;
    require(qp().handle_landed(head, landing, first));
    const auto again = qp().find_landing(head, 1, now_);
    require(again && again->place == landing.place && again->landed == first);
    require(qp().handle_landed(head, *again, landing.octets - first));
    return landing.octets;
  }
  Bytes ulpdu(const wire::DDPHeader& header, const Bytes& payload) {
    Bytes out(header.octets());
    header.encode(out);
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
  }
  void any_segment() {
    wire::DDPHeader header;
    const std::uint8_t flags = script_.next();
    header.tagged = flags & 1;
    header.last = flags & 2;
    header.version = flags & 0x80 ? flags >> 5 & 3 : 1;
    header.rdmap_control = static_cast<std::uint8_t>(0x40 | (script_.next() & 0x0f));
    header.stag = header.invalidate_stag = stag();
    header.to = to();
    header.qn = flags >> 2 & 3;
    header.msn = {header.qn == 1 ? read_msn_ : header.qn == 2 ? 1 : send_msn_};
    header.mo = flags & 0x10 ? script_.next() : mo_;
    give(ulpdu(header, script_.take(script_.next() % 80)));
  }
  void good_send() {
    wire::DDPHeader header;
    const std::uint8_t flags = script_.next();
    header.last = flags & 1;
    header.rdmap_control =
        wire::rdmap_control(flags & 2 ? wire::Opcode::SendSolicitedInvalidate : wire::Opcode::Send);
    header.invalidate_stag = flags & 2 ? stags_[1] : STag{};
    header.msn = {send_msn_};
    header.mo = mo_;
    const Bytes payload(script_.next(), 0x22);
    give(ulpdu(header, payload));
    mo_ = header.last ? 0 : mo_ + static_cast<std::uint32_t>(payload.size());
    if (header.last) ++send_msn_;
  }
  void good_write() {
    wire::DDPHeader header;
    header.tagged = true;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::Write);
    header.stag = stags_[0];
    header.to = kBase + script_.next();
    give(ulpdu(header, Bytes(script_.next(), 0x33)));
  }
  void read_request() {
    wire::DDPHeader header;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadRequest);
    header.qn = wire::kReadRequestQueue;
    header.msn = {read_msn_++};
    Bytes payload(wire::ReadRequest::kOctets);
    wire::ReadRequest{stag(), to(), script_.next() * 3u, stag(), to()}.encode(payload);
    give(ulpdu(header, payload));
  }
  void read_response() {
    if (reads_.empty()) return;
    if (reads_.front().atomic) return atomic_response();
    const wire::ReadRequest request = reads_.front().read;
    reads_.pop_front();
    const std::uint8_t flags = script_.next();
    const std::uint32_t first = flags & 1 ? request.octets / 2 : 0;
    wire::DDPHeader header;
    header.tagged = true;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::ReadResponse);
    header.stag = request.sink_stag;
    header.to = request.sink_to;
    if (first > 0) {
      header.last = false;
      give(ulpdu(header, Bytes(first, 0x44)));
    }
    header.last = !(flags & 2) || (flags & 0x0c);
    header.to += first;
    give(ulpdu(header, Bytes(request.octets - first, 0x55)));
  }
  Bytes untagged(wire::Opcode opcode, std::uint32_t qn, std::uint32_t msn, const auto& behind) {
    wire::DDPHeader header;
    header.rdmap_control = wire::rdmap_control(opcode);
    header.qn = qn;
    header.msn = {msn};
    Bytes payload(behind.kOctets);
    behind.encode(payload);
    return ulpdu(header, payload);
  }
  void atomic_response() {
    const wire::AtomicResponse response{reads_.front().atomic->id, script_.next()};
    reads_.pop_front();
    give(untagged(wire::Opcode::AtomicResponse, wire::kAtomicResponseQueue,
                  atomic_response_msn_++, response));
  }
  void atomic_request() {
    const std::uint8_t flags = script_.next();
    wire::AtomicRequest request;
    request.opcode = wire::AtomicOpcode(flags & 1 ? 2 : flags >> 5);
    request.stag = stag();
    request.to = flags & 2 ? kBase + 8u * (script_.next() % 130) : to();
    request.operands = {script_.next(), script_.next(), script_.next(), script_.next()};
    give(untagged(wire::Opcode::AtomicRequest, wire::kReadRequestQueue, read_msn_++, request));
  }
  void immediate() {
    const std::uint8_t flags = script_.next();
    wire::Immediate data{script_.next()};
    if (flags & 1) data = data.of_next_send();
    give(untagged(flags & 2 ? wire::Opcode::ImmediateSolicited : wire::Opcode::Immediate,
                  wire::kSendQueue, send_msn_++, data));
  }
  void terminate() {
    wire::DDPHeader header;
    header.rdmap_control = wire::rdmap_control(wire::Opcode::Terminate);
    header.qn = wire::kTerminateQueue;
    give(ulpdu(header, script_.take(script_.next() % 64)));
  }

  void control() {
    switch (script_.next() % 16) {
      case 0: qp().handle_peer_closed(now_); break;
      case 1: qp().handle_llp_lost(now_); break;
      case 2: qp().handle_send_fault(now_); break;
      case 3: qp().handle_local_error(wire::TermError::RDMAPStreamCatastrophic, now_); break;
      case 4: static_cast<void>(qp().close(now_)); break;
      case 5: static_cast<void>(qp().terminate(now_)); break;
      case 6: static_cast<void>(qp().fail(now_)); break;
      case 7: qp().flush(now_); break;
      case 8: now_ = now_ + std::chrono::seconds(3), qp().handle_timeout(now_); break;
      case 9: static_cast<void>(table_.deregister(stags_[script_.next() % 5])); break;
      case 10: mover_.unmapped = script_.flag(); break;
      case 11: qp().handle_emss(script_.next() * 8u); break;
      case 12: arrive(script_.take(script_.next() % 64)); break;
      case 13: give(script_.take(script_.next() % 96)); break;
      case 14: require(qp().wants_transmit() || !qp().wants_transmit()); break;
      default:
        if (qp().reset(now_).ok()) {
          completed_guilty_ = 0;
          bind();
        }
    }
  }

  void step() {
    const std::uint8_t kind = script_.next();
    if (kind >= 252) return kind % 2 ? atomic_request() : immediate();
    switch (kind % 14) {
      case 0: case 1: post_send(); break;
      case 2: case 3: queues_.receives.push_back({++receives_posted_, sges(5)}); break;
      case 4: case 5: transmit(); break;
      case 6: {
        const std::size_t taken = std::min<std::size_t>(outstanding_, script_.next() * 4u);
        outstanding_ -= taken;
        qp().handle_sent(taken, now_);
        break;
      }
      case 7: any_segment(); break;
      case 8: good_send(); break;
      case 9: good_write(); break;
      case 10: read_request(); break;
      case 11: read_response(); break;
      case 12: script_.next() < 32 ? terminate() : arrive({}); break;
      default: control();
    }
  }

  void drain() {
    static_cast<void>(qp().poll_llp_action());
    while (qp().poll_notice()) {
    }
    check(queues_.sent, sends_completed_);
    check(queues_.received, receives_completed_);
    require(completed_guilty_ <= 1);
  }
  void check(std::deque<Completion>& completions, std::uint64_t& count) {
    for (const Completion& completion : completions) {
      require(completion.id == ++count);
      if (completion.status == WorkStatus::Success || completion.status == WorkStatus::Flushed) {
        continue;
      }
      require(completion.signaled);
      ++completed_guilty_;
    }
    completions.clear();
  }

  void finish() {
    static_cast<void>(qp().fail(now_));
    queues_.shared = false;
    qp().flush(now_);
    drain();
    require(qp().state() == QPState::Error);
    require(sends_completed_ == sends_posted_ && receives_completed_ == receives_posted_);
    require(!qp().wants_transmit() && !qp().poll_timeout());
    for (std::size_t i = 0; i < 1024; ++i) require(arena_[i] == 0);
    for (std::size_t i = 3072; i < kArena; ++i) require(arena_[i] == 0);
  }

  Script script_;
  Bytes arena_ = Bytes(kArena);
  WatchingMover mover_{arena_};
  AlignedStorage table_storage_{MemoryTable::storage_octets(8)};
  MemoryTable table_{table_storage_.octets(), 8};
  FakeQueues queues_;
  QPConfig config_;
  std::unique_ptr<AlignedStorage> qp_storage_;
  std::unique_ptr<QP> qp_;
  StreamParameters stream_;
  Instant now_{1};
  std::uint64_t random_ = 0;
  STag stags_[7];
  Bytes arrived_;
  unsigned arrivals_ = 0;
  struct OpenRequest {
    wire::ReadRequest read;
    std::optional<wire::AtomicRequest> atomic;  ///< instead
  };
  std::deque<OpenRequest> reads_;
  std::uint32_t send_msn_ = 1, read_msn_ = 1, atomic_response_msn_ = 1, mo_ = 0;
  std::size_t outstanding_ = 0;
  std::uint64_t sends_posted_ = 0, sends_completed_ = 0;
  std::uint64_t receives_posted_ = 0, receives_completed_ = 0;
  int completed_guilty_ = 0;
};

}  // namespace
}  // namespace weft::core::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::core::testing::Run(data, size).play();
  return 0;
}
