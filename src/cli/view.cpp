#include "cli/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "cli/command_line.h"
#include "cli/inspected.h"
#include "cli/page.h"
#include "cli/serving.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/text_files.h"

namespace attend::cli {
namespace {

constexpr const char* kViewExamples = R"(
Examples:
  attend view date-model                             open the page in the browser, if there is a display
  attend view rnn transformer --text "A dog runs."   compare two models
  attend view vit-base --picture dog.jpg             an image classifier; drop other images on the page
  attend view en-de --port 9000 --no-open            serve the page at http://127.0.0.1:9000/

By default only this machine can reach the page. With --host, everyone who can reach that address can use the models.
Press Ctrl-C to stop the server.)";

struct ViewArguments {
  std::vector<std::string> models;
  std::string host = "127.0.0.1", text, picture;
  int64_t port = 8757;
  ComputeOptions compute;
  bool no_open = false;
  Option* port_option = nullptr;
};

bool reads_pictures(const InspectedModel& model) { return model.model->kind() == ModelKind::pictures; }

/// Sets the text or image that the page shows first.
void begin_with(InspectedModel& model, const ViewArguments& arguments) {
  if (reads_pictures(model)) {
    if (!arguments.picture.empty()) take_picture(model, arguments.picture);
  } else if (!arguments.text.empty()) {
    model.example = arguments.text;
    model.example_target.reset();
  }
}

/// Opens a browser at the address if there is a display.
void open_browser(const std::string& address) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  if (const pid_t child = fork(); child == 0) {
    setsid();
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, file);
    execlp("xdg-open", "xdg-open", address.c_str(), nullptr);
    _exit(127);
  }
}

void run_view(ViewArguments& arguments) {
  const Device device = use(arguments.compute);
  arguments.text = text_or_input(arguments.text);
  std::vector<InspectedModel> inspected;
  std::vector<ServedModel> served;
  std::vector<std::shared_ptr<TrainingFeed>> training;
  for (const std::string& path : arguments.models) {
    ServingModel model = open_serving(path, {}, device);
    begin_with(model.inspected, arguments);
    model.served.name += std::ranges::count(served, model.served.name, &ServedModel::name) > 0
                             ? "-" + std::to_string(served.size())
                             : "";
    model.inspected.served_name = model.served.name;
    inspected.push_back(std::move(model.inspected));
    served.push_back(std::move(model.served));
    training.push_back(std::move(model.training));
  }
  if (!arguments.picture.empty() && std::ranges::none_of(inspected, reads_pictures)) {
    throw UsageError("--picture applies only to image classifiers; none of the models is one");
  }
  Api api(std::move(inspected), {.version = ATTEND_VERSION, .page = packed_page()});
  for (size_t i = 0; i < training.size(); ++i) api.set_training(i, training[i]);
  const std::atomic<bool>& stop = stop_after_saving();  // until here, a signal ends the process
  ModelApi models(std::move(served), {.version = ATTEND_VERSION});
  Server server(&api, models,
                {.host = arguments.host,
                 .port = static_cast<int>(arguments.port),
                 .other_port = arguments.port_option->count() == 0});
  server.start();
  std::cout << server.address() << std::endl;
  std::cerr << "Press Ctrl-C to stop.\n";
  if (!arguments.no_open) open_browser(server.address());
  serve_until_signal(server, models, stop, {});
}

}  // namespace

void add_view(Command& app) {
  Command* command = app.add_subcommand("view", "Show in the browser what models attend to");
  const auto arguments = std::make_shared<ViewArguments>();
  command->add_option("models", arguments->models, "Model folders")->required()->type_name("MODEL");
  command->add_option("--text", arguments->text, "Text to show first; - is standard input")->type_name("TEXT");
  command
      ->add_option("--picture", arguments->picture,
                   "Image classifiers: image to show first, PNG or JPEG; - is standard input")
      ->type_name("FILE");
  arguments->port_option =
      command->add_option("--port", arguments->port, "Port; 0: any free port (default: 8757, or the next free port)")
          ->check(whole_number(0, 65535))
          ->type_name("N");
  command->add_option("--host", arguments->host, "Address to listen on (default: 127.0.0.1, this machine only)")
      ->type_name("ADDRESS");
  command->add_flag("--no-open", arguments->no_open, "Do not open a browser");
  add_compute_options(*command, arguments->compute);
  command->footer(kViewExamples);
  command->callback([arguments] { run_view(*arguments); });
}

}  // namespace attend::cli
