#include "distributed/device_group.h"

#include <map>
#include <utility>

#include "backend/connection.h"
#include "backend/kernels.h"

namespace attend::distributed {
namespace {

/// What both kinds of groups share: their members are those of a group whose messages are on the host.
class OnDevice : public Group {
 public:
  OnDevice(std::unique_ptr<Group> host, Device device) : host_(std::move(host)), device_(device) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const std::vector<Member>& members() const override { return host_->members(); }
  void barrier() override { host_->barrier(); }
  std::unique_ptr<Group> channel() override { return device_group(*host_, device_).group; }
  std::unique_ptr<Group> split(int color) override { return device_group(*host_->split(color), device_).group; }
  void abort(int code, const std::string& reason) override { host_->abort(code, reason); }

 protected:
  Group& host() { return *host_; }
  Device device() const { return device_; }

 private:
  std::unique_ptr<Group> host_;
  Device device_;
};

/// Copies messages through the host's memory.
class Copied final : public OnDevice {
 public:
  using OnDevice::OnDevice;

  std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) override {
    auto copy = std::make_unique<Copy>(device(), mine, all);
    copy->transfer = host().start_all_gather(copy->sent, copy->arrived, counts);
    return copy;
  }
  std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                             std::span<const int64_t> received) override {
    auto copy = std::make_unique<Copy>(device(), mine, into);
    copy->transfer = host().start_all_to_all(copy->sent, sent, copy->arrived, received);
    return copy;
  }
  std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) override {
    auto copy = std::make_unique<Copy>(device(), mine, into);
    copy->transfer = host().start_ring_shift(copy->sent, copy->arrived);
    return copy;
  }
  std::unique_ptr<Transfer> start_sum(std::span<float> values) override {
    auto copy = std::make_unique<Copy>(device(), ConstBytes{}, std::as_writable_bytes(values));
    kernels(device()).memory.download(copy->arrived.data(), values.data(), values.size_bytes());
    copy->transfer = host().start_sum({reinterpret_cast<float*>(copy->arrived.data()), values.size()});
    return copy;
  }

 private:
  struct Copy final : Transfer {
    Copy(Device where, ConstBytes mine, Bytes into)
        : device(where), sent(mine.size()), arrived(into.size()), to(into.data()) {
      kernels(device).memory.download(sent.data(), mine.data(), mine.size());
    }
    void wait() override {
      transfer->wait();
      kernels(device).memory.upload(to, arrived.data(), arrived.size());
    }

    Device device;
    std::vector<std::byte> sent, arrived;
    std::byte* to;
    std::unique_ptr<Transfer> transfer;
  };
};

/// Sends messages from device to device.
class Direct final : public OnDevice {
 public:
  Direct(std::unique_ptr<Group> host, Device device, const std::string& invitation)
      : OnDevice(std::move(host), device), connection_(device, invitation, rank(), size()) {}

  std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) override {
    Messages sent;
    for (int rank = 0; rank < size() && !mine.empty(); ++rank) {
      sent.push_back({rank, const_cast<std::byte*>(mine.data()), mine.size()});
    }
    return started(connection_.start_exchange(sent, parts(all, counts)));
  }
  std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                             std::span<const int64_t> received) override {
    return started(connection_.start_exchange(parts(mine, sent), parts(into, received)));
  }
  std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) override {
    const DeviceMessage next{(rank() + 1) % size(), const_cast<std::byte*>(mine.data()), mine.size()};
    const DeviceMessage previous{(rank() + size() - 1) % size(), into.data(), into.size()};
    return started(connection_.start_exchange({&next, 1}, {&previous, 1}));
  }
  std::unique_ptr<Transfer> start_sum(std::span<float> values) override {
    return started(connection_.start_sum(values));
  }

 private:
  using Messages = std::vector<DeviceMessage>;

  struct Running final : Transfer {
    Running(DeviceConnection& used, void* started) : connection(used), transfer(started) {}
    void wait() override {
      if (transfer != nullptr) connection.finish(std::exchange(transfer, nullptr));
    }
    DeviceConnection& connection;
    void* transfer;
  };
  std::unique_ptr<Transfer> started(void* transfer) { return std::make_unique<Running>(connection_, transfer); }

  /// Consecutive parts of a buffer, one for each rank. Empty ones are left out: the other side leaves them out, too.
  static Messages parts(ConstBytes bytes, std::span<const int64_t> counts) {
    Messages messages;
    auto* at = const_cast<std::byte*>(bytes.data());
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      const auto count = static_cast<size_t>(counts[rank]);
      if (count > 0) messages.push_back({static_cast<int>(rank), at, count});
      at += count;
    }
    return messages;
  }

  DeviceConnection connection_;
};

/// Why messages cannot go directly from device to device, the same on all members; empty if they can. Collective.
std::string obstacle(Group& group, Device device) {
  const std::string problem = DeviceConnection::problem(device);
  const std::vector<std::string> problems = all_gather(group, problem);
  const std::vector<std::string> addresses =
      all_gather(group, problem.empty() ? DeviceConnection::address(device) : "");
  std::map<std::pair<std::string, std::string>, int> owners;  // of host and address
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (!problems[at].empty()) return name_of(group, rank) + ": " + problems[at];
    const auto [owner, is_new] = owners.try_emplace({group.members()[at].host, addresses[at]}, rank);
    if (!is_new) return name_of(group, owner->second) + " and " + name_of(group, rank) + " share a GPU";
  }
  return "";
}

}  // namespace

DeviceGroup device_group(Group& group, Device device) {
  std::unique_ptr<Group> host = group.channel();
  const std::string reason = obstacle(*host, device);
  if (device == kCpu) return {.group = std::move(host), .path = "through the host's memory"};
  if (!reason.empty()) {
    return {.group = std::make_unique<Copied>(std::move(host), device),
            .path = "through the host's memory (" + reason + ")"};
  }
  const std::string invitation = broadcast(*host, host->rank() == 0 ? DeviceConnection::invitation(device) : "");
  return {.group = std::make_unique<Direct>(std::move(host), device, invitation),
          .path = "by " + DeviceConnection::library(device),
          .is_direct = true};
}

}  // namespace attend::distributed
