// QP, memory and completions of one connection.
#include "front/sockets/verbs_lane.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "front/sockets/kernel.h"
#include "front/sockets/no_sigpipe.h"
#include "front/sockets/our_verbs.h"

namespace weft::sockets {
namespace {

constexpr std::uint32_t kInlineOctets = 64;
/// Linux siw sends within the call that posts, in the name of the program, which gets SIGPIPE if
/// the peer has gone.
constexpr std::uint32_t kSiwVendor = 0x626d74;
/// Completions taken at once, and receives posted again at once.
constexpr int kBatch = 32;
constexpr std::size_t kPage = 4096;
/// Where the device keeps long Writes until they are read, they do not touch the ring, and more of
/// it costs nothing. Elsewhere it is pinned.
constexpr std::uint32_t kBulkOctets = 1024 * 1024, kKeptBulkOctets = 2 * kBulkOctets;

/// The wr_id of a receive, and of a transfer (memory_lane.cc); others hold a Tag.
constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;

std::uint64_t id_of(Tag tag) {
  return std::uint64_t{tag.requests} << 40 |
         std::uint64_t{static_cast<std::uint8_t>(tag.work)} << 32 | tag.amount;
}
Tag tag_of(std::uint64_t id) {
  return {static_cast<Tag::Work>(id >> 32 & 0xff), static_cast<std::uint16_t>(id >> 40),
          static_cast<std::uint32_t>(id)};
}
unsigned told_of(Tag tag) {
  return tag.requests != 0 ? IBV_SEND_SIGNALED : 0;
}

// A stream's rings, as front/libibverbs/stream_rings.h says.
const auto weft_sum_sends = of_our_verbs<bool (*)(ibv_qp*)>("weft_sum_sends");
const auto weft_copy_summed =
    of_our_verbs<void (*)(ibv_qp*, void*, const void*, std::size_t)>("weft_copy_summed");
const auto weft_keep_writes =
    of_our_verbs<bool (*)(ibv_qp*, ibv_mr*, std::atomic<std::uint32_t>*)>("weft_keep_writes");
const auto weft_read_written =
    of_our_verbs<bool (*)(ibv_qp*, void*, const void*, std::size_t, bool)>("weft_read_written");
const auto weft_hand_events =
    of_our_verbs<bool (*)(ibv_comp_channel*, bool (*)(void*), void*)>("weft_hand_events");

std::size_t whole_pages(std::size_t octets) {
  return (octets + kPage - 1) / kPage * kPage;
}

Error world(const char* text) {
  return {errno != 0 ? errno : ENOMEM, text};
}

}  // namespace

Result<std::unique_ptr<VerbsLane>> VerbsLane::create(rdma_cm_id& id, const LaneSize& size) {
  std::unique_ptr<VerbsLane> lane(new (std::nothrow) VerbsLane(id));
  if (lane == nullptr) return Error{ENOMEM, "no memory for a connection"};
  if (auto made = lane->make_queues(size); !made) return made.error();
  if (auto made = lane->make_memory(size); !made) return made.error();
  std::vector<std::uint32_t> slots(size.receive_entries);
  for (std::uint32_t i = 0; i < slots.size(); ++i) slots[i] = i;
  if (!lane->post_receives(slots.data(), slots.size())) return world("no receive could be posted");
  return lane;
}

Result<void> VerbsLane::make_queues(const LaneSize& size) {
  sends_messages_ = id_.verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  ibv_device_attr device{};
  sends_in_posts_ = ibv_query_device(id_.verbs, &device) == 0 && device.vendor_id == kSiwVendor;
  // Not the id's, which all connections of the device share: a key is good for one peer.
  pd_ = ibv_alloc_pd(id_.verbs);
  if (pd_ == nullptr) return world("no protection domain");
  make_thread_domain();
  channel_ = ibv_create_comp_channel(id_.verbs);
  if (channel_ == nullptr) return world("no completion channel");
  kernel::fcntl(channel_->fd, F_SETFL, kernel::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  kernel::fcntl(channel_->fd, F_SETFD, FD_CLOEXEC);

  const std::uint32_t slots = size.send_entries * (sends_messages_ ? 2u : 1u);
  ibv_qp_init_attr attributes{};
  attributes.cap.max_send_wr =
      slots + Stream::kControlSlots + Operations::entries_for(size.operations);
  attributes.cap.max_recv_wr = size.receive_entries;
  attributes.cap.max_send_sge = kGather;
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = kInlineOctets;
  cq_ = ibv_create_cq(id_.verbs,
                      static_cast<int>(attributes.cap.max_send_wr + attributes.cap.max_recv_wr),
                      nullptr, channel_, 0);
  if (cq_ == nullptr) return world("no completion queue");
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  ibv_pd* pd = posts_pd_ != nullptr ? posts_pd_ : pd_;
  if (rdma_create_qp(&id_, pd, &attributes) != 0) return world("no queue pair");
  if (attributes.cap.max_inline_data < sizeof(IomapEntry)) {
    return Error{ENOTSUP, "the device cannot send inline"};
  }
  return {};
}

/// Who posts has the socket's mutex. A library that is told so needs no lock of its own, which is a
/// good part of what posting costs. Not all know of this.
void VerbsLane::make_thread_domain() {
  ibv_td_init_attr threads{};
  threads_ = ibv_alloc_td(id_.verbs, &threads);
  if (threads_ == nullptr) return;
  ibv_parent_domain_init_attr both{};
  both.pd = pd_;
  both.td = threads_;
  posts_pd_ = ibv_alloc_parent_domain(id_.verbs, &both);
}

Result<void> VerbsLane::make_memory(const LaneSize& size) {
  sums_ = weft_sum_sends != nullptr && weft_sum_sends(id_.qp);
  const std::uint32_t receive_octets = size.receive_octets != 0 ? size.receive_octets
                                       : sums_                  ? kKeptBulkOctets
                                                                : kBulkOctets;
  const std::size_t targets =
      kTargetEntries * sizeof(Sge) + size.iomap_entries * sizeof(IomapEntry);
  const std::size_t messages = size.receive_entries * sizeof(std::uint32_t);
  memory_octets_ = whole_pages(size.send_octets) + whole_pages(receive_octets) +
                   whole_pages(messages) + whole_pages(targets);
  memory_ =
      ::mmap(nullptr, memory_octets_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    return world("no memory for the rings");
  }
  auto* at = static_cast<std::uint8_t*>(memory_);
  const auto take = [&at](std::size_t octets) {
    std::uint8_t* part = at;
    at += whole_pages(octets);
    return part;
  };
  std::uint8_t* send = take(size.send_octets);
  std::uint8_t* receive = take(receive_octets);
  messages_ = reinterpret_cast<std::uint32_t*>(take(messages));
  std::uint8_t* target = take(targets);
  constexpr int kPeerWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  send_region_ = ibv_reg_mr(pd_, send, size.send_octets, 0);
  receive_region_ = ibv_reg_mr(pd_, receive, receive_octets, kPeerWrites);
  message_region_ = ibv_reg_mr(pd_, messages_, messages, IBV_ACCESS_LOCAL_WRITE);
  target_region_ = ibv_reg_mr(pd_, target, targets, kPeerWrites);
  if (send_region_ == nullptr || receive_region_ == nullptr || message_region_ == nullptr ||
      target_region_ == nullptr) {
    return world("the rings could not be registered");
  }
  if (sums_) weft_keep_writes(id_.qp, receive_region_, &kept_);
  receive_entries_ = size.receive_entries;
  taken_.reserve(kBatch);

  StreamShape shape;
  shape.send_ring = {send, size.send_octets};
  shape.receive_ring = {receive, receive_octets};
  shape.receive_key = receive_region_->rkey;
  shape.target_sgl = {reinterpret_cast<Sge*>(target), kTargetEntries};
  shape.target_key = target_region_->rkey;
  shape.iomap = {reinterpret_cast<IomapEntry*>(target + kTargetEntries * sizeof(Sge)),
                 size.iomap_entries};
  shape.send_entries = size.send_entries;
  shape.receive_entries = size.receive_entries;
  shape.slots_each = sends_messages_ ? 2 : 1;
  stream_.reset(new (std::nothrow) Stream(shape, *this));
  if (stream_ == nullptr) return Error{ENOMEM, "no memory for a stream"};
  return {};
}

VerbsLane::~VerbsLane() {
  // The QP first: nothing may place octets in memory that is about to go.
  if (id_.qp != nullptr) rdma_destroy_qp(&id_);
  for (ibv_mr* region : {send_region_, receive_region_, message_region_, target_region_}) {
    if (region != nullptr) ibv_dereg_mr(region);
  }
  if (memory_ != nullptr) ::munmap(memory_, memory_octets_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (posts_pd_ != nullptr) ibv_dealloc_pd(posts_pd_);
  if (threads_ != nullptr) ibv_dealloc_td(threads_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
}

bool VerbsLane::post_receives(const std::uint32_t* slots, std::size_t count) {
  std::array<ibv_recv_wr, kBatch> requests{};
  std::array<ibv_sge, kBatch> places{};
  while (count != 0) {
    const std::size_t part = std::min<std::size_t>(count, kBatch);
    for (std::size_t i = 0; i < part; ++i) {
      places[i] = {reinterpret_cast<std::uintptr_t>(&messages_[slots[i]]), sizeof(std::uint32_t),
                   message_region_->lkey};
      requests[i] = {};
      requests[i].wr_id = kReceive | slots[i];
      requests[i].sg_list = sends_messages_ ? &places[i] : nullptr;
      requests[i].num_sge = sends_messages_ ? 1 : 0;
      requests[i].next = i + 1 < part ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int code = ibv_post_recv(id_.qp, requests.data(), &bad); code != 0) {
      errno = code;
      return false;
    }
    slots += part;
    count -= part;
  }
  return true;
}

int VerbsLane::post_guarded(ibv_send_wr& first, ibv_send_wr*& bad) {
  const NoSigpipe guard(true);
  return ibv_post_send(id_.qp, &first, &bad);
}

bool VerbsLane::post(ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  return post(first, bad) == 0;
}

bool VerbsLane::post_write(const ibv_sge& local, unsigned flags, const Sge& target,
                           std::uint32_t message, Tag tag) {
  ibv_sge place = local;
  ibv_send_wr write{};
  write.sg_list = &place;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = target.address;
  write.wr.rdma.rkey = target.key;
  if (!sends_messages_) {
    write.wr_id = id_of(tag);
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.send_flags = flags | told_of(tag);
    write.imm_data = htonl(message);
    return post(write);
  }
  ibv_sge word = {reinterpret_cast<std::uintptr_t>(&message), sizeof message, 0};
  ibv_send_wr send{};
  send.wr_id = id_of(tag);
  send.opcode = IBV_WR_SEND;
  send.send_flags = told_of(tag) | IBV_SEND_INLINE;
  send.sg_list = &word;
  send.num_sge = 1;
  // The Send is done after the Write, so its completion stands for both.
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = flags;
  write.wr_id = id_of(tag);
  write.next = &send;
  return post(write);
}

bool VerbsLane::write(Octets octets, const Sge& target, std::uint32_t message, Tag tag) {
  posted_octets_ += octets.size();
  return post_write({reinterpret_cast<std::uintptr_t>(octets.data()),
                     static_cast<std::uint32_t>(octets.size()), send_region_->lkey},
                    0, target, message, tag);
}

bool VerbsLane::write_borrowed(Octets octets, std::uint32_t key, const Sge& target,
                               std::uint32_t message, Tag tag) {
  return post_write({reinterpret_cast<std::uintptr_t>(octets.data()),
                     static_cast<std::uint32_t>(octets.size()), key},
                    0, target, message, tag);
}

bool VerbsLane::write_entry(Octets entry, const Sge& target, std::uint32_t message, Tag tag) {
  return post_write(
      {reinterpret_cast<std::uintptr_t>(entry.data()), static_cast<std::uint32_t>(entry.size()), 0},
      IBV_SEND_INLINE, target, message, tag);
}

bool VerbsLane::tell(std::uint32_t message, Tag tag) {
  ibv_sge word = {reinterpret_cast<std::uintptr_t>(&message), sizeof message, 0};
  ibv_send_wr request{};
  request.wr_id = id_of(tag);
  if (sends_messages_) {
    request.opcode = IBV_WR_SEND;
    request.sg_list = &word;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  } else {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.imm_data = htonl(message);
  }
  return post(request);
}

bool VerbsLane::write_silently(Octets octets, const Sge& target, Tag tag) {
  ibv_sge place = {reinterpret_cast<std::uintptr_t>(octets.data()),
                   static_cast<std::uint32_t>(octets.size()), send_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = id_of(tag);
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &place;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = target.address;
  request.wr.rdma.rkey = target.key;
  return post(request);
}

void VerbsLane::fill(MutableOctets room, Cursor& from) {
  std::uint8_t* to = room.data();
  bool whole = sums_;
  from.visit(room.size(), [&](const std::uint8_t* part, std::size_t octets) {
    whole = whole && octets == room.size();
    if (whole) {
      weft_copy_summed(id_.qp, to, part, octets);
    } else {
      std::memcpy(to, part, octets);
    }
    to += octets;
  });
}

namespace {
/// Whatever it takes to get memory that will be written to, it happens here.
void touch(std::uint8_t* memory, std::size_t octets) {
  const auto touch_one = [](std::uint8_t& one) {
    const std::atomic_ref octet(one);
    octet.store(octet.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  for (std::size_t at = 0; at < octets; at += kPage) touch_one(memory[at]);
  touch_one(memory[octets - 1]);
}
}  // namespace

void VerbsLane::read(Cursor& to, Octets from, bool peek) {
  to.visit(from.size(), [&](std::uint8_t* part, std::size_t octets) {
    const bool kept = kept_.load(std::memory_order_acquire) != 0;
    // The device does nothing else while it copies: nobody that needs it is to bring a page then.
    if (kept) touch(part, octets);
    if (!kept || !weft_read_written(id_.qp, part, from.data(), octets, peek)) {
      std::memcpy(part, from.data(), octets);
    }
    from = from.subspan(octets);
  });
}

void VerbsLane::handle(const ibv_wc& completion, std::vector<std::uint32_t>& taken) {
  const bool good = completion.status == IBV_WC_SUCCESS;
  flushed_ = flushed_ || completion.status == IBV_WC_WR_FLUSH_ERR;
  if ((completion.wr_id & (kReceive | kTransfer)) == kTransfer) {
    handle_transfer(completion);
    if (good) return;
  }
  if ((completion.wr_id & kReceive) == 0) {
    if (good) return stream_->handle_done(tag_of(completion.wr_id));
  }
  if (!good) {
    // Flushed: the connection ended, and how, its event or another completion tells.
    if (completion.status != IBV_WC_WR_FLUSH_ERR) stream_->handle_failure(ECONNRESET);
    return;
  }
  const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kReceive);
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
    stream_->handle_message(ntohl(completion.imm_data));
  } else if (sends_messages_ && completion.byte_len == sizeof(std::uint32_t)) {
    stream_->handle_message(messages_[slot]);
  } else {
    stream_->handle_failure(ECONNRESET);  // no message of this protocol
  }
  taken.push_back(slot);
}

bool VerbsLane::drive(int most) {
  std::array<ibv_wc, kBatch> completions;
  bool any = false;
  posted_octets_ = 0;
  while (most > 0) {
    const int wanted = std::min(most, kBatch);
    most -= wanted;
    const int count = ibv_poll_cq(cq_, wanted, completions.data());
    if (count < 0) stream_->handle_failure(EIO);
    if (count <= 0) break;
    any = true;
    for (int i = 0; i < count; ++i) handle(completions[static_cast<unsigned>(i)], taken_);
    if (!taken_.empty() && !stream_->ended() && !post_receives(taken_.data(), taken_.size())) {
      stream_->handle_failure(EIO);
    }
    taken_.clear();
    if (count < wanted) break;
  }
  if (any) stream_->advance();
  if (any && armed_) take_event();
  return any;
}

void VerbsLane::arm() {
  if (armed_) return;
  armed_ = ibv_req_notify_cq(cq_, 0) == 0;
}

void VerbsLane::hand_events(bool (*taker)(void*), void* cookie) {
  if (weft_hand_events != nullptr) weft_hand_events(channel_, taker, cookie);
}

void VerbsLane::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  // One arming, one event.
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return;
  armed_ = false;
  ibv_ack_cq_events(cq_, 1);
}

}  // namespace weft::sockets
