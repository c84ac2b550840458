#include "serve/limited_server.h"

#include <string>

#include "serve/connection.h"

namespace attend {

/// The task queue given to httplib. It passes new sockets to the waiting room, and complete requests from there to a
/// pool of threads.
class LimitedServer::Reception final : public httplib::TaskQueue {
 public:
  Reception(LimitedServer& server, size_t threads, size_t largest_body)
      : server_(server),
        threads_(threads),
        room_(
            [this](Arrival request) {
              const auto shared = std::make_shared<Arrival>(std::move(request));
              threads_.enqueue([this, shared] { server_.answer(std::move(*shared), room_); });
            },
            {.largest_body = largest_body}) {}

  void enqueue(std::function<void()> pass_socket) override { pass_socket(); }
  void shutdown() override {
    room_.close();
    threads_.shutdown();
    room_.finish();
    server_.reception_ = nullptr;
  }
  WaitingRoom& room() { return room_; }

 private:
  LimitedServer& server_;
  httplib::ThreadPool threads_;
  WaitingRoom room_;
};

LimitedServer::LimitedServer(size_t threads, size_t largest_body) {
  set_payload_max_length(largest_body);
  new_task_queue = [this, threads, largest_body] {
    return reception_ = new Reception(*this, threads, largest_body);  // httplib deletes it
  };
}

void LimitedServer::lengthen_queue() { ::listen(svr_sock_, SOMAXCONN); }

bool LimitedServer::process_and_close_socket(socket_t socket) {
  reception_->room().enter(socket);
  return true;
}

void LimitedServer::answer(Arrival request, WaitingRoom& room) try {
  Connection connection(std::move(request), room, svr_sock_);
  bool is_closed = false;
  // httplib passes the bounds of a Range header to content providers unchecked, and would truncate the error response.
  process_request(connection, true, is_closed, [](httplib::Request& one) { one.ranges.clear(); });
} catch (const std::exception&) {  // out of memory, for example: end this connection, not the server
}

}  // namespace attend
