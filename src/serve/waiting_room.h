#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace attend {

/// The deadline of one read or write: 5 seconds, plus one second per 128 KiB transferred.
class Deadline {
 public:
  Deadline() : Deadline(std::chrono::seconds(5)) {}
  explicit Deadline(std::chrono::milliseconds patience) : end_(std::chrono::steady_clock::now() + patience) {}
  void moved(size_t bytes);
  std::chrono::milliseconds left() const;  ///< 0 or less: expired

 private:
  std::chrono::steady_clock::time_point end_;
};

/// A received request: its head, and its body if the head declares an acceptable length.
struct Arrival {
  socket_t socket = INVALID_SOCKET;
  std::string bytes;
};

/// Holds the connections that wait for the client: to send the rest of a request, to receive the rest of a response, or
/// to close. One thread polls them all, so that slow clients do not delay other requests. The room holds at most 512
/// connections with 256 MiB of requests; beyond that it closes the oldest. A head longer than 32 KiB gets 431, and a
/// request that does not arrive in time gets 408.
class WaitingRoom {
 public:
  struct Options {
    size_t largest_body = 0;   ///< bytes; longer bodies are not read, as their requests are refused by the head
    size_t most_guests = 512;  ///< maximum number of connections
  };
  /// `answer` is called in the room's thread and must not block. It owns the socket and returns it with leave().
  WaitingRoom(std::function<void(Arrival)> answer, const Options& options);
  ~WaitingRoom();
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  void enter(socket_t socket);
  /// Sends the rest of a response, then closes the socket. The client has a second to read it and close first.
  void leave(socket_t socket, std::string rest);
  /// True if the room can take `bytes` more bytes of responses; pass them to leave() then.
  bool reserve(size_t bytes);

  void close();   ///< stops accepting requests; `answer` is not called afterwards
  void finish();  ///< close(), gives clients up to a second to receive their responses, and joins the thread

 private:
  enum class Phase { head, body, sending, leaving };
  struct Guest {
    socket_t socket = INVALID_SOCKET;
    Phase phase = Phase::head;
    Deadline deadline{};
    std::string bytes{};  // received, or to be sent
    size_t done = 0;      // number of bytes sent
    size_t wanted = 0;    // length of the whole request
    bool is_over = false;
  };
  using Guests = std::list<Guest>;

  void run();
  void seat_newcomers();
  void make_room();
  /// Waits until a socket is ready or a deadline passes. False if no socket was ready.
  bool wait(std::vector<Guest*>& ready);
  void look_after(Guest& guest);
  void receive(Guest& guest);
  void take_head(Guest& guest, size_t from);
  void hand_over(Guest& guest);
  void refuse(Guest& guest, const std::string& status, const std::string& why);
  void send(Guest& guest);
  void say_farewell(Guest& guest);
  void expire(Guest& guest);
  void wake();

  std::function<void(Arrival)> answer_;
  Options options_;
  Guests guests_;  // in order of arrival; used by the thread only
  std::mutex mutex_;
  Guests newcomers_;
  std::mutex handing_over_;
  std::atomic<bool> is_closed_{false}, is_finishing_{false};
  std::atomic<int64_t> reserved_{0};
  int wake_;  // an eventfd
  std::thread thread_;
};

}  // namespace attend
