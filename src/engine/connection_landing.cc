// Payload that is received straight into its place, several FPDUs at a time where it is known what
// follows (docs/adr/0010-large-payload-is-received-in-place.md).
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/connection.h"
#include "engine/ticks.h"

namespace weft::engine {

using transport::IOResult;

namespace {
constexpr std::size_t kFollowersMost = 16;
/// More than the trailer of one FPDU and the header of the next.
constexpr std::size_t kBetweenOctets = 32;
/// Of a short FPDU that ends a message: of 64 KiB it has what the longest FPDU does not hold.
constexpr std::size_t kEndOctetsMax = 1024;
}  // namespace

/// What one call receives: payload into its place, and what lies between, in turns.
struct Connection::Train {
  std::size_t between = 0;  ///< octets
  std::size_t followers = 0;
  std::array<std::array<std::uint8_t, kBetweenOctets>, kFollowersMost> betweens;

  std::size_t octets(const core::Landing& landing) const {
    return followers * (landing.payload + between);
  }
  /// So many octets of it came: could it be that a place was the reason?
  bool ends_at_a_place(const core::Landing& landing, std::size_t came) const {
    return came < octets(landing) && came % (landing.payload + between) < landing.payload;
  }
};

/// Straight into its place, or by staging, whichever is less work.
Connection::Got Connection::receive_large(const core::Landing& landing) {
  const bool lands = landing_head_ != 0 || !landing_habit_.takes_other();
  if (!lands) header_expected_ = 0;
  const std::size_t before = turn_octets_;
  const bool tries = landing_habit_.tries();
  const std::uint64_t began = tries ? ticks() : 0;
  const Got got = lands ? receive_landing(landing) : receive_staged();
  const Duration took(tries ? static_cast<Duration::rep>(ticks() - began) : 0);
  landing_habit_.note(turn_octets_ - before, lands, [this] { return landing_work_; });
  landing_work_ = landing_work_ + took;
  return got;
}

/// The rest of the payload goes into its place. Behind it, into staging, what ends this FPDU and
/// the header of the next, so that the payload of that one can go straight into its place too; and
/// where that is known, it does at once. Where a short FPDU came behind the last one of this
/// length, another one is received with it.
Connection::Got Connection::receive_landing(const core::Landing& landing) {
  ReceiveBuffer& buffer = *received_;
  if (landing_head_ == 0) landing_head_ = buffer.end - buffer.begin;
  header_expected_ = landing.header;
  staged_in_a_row_ = 0;
  const std::size_t missing = landing.octets - landing.landed;
  const std::size_t behind = buffer.end - buffer.begin - landing_head_;
  const std::size_t room = landing.trailer + landing.header - behind + end_behind(landing);
  Train train;
  train.between = landing.trailer + landing.header;
  train.followers = followers_to_receive(landing, missing + room);
  std::array<iovec, 2 + 2 * kFollowersMost> vectors;
  std::size_t count = 0;
  if (missing != 0) vectors[count++] = {landing.place + landing.landed, missing};
  vectors[count++] = {buffer.octets.data() + buffer.end, room};
  for (std::size_t i = 0; i < train.followers; ++i) {
    vectors[count++] = {landing.place + landing.octets + i * landing.payload, landing.payload};
    vectors[count++] = {train.betweens[i].data(), train.between};
  }
  const std::size_t asked = missing + room + train.octets(landing);
  const IOResult r = stream_->receive(std::span(vectors).first(count));
  if (r.kind == IOResult::Kind::BadMemory) return lose_landing();
  if (r.kind != IOResult::Kind::Moved) return handle_no_octets(r);
  note_received(r.octets, asked);
  const std::size_t landed = std::min(r.octets, missing);
  const std::size_t staged = std::min(r.octets - landed, room);
  const std::size_t more = r.octets - landed - staged;
  // The kernel also stops where the program has unmapped a place, and says so only the next time.
  if (r.octets < missing || (staged == room && train.ends_at_a_place(landing, more))) {
    drained_ = false;
  }
  buffer.end += staged;
  if (!qp_->core().handle_landed(front(), landing, landed)) return lose_landing();
  if (landed == missing) offer_landed(landing);
  if (more != 0 && !take_followers(landing, train, more)) return lose_landing();
  return state_ == ConnectionState::Streaming && !held_back_ && r.octets == asked ? Got::More
                                                                                  : Got::Some;
}

/// The FPDU behind this one is of wanted_ octets.
void Connection::note_behind(const core::Landing& landing) {
  end_ = {};
  if (wanted_ > kEndOctetsMax) return;
  end_ = {static_cast<std::uint32_t>(landing.payload), static_cast<std::uint32_t>(wanted_)};
}

/// Octets of the whole FPDU, if such a one is expected. Where it is another one, they are staged.
std::size_t Connection::end_behind(const core::Landing& landing) const {
  const bool expected = landing.followers == 0 && landing.payload == end_.payload &&
                        !owner_.turn_is_short(*this) &&
                        received_->octets.size() - received_->end >= 2 * kEndOctetsMax;
  return expected ? end_.octets : 0;
}

/// So many that what turns out to be something else has room in staging.
std::size_t Connection::followers_to_receive(const core::Landing& landing,
                                             std::size_t octets) const {
  const std::size_t between = landing.trailer + landing.header;
  if (landing.followers == 0 || between > kBetweenOctets || owner_.turn_is_short(*this)) return 0;
  const std::size_t staging = received_->octets.size() - received_->end;
  const std::size_t most = std::min(kReceiveOctets, staging);
  if (octets >= most) return 0;
  return std::min({landing.followers, kFollowersMost,
                   (most - octets) / (landing.payload + between)});
}

/// `octets` arrived behind the first FPDU. False: the place of some cannot be read any more.
bool Connection::take_followers(const core::Landing& first, const Train& train,
                                std::size_t octets) {
  const auto payload_at = [&](std::size_t i) {
    return first.place + first.octets + i * first.payload;
  };
  std::size_t i = 0;
  for (; octets != 0; ++i) {
    const auto found = find_follower(first, payload_at(i));
    if (!found) break;
    const core::Landing& landing = *found;
    const std::size_t landed = std::min(octets, landing.octets);
    octets -= landed;
    landing_head_ = received_->end - received_->begin;
    if (!qp_->core().handle_landed(front(), landing, landed)) return false;
    const std::size_t between = std::min(octets, train.between);
    octets -= between;
    std::memcpy(received_->octets.data() + received_->end, train.betweens[i].data(), between);
    received_->end += between;
    if (landed == landing.octets) offer_landed(landing);
  }
  // Something else came: it belongs behind what is staged. If the stream is over, nowhere.
  for (; octets != 0 && state_ == ConnectionState::Streaming && received_ != nullptr; ++i) {
    ReceiveBuffer& buffer = *received_;
    const std::size_t payload = std::min(octets, first.payload);
    octets -= payload;
    if (!owner_.mover().fetch(buffer.octets.data() + buffer.end, payload_at(i), payload, nullptr,
                              core::ReadBy::ThisCore)) {
      return false;
    }
    buffer.end += payload;
    const std::size_t between = std::min(octets, train.between);
    octets -= between;
    std::memcpy(buffer.octets.data() + buffer.end, train.betweens[i].data(), between);
    buffer.end += between;
    if (octets == 0 && !held_back_) offer_received();
  }
  return true;
}

/// What is staged, if it is the header of an FPDU like the first one, whose payload belongs there.
std::optional<core::Landing> Connection::find_follower(const core::Landing& first,
                                                       const std::uint8_t* place) {
  if (state_ != ConnectionState::Streaming || held_back_ || received_ == nullptr ||
      landing_head_ != 0 || received_->end - received_->begin != first.header) {
    return {};
  }
  const auto landing = qp_->core().find_landing(front(), first.payload, owner_.now());
  const bool follows = landing && landing->place == place && landing->octets == first.payload &&
                       landing->header == first.header && landing->trailer == first.trailer;
  return follows ? landing : std::nullopt;
}

/// The program took the memory back, or unmapped it: the core ends the stream, and drops the rest.
Connection::Got Connection::lose_landing() {
  qp_->core().handle_landing_fault(front(), owner_.now());
  landing_head_ = 0;
  drained_ = false;
  offer_received();
  return Got::Some;
}

/// The octets staged of an unfinished FPDU, less what lies behind its payload.
Octets Connection::front() const {
  const ReceiveBuffer& buffer = *received_;
  return {buffer.octets.data() + buffer.begin,
          landing_head_ != 0 ? landing_head_ : buffer.end - buffer.begin};
}

/// Gives the core the FPDU whose payload has all been received into its place, once its trailer is
/// here, and then what lies behind it.
void Connection::offer_landed(const core::Landing& landing) {
  ReceiveBuffer& buffer = *received_;
  const Octets staged(buffer.octets.data() + buffer.begin, buffer.end - buffer.begin);
  const Octets behind = staged.subspan(landing_head_);
  const core::Received ended = qp_->core().finish_landed(front(), landing, behind);
  if (ended.consumed != 0) {
    buffer.begin += landing_head_ + ended.consumed;
    landing_head_ = 0;
    wanted_ = ended.wanted;
    const std::size_t next = behind.size() - ended.consumed;
    if (next >= wire::kUlpduLengthOctets) note_behind(landing);
    if (next >= wanted_) offer_received();
    return;
  }
  const std::array<Octets, 3> parts{staged.first(landing_head_),
                                    Octets(landing.place, landing.octets),
                                    behind};
  const core::Received done = qp_->core().handle_octets({parts}, owner_.now());
  if (done.consumed == 0) return;
  end_ = {};
  landing_head_ = 0;
  buffer.begin += done.consumed - landing.octets;
  offer_received();
}

}  // namespace weft::engine
