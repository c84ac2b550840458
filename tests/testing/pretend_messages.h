#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "attend/base/error.h"
#include "backend/connection.h"

// Messages of the pretended GPUs, between threads that stand for processes. Used by tests/testing/pretend_cuda.cpp.
namespace attend::testing {

/// What the threads of a connection have sent: blocks by the number of the transfer, the sender and the receiver.
class Mail {
 public:
  void put(int64_t number, int from, int to, const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    const std::lock_guard lock(mutex_);
    blocks_[{number, from, to}].assign(begin, begin + bytes);
    arrived_.notify_all();
  }
  std::vector<std::byte> take(int64_t number, int from, int to) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return blocks_.contains({number, from, to}); });
    return std::move(blocks_.extract({number, from, to}).mapped());
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::tuple<int64_t, int, int>, std::vector<std::byte>> blocks_;
};

/// One thread's end of a connection. exchange() and sum() return a transfer for finish().
class PretendConnection {
 public:
  PretendConnection(const std::string& invitation, int rank, int size) : rank_(rank), size_(size) {
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<Mail>> all;
    const std::lock_guard lock(mutex);
    auto& mail = all[invitation];
    if (mail == nullptr) mail = std::make_shared<Mail>();
    mail_ = mail;
  }

  void* exchange(std::span<const DeviceMessage> sent, std::span<const DeviceMessage> received) {
    const int64_t number = transfers_++;
    for (const DeviceMessage& message : sent) mail_->put(number, rank_, message.rank, message.data, message.bytes);
    for (const DeviceMessage& message : received) {
      std::memset(message.data, 0xff, message.bytes);  // NaN, until it is waited for
    }
    return new Rest([this, number, kept = std::vector(received.begin(), received.end())] {
      for (const DeviceMessage& message : kept) {
        const std::vector<std::byte> block = mail_->take(number, message.rank, rank_);
        require<DeviceError>(block.size() == message.bytes, "messages: expected ", message.bytes, " bytes, got ",
                             block.size());
        std::memcpy(message.data, block.data(), message.bytes);
      }
    });
  }

  void* sum(std::span<float> values) {
    const int64_t number = transfers_++;
    for (int rank = 0; rank < size_; ++rank) mail_->put(number, rank_, rank, values.data(), values.size_bytes());
    return new Rest([this, number, values] {
      for (int rank = 0; rank < size_; ++rank) {
        const std::vector<std::byte> block = mail_->take(number, rank, rank_);
        const auto* from = reinterpret_cast<const float*>(block.data());
        for (size_t i = 0; i < values.size(); ++i) values[i] = rank == 0 ? from[i] : values[i] + from[i];
      }
    });
  }

  static void finish(void* transfer) {
    const std::unique_ptr<Rest> rest(static_cast<Rest*>(transfer));
    (*rest)();
  }

 private:
  using Rest = std::function<void()>;  // what is left to do when a transfer is waited for

  std::shared_ptr<Mail> mail_;
  int rank_, size_;
  int64_t transfers_ = 0;
};

}  // namespace attend::testing
