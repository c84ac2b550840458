#include "cli/serving.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <thread>

#include "attend/chat/chat_template.h"
#include "attend/hub/sentence_transformers.h"
#include "cli/inspected.h"

namespace attend::cli {

ServingModel open_serving(const std::string& argument, const WeightOptions& weights, Device device) {
  const size_t equals = argument.find('=');
  const bool is_named = equals != std::string::npos && !std::filesystem::exists(argument);
  const std::string folder = is_named ? argument.substr(equals + 1) : argument;
  if (is_named && equals == 0) throw UsageError("expected NAME=FOLDER, got '" + argument + "'");
  // Field by field: in an initializer list, an exception of the second led to a double free (GCC 12).
  ServingModel result;
  result.inspected = open_inspected(folder, device, weights);
  result.training = TrainingFeed::from_log(folder);
  InspectedModel& inspected = result.inspected;
  if (is_named) inspected.name = argument.substr(0, equals);
  result.served = {.name = inspected.name,
                   .model = inspected.model,
                   .tokenizer = inspected.tokenizer,
                   .rules = inspected.rules,
                   .precision = weights.precision(device)};
  if (inspected.model->kind() == ModelKind::language && std::filesystem::is_directory(folder)) {
    if (auto chat = chat_template_of(folder)) {
      result.served.chat = std::make_shared<const ChatTemplate>(*std::move(chat));
    }
  }
  inspected.served_name = inspected.name;
  inspected.has_chat = result.served.chat != nullptr;
  if (std::filesystem::is_directory(folder) && is_sentence_folder(folder)) {
    const SentenceFolder sentence = read_sentence_folder(folder);
    result.served.sentence = sentence.settings;
    result.served.prompt = sentence.prompt;
  }
  return result;
}

void serve_until_signal(Server& server, ModelApi& models, const std::atomic<bool>& stop, const ServingLimits& limits) {
  constexpr auto kPatience = std::chrono::seconds(2);
  while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto requests = [&] {
    const int64_t count = server.running();
    return std::to_string(count) + (count == 1 ? " request" : " requests");
  };
  if (limits.drain_seconds > 0 && server.running() > 0) {
    std::cerr << "Waiting for " << requests() << ", at most " << limits.drain_seconds
              << (limits.drain_seconds == 1 ? " second" : " seconds") << "; press Ctrl-C again to end at once.\n";
  }
  if (!server.drain(std::chrono::seconds(limits.drain_seconds)) && limits.drain_seconds > 0) {
    std::cerr << "attend: stopped before " << requests() << " finished\n";
  }
  std::promise<void> ended;
  std::thread guard([kPatience, done = ended.get_future()] {
    if (done.wait_for(kPatience) == std::future_status::timeout) std::_Exit(0);
  });
  models.stop();  // answers the requests that are left: status 503, or an error at the end of a stream
  server.stop();
  ended.set_value();
  guard.join();
}

}  // namespace attend::cli
