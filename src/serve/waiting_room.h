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

/// The time for one thing to be read or written: 5 seconds, and one more for each 128 KiB that has come or gone.
class Deadline {
 public:
  Deadline() : Deadline(std::chrono::seconds(5)) {}
  explicit Deadline(std::chrono::milliseconds patience) : end_(std::chrono::steady_clock::now() + patience) {}
  void moved(size_t bytes);
  std::chrono::milliseconds left() const;  ///< 0 or less: it has passed

 private:
  std::chrono::steady_clock::time_point end_;
};

/// A request that is there: its head, and its body as far as the head says how long that is.
struct Arrival {
  socket_t socket = INVALID_SOCKET;
  std::string bytes;
};

/// Connections that wait for the other side: for the rest of a request, for the rest of an answer to be taken, or to be
/// closed. One thread watches them all, so that slow ones keep no other request waiting. There are at most 512, with
/// 256 MiB of requests: beyond that the oldest end. A head has at most 32 KiB (431), a request that does not come in
/// time gets 408.
class WaitingRoom {
 public:
  struct Options {
    size_t largest_body = 0;   ///< longer ones are not waited for: their heads are reason to refuse them
    size_t most_guests = 512;  ///< connections
  };
  /// `answer` is called in the room's thread and must not block. It owns the socket, and gives it back by leave().
  WaitingRoom(std::function<void(Arrival)> answer, const Options& options);
  ~WaitingRoom();
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  void enter(socket_t socket);
  /// Sends the rest of an answer, then closes: after the other side had a second to take the answer and to close, too.
  void leave(socket_t socket, std::string rest);
  /// Whether that many more bytes of answers may be left to the room; if so, leave() them.
  bool reserve(size_t bytes);

  void close();   ///< takes no more requests: `answer` is not called afterwards
  void finish();  ///< close(), and what is being sent has a moment to be taken; then the thread ends

 private:
  enum class Phase { head, body, sending, leaving };
  struct Guest {
    socket_t socket = INVALID_SOCKET;
    Phase phase = Phase::head;
    Deadline deadline{};
    std::string bytes{};  // come, or to be sent
    size_t done = 0;      // of bytes that have been sent
    size_t wanted = 0;    // bytes of the whole request
    bool is_over = false;
  };
  using Guests = std::list<Guest>;

  void run();
  void seat_newcomers();
  void make_room();
  /// Waits until something can be done; false when nothing could for a glance.
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
  Guests guests_;  // in the order they came; of the thread alone
  std::mutex mutex_;
  Guests newcomers_;
  std::mutex handing_over_;
  std::atomic<bool> is_closed_{false}, is_finishing_{false};
  std::atomic<int64_t> reserved_{0};
  int wake_;  // an eventfd
  std::thread thread_;
};

}  // namespace attend
