// Drawing the settings: mostly plain, now and then extreme.
#include "tests/sim/settings.h"

#include <algorithm>

namespace weft::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

bool percent(Random& random, std::uint32_t of_hundred) {
  return random.chance(of_hundred * 10'000);
}

template <typename T, std::size_t kCount>
T pick(Random& random, const T (&from)[kCount]) {
  return from[random.between(0, kCount - 1)];
}

Trouble draw_trouble(Random& random) {
  const std::uint64_t n = random.between(0, 99);
  if (n < 50) return Trouble::None;
  if (n < 64) return Trouble::Illegal;
  if (n < 74) return Trouble::AbruptEnd;
  if (n < 82) return Trouble::Connection;
  if (n < 89) return Trouble::Corruption;
  if (n < 92) return Trouble::Startup;
  if (n < 96) return Trouble::Deregistration;
  return Trouble::Many;
}

std::size_t draw_emss(Random& random) {
  const std::uint64_t n = random.between(0, 9);
  if (n < 3) return random.between(128, 600);
  if (n < 6) return pick(random, {std::size_t{536}, std::size_t{1448}, std::size_t{1460}});
  if (n < 8) return random.between(601, 9000);
  return random.between(9001, 65483);
}

void draw_startup(Settings& settings, Random& random) {
  core::StartupConfig& initiator = settings.ends[0].startup;
  core::StartupConfig& responder = settings.ends[1].startup;
  const bool crc_off = percent(random, 25);
  for (EndSettings& end : settings.ends) {
    end.startup.crc = !crc_off || percent(random, 20);
    end.startup.markers = percent(random, 30);
    end.startup.ird = static_cast<std::uint16_t>(random.between(0, 9));
    end.startup.ord = static_cast<std::uint16_t>(random.between(0, 9));
    end.startup.rtr_send = percent(random, 50);
    end.startup.rtr_write = percent(random, 50);
    end.startup.rtr_read = percent(random, 50);
  }
  initiator.revision = percent(random, 25) ? 1 : 2;
  responder.revision = initiator.revision == 2 || percent(random, 50) ? 2 : 1;
  initiator.peer_to_peer = initiator.revision == 2 && percent(random, 50);
  if (initiator.peer_to_peer) {
    // A common RTR type.
    const std::uint64_t common = random.between(0, 2);
    for (EndSettings& end : settings.ends) {
      (common == 0   ? end.startup.rtr_send
       : common == 1 ? end.startup.rtr_write
                     : end.startup.rtr_read) = true;
    }
  }
  if (initiator.revision == 1) {
    // Nobody negotiates: the consumers have to know.
    initiator.ord = std::min(initiator.ord, responder.ird);
    responder.ord = std::min(responder.ord, initiator.ird);
  }
  for (EndSettings& end : settings.ends) {
    end.qp.ird_max = end.startup.ird;
    end.qp.ord_max = end.startup.ord;
  }
  if (initiator.revision == 2 && percent(random, 4)) {
    // The ULPs settle the depths among themselves.
    const auto depth = static_cast<std::uint16_t>(random.between(1, 9));
    for (EndSettings& end : settings.ends) {
      end.startup.ird = end.startup.ord = wire::kDepthByULP;
      end.qp.ird_max = end.qp.ord_max = depth;
    }
  }
}

void draw_end(EndSettings& end, const Settings& settings, Random& random) {
  end.emss = draw_emss(random);
  end.qp.pd = {7};
  end.qp.stream = {3};
  end.shared_receives = percent(random, 30);
  end.qp.receive_pd = end.shared_receives && percent(random, 50) ? core::PD{9} : core::PD{7};
  end.qp.send_depth = static_cast<std::uint32_t>(random.between(1, 20));
  end.qp.send_sges = static_cast<std::uint32_t>(random.between(1, 6));
  end.qp.receive_sges = static_cast<std::uint32_t>(random.between(1, 6));
  end.qp.gather_octets_min =
      pick(random, {std::size_t{1}, std::size_t{64}, std::size_t{700}, std::size_t{32 * 1024}});
  end.qp.strict_receive = percent(random, 20);
  end.receives_in_time = end.qp.strict_receive || percent(random, 30);
  end.batch_octets_max =
      percent(random, 30) ? random.between(1, 2000) : random.between(2000, 70000);
  end.receive_octets_max = percent(random, 20) ? random.between(64, 1024) : 65536;
  end.parts_max = static_cast<std::uint32_t>(percent(random, 40) ? random.between(2, 24) : 1);
  end.waits_for_wanted = percent(random, 50);
  end.lands = percent(random, 50);
  const bool tight = percent(random, 40);
  end.staging_octets =
      std::max<std::size_t>(end.emss, 9000) + 1000 + (tight ? random.between(0, 2000) : 70'000);
  if (tight) end.pieces_max = random.between(2 * end.qp.send_sges + 4, 40);
  if (settings.region_octets > 8192) {
    // Only small memories go in small steps: seeds stay cheap.
    end.receive_octets_max = 65536;
    end.batch_octets_max = std::max<std::size_t>(end.batch_octets_max, 2000);
  }
  end.qp.complete_placed = percent(random, 20);
}

void draw_faults(Settings& settings, Random& random) {
  transport::FaultConfig& faults = settings.faults;
  faults.seed = settings.seed;
  const auto rate = [&random](std::uint32_t max) {
    return percent(random, 60) ? static_cast<std::uint32_t>(random.between(0, max)) : 0;
  };
  faults.split_send = rate(1'000'000);
  faults.split_receive = rate(1'000'000);
  const std::size_t step = std::max<std::size_t>(settings.region_octets / 64, 8);
  faults.split_octets_max = percent(random, 50) ? 0 : random.between(step, step * 20);
  faults.delay_connect = rate(500'000);
  faults.delay_send = rate(250'000);
  faults.delay_receive = rate(250'000);
  faults.delay_max = pick(
      random, {Duration(microseconds(20)), Duration(microseconds(500)), Duration(milliseconds(5))});
  faults.merge = rate(300'000);
  faults.merge_steps = static_cast<std::uint32_t>(random.between(1, 6));
}

void draw_trouble_details(Settings& settings, Random& random) {
  const Trouble trouble = settings.trouble;
  const bool many = trouble == Trouble::Many;
  transport::FaultConfig& faults = settings.faults;
  if (trouble == Trouble::Illegal || (many && percent(random, 30))) {
    settings.illegal = static_cast<Illegal>(random.between(1, kIllegalCount - 1));
  }
  if (trouble == Trouble::AbruptEnd || (many && percent(random, 30))) {
    settings.manner = static_cast<Manner>(random.between(2, 5));
    settings.manner_at_random_time = percent(random, 85);
  }
  if (trouble == Trouble::Connection || (many && percent(random, 50))) {
    (percent(random, 60) ? faults.cut : faults.fin_early) =
        percent(random, 80) ? 1'000'000 : 500'000;
    const std::uint64_t octets = percent(random, 20) ? 200 : settings.region_octets * 8;
    faults.cut_octets_max = faults.fin_octets_max = octets;
  }
  if (trouble == Trouble::Corruption || (many && percent(random, 30))) {
    faults.corrupt = static_cast<std::uint32_t>(random.between(2'000, 150'000));
    for (EndSettings& end : settings.ends) end.startup.crc = true;
  }
  settings.deregisters = trouble == Trouble::Deregistration || (many && percent(random, 30));
  if (trouble != Trouble::Startup && !(many && percent(random, 10))) return;
  core::StartupConfig& initiator = settings.ends[0].startup;
  core::StartupConfig& responder = settings.ends[1].startup;
  switch (random.between(0, 3)) {
    case 0:
      initiator.revision = 2;
      responder.revision = 1;
      settings.retries_revision_1 = percent(random, 50);
      break;
    case 1:
      initiator.revision = 2;
      initiator.peer_to_peer = true;
      initiator.rtr_send = responder.rtr_write = true;
      initiator.rtr_write = initiator.rtr_read = responder.rtr_send = responder.rtr_read = false;
      break;
    case 2:  // a peer that never answers in time
      faults.delay_receive = 1'000'000;
      faults.delay_max = std::chrono::seconds(60);
      break;
    default:  // nobody settled the depths
      initiator.revision = 1;
      initiator.peer_to_peer = false;
      responder.ird = settings.ends[1].qp.ird_max = 1;
      initiator.ord = settings.ends[0].qp.ord_max = 8;
  }
}

}  // namespace

std::uint32_t Settings::reads_allowed(std::size_t end) const {
  return std::min(ends[end].qp.ord_max, ends[1 - end].qp.ird_max);
}

core::RTR Settings::rtr() const {
  const core::StartupConfig& initiator = ends[0].startup;
  core::StartupConfig responder = ends[1].startup;
  if (initiator.revision < 2 || !initiator.peer_to_peer) return core::RTR::None;
  if (!responder.rtr_send && !responder.rtr_write && !responder.rtr_read) {
    responder.rtr_write = true;
  }
  if (initiator.rtr_write && responder.rtr_write) return core::RTR::Write;
  if (initiator.rtr_read && responder.rtr_read) return core::RTR::Read;
  return initiator.rtr_send && responder.rtr_send ? core::RTR::Send : core::RTR::None;
}

Settings draw_settings(std::uint64_t seed, Random& random) {
  Settings settings;
  settings.seed = seed;
  settings.trouble = draw_trouble(random);
  const std::uint64_t size = random.between(0, 99);
  settings.region_octets = size < 75   ? random.between(256, 3000)
                           : size < 97 ? random.between(3000, 20000)
                                       : random.between(70000, 160000);
  settings.sends_max = settings.region_octets > 20000 ? 10 : 24;
  settings.manner = percent(random, 60) ? Manner::OneCloses : Manner::BothClose;
  settings.acting_end = random.between(0, 1);
  draw_startup(settings, random);
  for (EndSettings& end : settings.ends) draw_end(end, settings, random);
  draw_faults(settings, random);
  draw_trouble_details(settings, random);
  settings.buffer_octets = percent(random, 30)
                               ? random.between(settings.region_octets / 16 + 64, 4096)
                               : random.between(4096, 65536);
  const Duration spans[] = {Duration(0), Duration(microseconds(300)), Duration(milliseconds(3)),
                            Duration(milliseconds(20))};
  settings.script_span = pick(random, spans);
  settings.emss_changes = percent(random, 15);
  settings.rounds = percent(random, 15) ? 2 : 1;
  return settings;
}

const char* name(Illegal illegal) {
  switch (illegal) {
    case Illegal::None:
      return "none";
    case Illegal::WriteBadSTag:
      return "Write, bad STag";
    case Illegal::WriteBeyondEnd:
      return "Write beyond the end";
    case Illegal::WriteWithoutRight:
      return "Write without the right";
    case Illegal::WriteNotAssociated:
      return "Write, other PD or stream";
    case Illegal::ReadBadSTag:
      return "Read, bad STag";
    case Illegal::ReadBeyondEnd:
      return "Read beyond the end";
    case Illegal::ReadWithoutRight:
      return "Read without the right";
    case Illegal::ReadNotAssociated:
      return "Read, other PD or stream";
    case Illegal::SendTooLong:
      return "Send too long";
    case Illegal::InvalidateBadSTag:
      return "Send with Invalidate, bad STag";
    case Illegal::LocalBadSTag:
      return "local STag bad";
    case Illegal::LocalBeyondEnd:
      return "beyond the local end";
    case Illegal::LocalInvalidateBadSTag:
      return "Local Invalidate, bad STag";
    case Illegal::ReadSinkReadOnly:
      return "Read into read-only memory";
    case Illegal::ReadTwoSinks:
      return "Read with two sinks";
    case Illegal::AtomicBadSTag:
      return "atomic, bad STag";
    case Illegal::AtomicBeyondEnd:
      return "atomic beyond the end";
    case Illegal::AtomicWithoutRight:
      return "atomic without the right";
    case Illegal::AtomicNotAssociated:
      return "atomic, other PD or stream";
    case Illegal::AtomicMisaligned:
      return "atomic, target not aligned";
    case Illegal::AtomicSinkReadOnly:
      return "atomic into read-only memory";
    case Illegal::WindowWriteBeyondEnd:
      return "Write beyond the end of a window";
    case Illegal::WindowWriteWithoutRight:
      return "Write without the window's right";
    case Illegal::WindowReadBeyondEnd:
      return "Read beyond the end of a window";
    case Illegal::WindowReadWithoutRight:
      return "Read without the window's right";
    case Illegal::WindowReadOldKey:
      return "Read with a window's old key";
    case Illegal::WindowReadInvalidated:
      return "Read from a window behind its invalidation";
    case Illegal::WindowInvalidateType1:
      return "Send with Invalidate of a window of type 1";
    case Illegal::WindowLocalInvalidateType1:
      return "Local Invalidate of a window of type 1";
    case Illegal::WindowBindBeyondEnd:
      return "bind beyond the end of the region";
    case Illegal::WindowBindTwice:
      return "bind of a bound window of type 2";
    case Illegal::WindowAsLocal:
      return "a window as local memory";
  }
  return "?";
}

}  // namespace weft::sim
