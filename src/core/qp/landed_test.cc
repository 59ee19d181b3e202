// Segments from the middle of a message, all of whose payload landed: done with without a second
// look, where there is nothing to be seen.
#include "core/qp/testing/hostile.h"
#include "core/qp/testing/pair.h"

namespace weft::core::testing {
namespace {

constexpr std::size_t kPart = 600, kParts = 3;

struct Landed {
  Received finished;
  std::size_t trailer = 0;
};

/// One end, and a message of three parts for it.
class QPLanded : public ::testing::TestWithParam<wire::Opcode> {
 protected:
  QPLanded() {
    StreamParameters stream = End::stream(Role::Initiator);
    stream.crc = GetParam() != wire::Opcode::Write;  // else it has no place before its CRC is known
    end_.bind(stream);
    end_.deliver(fpdu(tagged(wire::Opcode::Write, end_.region(8).stag, 0, {})));
    if (GetParam() == wire::Opcode::ReadResponse) {
      end_.read({memory_.sge()}, {0x501}, 0);
      end_.transmit();
    } else if (GetParam() != wire::Opcode::Write) {
      end_.receive({memory_.sge()});
    }
  }

  Bytes part(std::size_t number, bool last, std::size_t octets = kPart) const {
    const Bytes payload(octets, static_cast<std::uint8_t>(number + 1));
    const std::size_t at = number * kPart;
    if (is_send()) return fpdu(send(1, payload, static_cast<std::uint32_t>(at), last));
    return fpdu(tagged(GetParam(), memory_.stag, memory_.to + at, payload, last));
  }
  bool is_send() const { return GetParam() == wire::Opcode::Send; }
  std::size_t header() const { return is_send() ? 20 : 16; }

  /// All of `fpdu` but its trailer has arrived, `staged` octets of it not in their place; then
  /// `behind` came.
  Landed land(const Bytes& fpdu, const Bytes& behind, std::size_t staged = 0) {
    const auto at = static_cast<std::ptrdiff_t>(header() + staged);
    head_.assign(fpdu.begin(), fpdu.begin() + at);
    const auto landing = end_.qp->find_landing(head_, 1, end_.now);
    EXPECT_TRUE(landing.has_value());
    if (!landing) return {};
    landing_ = *landing;
    std::copy_n(fpdu.begin() + at, landing->octets, landing->place);
    EXPECT_TRUE(end_.qp->handle_landed(head_, *landing, landing->octets));
    return {end_.qp->finish_landed(head_, *landing, behind), landing->trailer};
  }
  static Bytes trailer(const Bytes& fpdu, std::size_t octets = wire::kCRCOctets) {
    return {fpdu.end() - static_cast<std::ptrdiff_t>(octets), fpdu.end()};
  }
  /// As somebody does who was told that it takes another look.
  Received look_again(const Bytes& behind) {
    const Octets parts[] = {head_, Octets(landing_.place, landing_.octets), behind};
    const Received received = end_.qp->handle_octets({parts}, end_.now);
    end_.drain();
    return received;
  }
  std::size_t received_octets() const {
    EXPECT_EQ(statuses(end_.queues.received), std::vector{WorkStatus::Success});
    return end_.queues.received.at(0).octets;
  }
  void expect_whole() const {
    for (std::size_t i = 0; i < kParts * kPart; ++i) {
      ASSERT_EQ((*memory_.memory)[i], i / kPart + 1) << i;
    }
  }

  End end_;
  Region memory_ = end_.region(kParts * kPart);
  Bytes head_;
  Landing landing_;
};

// A Write has a place only without one; of a Read alone the end is known; and of a Send each
// segment says again which kind it is.
class QPLandedWithCRC : public QPLanded {};
class QPLandedResponse : public QPLanded {};
class QPLandedSend : public QPLanded {};

TEST_P(QPLanded, TheMiddleOfAMessageIsDoneWithAndItsEndIsLookedAt) {
  for (std::size_t i = 0; i + 1 < kParts; ++i) {
    Bytes behind = trailer(part(i, false));
    const Bytes next = part(i + 1, i + 2 == kParts);
    behind.insert(behind.end(), next.begin(), next.begin() + 10);
    const Landed landed = land(part(i, false), behind);
    EXPECT_EQ(landed.finished.consumed, landed.trailer);
    EXPECT_EQ(landed.finished.wanted, next.size());
  }
  const Bytes last = part(kParts - 1, true);
  EXPECT_EQ(land(last, trailer(last)).finished.consumed, 0u);
  EXPECT_EQ(look_again(trailer(last)).consumed, last.size());
  expect_whole();
  EXPECT_EQ(end_.mover.placements, 0u);
  EXPECT_EQ(end_.qp->state(), QPState::RTS);
  if (is_send()) {
    EXPECT_EQ(received_octets(), kParts * kPart);
  } else if (GetParam() == wire::Opcode::ReadResponse) {
    EXPECT_EQ(statuses(end_.queues.sent), std::vector{WorkStatus::Success});
  } else {
    end_.receive({});
    end_.deliver(fpdu(immediate(1, 7)));
    EXPECT_EQ(received_octets(), kParts * kPart) << "what an Immediate tells of its Write";
  }
}

TEST_P(QPLanded, OfWhatIsBehindItNoMoreIsKnownThanHasArrived) {
  const Bytes first = part(0, false);
  Bytes behind = trailer(first);
  behind.push_back(0);  // half a length
  const Landed landed = land(first, behind);
  EXPECT_EQ(landed.finished.consumed, landed.trailer);
  EXPECT_GT(landed.finished.wanted, 1u);
}

TEST_P(QPLanded, WhatIsNotAllThereIsLookedAt) {
  const Bytes first = part(0, false);
  EXPECT_EQ(land(first, trailer(first, 3)).finished.consumed, 0u);
  EXPECT_EQ(look_again(trailer(first, 3)).consumed, 0u);
  EXPECT_EQ(look_again(trailer(first)).consumed, first.size());
}

TEST_P(QPLanded, WhatWasStagedBehindTheHeaderIsPlacedByWhoLooksAtIt) {
  const Bytes first = part(0, false);
  EXPECT_EQ(land(first, trailer(first), 10).finished.consumed, 0u);
  EXPECT_EQ(look_again(trailer(first)).consumed, first.size());
  EXPECT_EQ((*memory_.memory)[0], 1);
}

//= MPA-16 MPA-18
TEST_P(QPLandedWithCRC, DamageIsToldOfByWhoLooksAtIt) {
  Bytes first = part(0, false);
  first[300] ^= 1;
  EXPECT_EQ(land(first, trailer(first)).finished.consumed, 0u);
  look_again(trailer(first));
  end_.transmit();
  EXPECT_EQ(end_.qp->terminate_sent(), wire::TermError::MPACRC);
}

TEST_P(QPLandedResponse, AnAnswerThatFillsItsSinkAndGoesOnFailsItsRead) {
  const Bytes all = fpdu(tagged(wire::Opcode::ReadResponse, memory_.stag, memory_.to,
                                pattern(kParts * kPart), false));
  EXPECT_EQ(land(all, trailer(all)).finished.consumed, 0u);
  look_again(trailer(all));
  EXPECT_EQ(statuses(end_.queues.sent), std::vector{WorkStatus::BadResponse});
}

//= DDP-04
TEST_P(QPLandedSend, AMessageThatBecomesAnotherOneEndsTheStream) {
  const Bytes first = part(0, false);
  EXPECT_NE(land(first, trailer(first)).finished.consumed, 0u);
  const Bytes other = fpdu(untagged(wire::Opcode::SendSolicited, 0, 1, kPart,
                                    pattern(kPart), false));
  EXPECT_EQ(land(other, trailer(other)).finished.consumed, 0u);
  look_again(trailer(other));
  end_.transmit();
  EXPECT_EQ(end_.qp->terminate_sent(), wire::TermError::RDMAPUnexpectedOpcode);
}

TEST_P(QPLanded, AStreamThatIsOverTakesNothing) {
  const Bytes first = part(0, false);
  EXPECT_EQ(land(first, {}).finished.consumed, 0u);
  end_.qp->handle_llp_lost(end_.now);
  EXPECT_EQ(end_.qp->finish_landed(head_, landing_, trailer(first)).consumed, 0u);
}

std::string name_of(const ::testing::TestParamInfo<wire::Opcode>& one) {
  return one.param == wire::Opcode::Write ? "Write"
         : one.param == wire::Opcode::Send ? "Send"
                                           : "ReadResponse";
}
INSTANTIATE_TEST_SUITE_P(Messages, QPLanded,
                         ::testing::Values(wire::Opcode::Write, wire::Opcode::ReadResponse,
                                           wire::Opcode::Send),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Messages, QPLandedWithCRC,
                         ::testing::Values(wire::Opcode::ReadResponse, wire::Opcode::Send),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Messages, QPLandedResponse,
                         ::testing::Values(wire::Opcode::ReadResponse), name_of);
INSTANTIATE_TEST_SUITE_P(Messages, QPLandedSend, ::testing::Values(wire::Opcode::Send), name_of);

}  // namespace
}  // namespace weft::core::testing
