// Test-only: streams of kernel TCP, of which a test changes or watches what it wants to.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "transport/tcp/tcp_transport.h"

namespace weft::engine::testing {

/// Of all of them together.
inline std::size_t octets_of(std::span<const iovec> pieces) {
  std::size_t octets = 0;
  for (const iovec& piece : pieces) octets += piece.iov_len;
  return octets;
}

/// Passes everything on.
class PassingStream : public transport::Stream {
 public:
  explicit PassingStream(std::unique_ptr<transport::Stream> inner) : inner_(std::move(inner)) {}
  Result<void> connected() override { return inner_->connected(); }
  transport::IOResult send(std::span<const iovec> pieces) override { return inner_->send(pieces); }
  transport::IOResult receive(std::span<const iovec> pieces) override {
    return inner_->receive(pieces);
  }
  void close_gracefully() override { inner_->close_gracefully(); }
  void reset() override { inner_->reset(); }
  std::size_t emss() override { return inner_->emss(); }
  int fd() const override { return inner_->fd(); }
  bool has_edges() const override { return inner_->has_edges(); }
  transport::Address local() const override { return inner_->local(); }
  transport::Address peer() const override { return inner_->peer(); }

 private:
  const std::unique_ptr<transport::Stream> inner_;
};

/// Whose streams, connected and accepted, go through `wrap`.
class WrappingTransport final : public transport::Transport {
 public:
  using Owned = std::unique_ptr<transport::Stream>;
  using Wrap = std::function<Owned(Owned)>;

  explicit WrappingTransport(Wrap wrap) : wrap_(std::move(wrap)) {}
  Result<Owned> connect(const transport::Address& local,
                        const transport::Address& remote) override {
    return wrapped(tcp_.connect(local, remote));
  }
  Result<std::unique_ptr<transport::Listener>> listen(
      const transport::Address& local, const transport::ListenOptions& options) override {
    auto inner = tcp_.listen(local, options);
    if (!inner) return inner.error();
    return std::unique_ptr<transport::Listener>(new Listener(*this, std::move(*inner)));
  }

 private:
  Result<Owned> wrapped(Result<Owned> made) {
    if (!made) return made;
    return wrap_(std::move(*made));
  }

  class Listener final : public transport::Listener {
   public:
    Listener(WrappingTransport& transport, std::unique_ptr<transport::Listener> inner)
        : transport_(transport), inner_(std::move(inner)) {}
    Result<Owned> accept() override { return transport_.wrapped(inner_->accept()); }
    int fd() const override { return inner_->fd(); }
    transport::Address local() const override { return inner_->local(); }

   private:
    WrappingTransport& transport_;
    const std::unique_ptr<transport::Listener> inner_;
  };

  const Wrap wrap_;
  transport::TCPTransport tcp_;
};

}  // namespace weft::engine::testing
