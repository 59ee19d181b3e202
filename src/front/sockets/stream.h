// The stream: the rsockets protocol between a program's octets and a QP, without any waiting.
//
// A state machine. Its inputs are messages of the peer, completions and the program's reads and
// writes; what it wants done, it asks of a Lane, at once. It knows no verbs, no threads, no time.
//
//     Open --shutdown_write--> ReadOnly --peer's Shutdown or Disconnect--> Over
//      |                          \------disconnect----> Leaving --done--> Over
//      |--peer's Shutdown--> WriteOnly --shutdown_write, disconnect--> Leaving
//      |--peer's Disconnect--> Over
//      \--a failure, anywhere before Over--> Failed
//
// Hostile peers. Everything of the peer's is judged against what it was granted: messages against
// its credits, octets against the buffers it was given. What it writes into the target SGL is
// copied once, and serves only to address its own memory. A violation ends the stream with
// ECONNRESET, as a TCP that breaks its rules would.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/octets.h"
#include "front/sockets/cursor.h"
#include "front/sockets/protocol.h"

namespace weft::sockets {

/// What a request was, handed back when it is done.
struct Tag {
  enum class Work : std::uint8_t { Data, Iomap, Direct, Credits, Shutdown, Leave, Borrowed };
  Work work = Work::Data;
  /// It stands for so many of Data, the last of which it was. 0: a later one stands for it, and its
  /// own end is not to be told.
  std::uint16_t requests = 1;
  std::uint32_t amount = 0;  ///< octets; of Credits, Shutdown and Leave, SQ entries
};

/// What a stream asks of its QP. Requests complete in the order in which they were made, each that
/// is to be told with handle_done; false from any: the QP is broken, and the stream fails. No call
/// comes back into the stream.
class Lane {
 public:
  /// Writes `octets` (which live until the request is done) to the peer, then tells `message`.
  virtual bool write(Octets octets, const Sge& target, std::uint32_t message, Tag tag) = 0;
  /// The same for at most 24 octets, which are copied.
  virtual bool write_entry(Octets entry, const Sge& target, std::uint32_t message, Tag tag) = 0;
  /// The same for octets of the program's, which lie in registered memory.
  virtual bool write_borrowed(Octets octets, std::uint32_t key, const Sge& target,
                              std::uint32_t message, Tag tag) = 0;
  /// Only tells.
  virtual bool tell(std::uint32_t message, Tag tag) = 0;
  /// Only writes.
  virtual bool write_silently(Octets octets, const Sge& target, Tag tag) = 0;
  /// Copies the octets that the next write() will write to their place in the send ring.
  virtual void fill(MutableOctets room, Cursor& from) { from.copy_to(room.data(), room.size()); }
  /// Copies what the peer wrote and told of out of the receive ring; without `peek`, for the last
  /// time.
  virtual void read(Cursor& to, Octets from, bool /*peek*/) {
    to.copy_from(from.data(), from.size());
  }

 protected:
  ~Lane() = default;
};

/// The memory and the limits a stream is made with.
struct StreamShape {
  MutableOctets send_ring;
  /// The peer writes here, at any time after it was granted.
  MutableOctets receive_ring;
  std::uint32_t receive_key = 0;
  /// kTargetEntries entries, which the peer writes.
  std::span<Sge> target_sgl;
  std::uint32_t target_key = 0;
  std::span<IomapEntry> iomap;        ///< behind target_sgl; the peer writes it
  std::uint16_t send_entries = 0;     ///< data and iomap requests open at once, see slots_each
  std::uint16_t receive_entries = 0;  ///< receives posted
  std::uint8_t slots_each = 2;        ///< SQ entries of a write with its message
};

class Stream {
 public:
  /// SQ entries that control messages take beyond StreamShape::send_entries.
  static constexpr std::uint16_t kControlSlots = 4;
  /// Less room than this in the send ring counts as none, so that writers wait for a piece that is
  /// worth a message.
  static constexpr std::uint32_t kSendRoomMin = 2048;
  static constexpr std::uint32_t kChunkMax = 64 * 1024;

  Stream(const StreamShape& shape, Lane& lane);

  /// What to tell the peer at connecting. The receives must be posted before it knows.
  ConnectData offer() const;
  /// The peer's offer: octets may flow. `hears_first`: nothing is granted beyond the offer before a
  /// message came, for a device that answers and must not speak before it was spoken to
  /// (RFC 5044 7.1.3), but leaves that to its user.
  void start(const ConnectData& peer, bool hears_first = false);

  // Inputs.
  void handle_message(std::uint32_t message);
  void handle_done(Tag tag);
  /// The QP or the connection failed. Nothing happens when the stream is over.
  void handle_failure(int error);
  /// The connection ended without a Disconnect: the peer is gone, which reads as its end.
  void handle_closed();
  /// Sends what became due: credits, the end. Call after a batch of inputs.
  void advance();

  // The program's calls.
  /// Takes as many octets as may leave now. Behind as many messages as the peer has receives, and
  /// did not read, as many as there is room for: those leave together, by advance(), when it has.
  /// 0: none.
  std::size_t write(Cursor& from);
  /// The same without copying them: they are in use until borrowed_done() has counted them.
  std::size_t write_borrowed(Octets from, std::uint32_t key);
  /// Moves up to to.left() octets. `peek`: they stay. 0: there are none.
  std::size_t read(Cursor& to, bool peek);
  /// The octets that will be written end here.
  void shutdown_write();
  void shutdown_read();
  /// Both, and the peer is told that we leave.
  void disconnect();
  /// Tells the peer of an entry of its iomap, before any octets written later. False: not now.
  bool publish(std::uint32_t index, const IomapEntry& entry);
  /// Writes to what the peer mapped at `offset`: how many octets were taken (0: not now), or
  /// nothing when the peer has mapped nothing there.
  std::optional<std::size_t> write_at(std::uint64_t offset, Cursor& from);

  // What is so.
  bool started() const { return started_; }
  std::uint64_t readable_octets() const { return unread_octets_; }
  /// Octets that the send ring can take now.
  std::size_t send_room() const { return shape_.send_ring.size() - send_used_; }
  /// A read gives octets or the end at once.
  bool can_read() const { return unread_octets_ != 0 || !receiving() || read_closed_; }
  /// A write takes octets, or fails, at once.
  bool can_write() const { return !sending() || (held_ == 0 && may_send()) || may_hold(); }
  /// The program may still write.
  bool sending() const { return !wants_shutdown_ && !wants_leave_ && !ended(); }
  /// The program has ended its direction itself.
  bool write_closed() const { return wants_shutdown_ || wants_leave_; }
  /// The peer may still write.
  bool receiving() const { return receiving_ && !ended(); }
  bool read_closed() const { return read_closed_; }
  /// Octets that were taken and have not left.
  std::uint32_t held_octets() const { return held_; }
  /// Nothing will be sent or received any more.
  bool ended() const { return over_ || error_ != 0; }
  /// It ended by our word, and the peer may not have taken all before it yet. A connection that is
  /// closed now is reset by what the peer still sends (credits), and with it goes what lies in TCP.
  bool peer_is_behind() const { return over_ && leave_told_ && !peer_left_ && error_ == 0; }
  /// Why it failed; 0: it did not.
  int error() const { return error_; }
  /// write_at() can take octets.
  bool direct_room() const {
    return sends_open_ < shape_.send_entries && send_room() >= kSendRoomMin;
  }
  /// Where the peer reads what we grant: memory that it keeps for us as long as there is a stream.
  const Sge& peer_sgl() const { return peer_sgl_; }
  std::uint32_t peer_iomap_entries() const { return peer_iomap_entries_; }
  /// Octets of write_borrowed() that are the program's again, and those that are not.
  std::uint64_t borrowed_done() const { return borrowed_done_; }
  std::uint64_t borrowed_open() const { return borrowed_sent_ - borrowed_done_; }

 private:
  bool may_send() const;
  bool may_hold() const;
  bool credits_due() const;
  bool control_free(unsigned slots) const { return control_open_ + slots <= kControlSlots; }
  void take_targets();
  void handle_data(std::uint32_t octets);
  void handle_control(std::uint32_t control);
  void give_credits();
  void send_end();
  Sge take_target(std::uint32_t octets);
  std::size_t room_at_head(std::size_t octets_max) const;
  MutableOctets take_room(std::size_t octets);
  Octets copy_to_room(Cursor& from, std::size_t octets_max);
  void send_data(Octets chunk);
  void send_held();
  void sent(bool accepted, Tag tag);
  Tag data_tag(std::uint32_t octets);

  StreamShape shape_;
  Lane& lane_;
  bool started_ = false;
  bool receiving_ = true, read_closed_ = false;
  bool wants_shutdown_ = false, shutdown_told_ = false;
  bool wants_leave_ = false, leave_told_ = false;
  bool over_ = false;
  bool peer_left_ = false;  ///< it said so
  bool awaits_word_ = false;  ///< hears_first, and none came yet
  int error_ = 0;

  // Sending.
  bool swaps_ = false;               ///< the peer has the other byte order
  Sge peer_sgl_;                     ///< where the peer reads what we grant
  std::uint32_t peer_sgl_next_ = 1;  ///< connecting filled entry 0
  std::uint32_t peer_iomap_entries_ = 0;
  std::array<Sge, kTargetEntries> targets_;  ///< granted to us; the first is in use
  std::uint32_t targets_count_ = 0;
  std::uint32_t targets_told_ = 0;  ///< messages whose entries were not looked at yet
  std::uint32_t target_next_ = 1;   ///< the entry of target_sgl that the peer writes next
  std::uint16_t sent_ = 0, send_limit_ = 0;
  std::uint32_t send_head_ = 0;  ///< next free octet of the ring
  std::uint32_t send_used_ = 0;
  std::uint32_t held_ = 0;  ///< the last of these, not sent yet
  std::uint32_t sends_open_ = 0;  ///< data, iomap and direct requests not done
  Tag untold_{Tag::Work::Data, 0, 0};  ///< of these, what the next told one stands for
  std::uint64_t borrowed_sent_ = 0, borrowed_done_ = 0;
  std::uint32_t control_open_ = 0;  ///< SQ entries of control requests not done

  // Receiving.
  std::vector<std::uint32_t> unread_;  ///< a ring: what is unread of each message
  std::uint32_t unread_first_ = 0, unread_count_ = 0;
  std::uint64_t unread_octets_ = 0;
  std::uint32_t read_at_ = 0;       ///< next unread octet of the ring
  std::uint32_t ungranted_ = 0;     ///< octets of the ring that the peer may not write
  std::uint64_t granted_left_ = 0;  ///< octets that it still may
  std::uint32_t grant_at_ = 0;
  std::uint32_t consumed_ = 0;       ///< messages that the program has read
  std::uint32_t consumed_told_ = 0;  ///< when the limit was last told
  std::uint32_t limit_told_ = 0;     ///< messages the peer may have sent in all
  std::uint32_t arrived_ = 0;        ///< messages that count against it
};

}  // namespace weft::sockets
