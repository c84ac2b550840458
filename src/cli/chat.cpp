#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/chat/chat_template.h"
#include "attend/io/files.h"
#include "cli/chat_session.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_folder.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/turn_reader.h"

namespace attend::cli {
namespace {

constexpr const char* kChatExamples = R"(
Examples:
  attend chat Qwen2.5-0.5B-Instruct
  attend chat Qwen2.5-0.5B-Instruct --system "Answer in one sentence." --temperature 0.7 --top-p 0.9
  attend chat novel --template chat.jinja --stop "User:"
  printf 'What is attention?\nAnd self-attention?\n' | attend chat Qwen2.5-0.5B-Instruct --json

Talks with a language model through the chat template of its folder. Answers are printed word by word. A line that ends
with a backslash continues on the next line; """ begins and ends a text of several lines, and a pasted text is one
message. Ctrl-C empties the line or ends an answer; Ctrl-D, or Ctrl-C twice, quits. /help lists the commands inside a
chat. If standard input is a pipe or a file, each line is one turn of the same conversation, and only the answers are
printed. As in transformers, the names of special tokens in a message become these tokens.)";

constexpr const char* kCommands = R"(/reset         start a new conversation; the system prompt stays
/system TEXT   set the system prompt; without TEXT, print it; /system none removes it
/save FILE     write the conversation to a new file, or to its own file, as a JSON list of messages
/save! FILE    the same, and replace any other file
/load FILE     continue the conversation of such a file
/help          print this list
/quit          quit, as Ctrl-D does
//text         send a message that begins with a slash
A line that ends with \ continues on the next line; Alt-Enter also begins one. """ begins and ends a text of several
lines. A pasted text of several lines is one message. Up and Down bring back what you entered before.
Ctrl-C empties the line, or ends an answer.
)";

constexpr int64_t kLargestConversation = int64_t{1} << 28;

struct ChatArguments {
  CommonOptions common;
  CacheOptions cache;
  DraftOptions draft;
  GenerateOptions options{.sampling = {.temperature = 0.8}};
  std::string system, template_file;
  std::vector<std::string> variables;
  bool greedy = false;
  std::function<bool()> is_sampling_given;
  Option* penalty_option = nullptr;
};

/// NAME=VALUE options as an object. A value is JSON, or else text.
Json variables_of(const std::vector<std::string>& options) {
  Json result = Json::object();
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--set: expected NAME=VALUE, got '" + option + "'");
    const std::string value = option.substr(equals + 1);
    Json& variable = result[option.substr(0, equals)];
    try {
      variable = Json::parse(value);
    } catch (const JsonParseError&) {
      variable = value;
    }
  }
  return result;
}

std::string without_spaces(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

class ChatCommand {
 public:
  ChatCommand(ChatSession session, bool is_json) : session_(std::move(session)), is_json_(is_json) {}

  void run() {
    if (reader_.is_interactive()) interrupt_by_flag();
    Turn turn;
    int interrupts = 0;  // Ctrl-C in a row, without a text
    while (true) {
      const TurnReader::Event event = reader_.next(turn);
      if (event == TurnReader::Event::end) break;
      if (event == TurnReader::Event::interrupted) {
        if (++interrupts > 1) break;
        std::cerr << "\n(Press Ctrl-C again, or Ctrl-D, to quit.)\n";
        continue;
      }
      interrupts = 0;
      if (event == TurnReader::Event::emptied || without_spaces(turn.text).empty()) continue;
      if (!take(turn)) return;
      if (take_interrupt()) interrupts = 1;
    }
    if (reader_.is_interactive()) std::cerr << '\n';
  }

 private:
  /// Handles a turn; false ends the program. On a terminal, errors are printed and the conversation continues.
  bool take(const Turn& turn) {
    const bool has_slash = !turn.is_pasted && turn.text.starts_with('/');
    const bool is_message = !has_slash || turn.text.starts_with("//");
    try {
      if (!is_message) return command(turn.text);
      ask(has_slash ? turn.text.substr(1) : turn.text);
    } catch (const Error& error) {
      if (!reader_.is_interactive()) throw;
      const char* hint = is_message && reader_.can_edit() ? " (Up brings the message back)" : "";
      std::cerr << "attend: " << error.what() << hint << '\n';
    }
    return true;
  }

  bool command(const std::string& turn) {
    const size_t space = turn.find(' ');
    const std::string name = turn.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : without_spaces(turn.substr(space));
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/help") {
      std::cerr << kCommands;
    } else if (name == "/reset") {
      session_.reset();
      file_.clear();
      tell("New conversation.");
    } else if (name == "/system") {
      set_system(rest);
    } else if (name == "/save" || name == "/save!" || name == "/load") {
      require<Error>(!rest.empty(), name, " needs the name of a file");
      name == "/load" ? load(rest) : save(rest, name == "/save!");
    } else {
      throw_error<Error>("unknown command ", name, "; /help lists the commands, //", name.substr(1), " sends the text");
    }
    return true;
  }

  void set_system(const std::string& text) {
    if (text.empty()) return tell(session_.system().empty() ? "There is no system prompt." : session_.system());
    session_.set_system(text == "none" ? "" : text);
    tell(text == "none" ? "System prompt removed." : "System prompt set.");
  }
  void save(const std::string& path, bool may_replace) {
    const bool is_free = !std::filesystem::exists(std::filesystem::symlink_status(path));
    require<Error>(is_free || may_replace || is_own_file(path), path, " already exists; /save! ", path, " replaces it");
    write_file(path, session_.messages().dump(1) + "\n");
    file_ = path;
    tell(std::to_string(session_.messages().size()) + " messages saved to " + path);
  }
  void load(const std::string& path) {
    const std::string text = read_file(path, kLargestConversation);
    try {
      session_.set_messages(Json::parse(text));
    } catch (const FormatError& error) {
      throw_error<FormatError>(path, ": ", error.what());
    }
    file_ = path;
    tell(std::to_string(session_.messages().size()) + " messages loaded from " + path);
  }
  /// Whether this conversation was saved to the file before, or came from it.
  bool is_own_file(const std::string& path) const {
    std::error_code fault;  // a file that is gone is not its own
    return !file_.empty() && std::filesystem::equivalent(path, file_, fault);
  }

  void ask(const std::string& question) {
    bool ends_line = true;
    const ChatSession::Answer answer = session_.ask(question, [&](const TextPiece& piece) {
      if (!is_json_ && !piece.text.empty()) {
        const std::string text(piece.text);
        std::cout << (is_terminal_ ? without_controls(text) : text) << std::flush;
        ends_line = text.ends_with('\n');
      }
      require<Error>(std::cout.good(), "cannot write the output");
      return !is_interrupted();
    });
    const GeneratedText& generated = answer.generated;
    if (is_json_) {
      std::cout << json_line({{"role", "assistant"},
                              {"content", generated.text},
                              {"prompt_tokens", generated.prompt_tokens},
                              {"tokens", generated.ids.size()},
                              {"ending", name_of(generated.ending)}})
                << std::endl;
    } else if (!ends_line || generated.text.empty() || !is_terminal_) {
      std::cout << std::endl;
    }
    if (answer.is_context_full) {
      std::cerr << "attend: the context is full, so that the answer is cut. /save FILE keeps the conversation, /reset "
                   "starts a new one.\n";
    }
  }

  /// A message to a person at a terminal.
  void tell(const std::string& message) const {
    if (reader_.is_interactive()) std::cerr << message << '\n';
  }

  ChatSession session_;
  std::string file_;  ///< with this conversation, or ""
  bool is_json_, is_terminal_ = isatty(STDOUT_FILENO) == 1;
  TurnReader reader_;
};

/// Options take precedence over the folder's generation rules.
GenerateOptions options_of(const ChatArguments& arguments, const GenerationRules& rules) {
  GenerateOptions options = arguments.options;
  options.rules = rules;
  if (arguments.penalty_option->count() > 0)
    options.rules.repetition_penalty = 1;  // sampling applies the option's value
  if (arguments.greedy) options.sampling.temperature = 0;
  return options;
}

ChatTemplate template_of(const ChatArguments& arguments, const ModelFolder& folder) {
  if (!arguments.template_file.empty()) return read_chat_template(arguments.template_file, folder.path);
  auto found = chat_template_of(folder.path);
  require<FormatError>(found.has_value(), folder.path,
                       ": this model has no chat template; --template FILE gives one, and attend generate continues "
                       "texts without one");
  return std::move(*found);
}

void run_chat(ChatArguments& arguments) {
  const Device device = use(arguments.common.compute);
  arguments.options.draft_tokens = arguments.draft.tokens(device);
  arguments.options.cache_type = arguments.cache.dtype();
  if (arguments.greedy && arguments.is_sampling_given()) {
    throw UsageError("--greedy cannot be combined with --temperature and other sampling options");
  }
  const Json variables = variables_of(arguments.variables);
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  const LanguageModel& model = language_model(folder);
  check_cache(folder, arguments.cache);
  const ChatTemplate chat = template_of(arguments, folder);
  warn_unfollowed(folder);
  ChatCommand command(ChatSession({.model = model,
                                   .tokenizer = *folder.tokenizer,
                                   .chat = chat,
                                   .options = options_of(arguments, folder.rules),
                                   .variables = variables},
                                  arguments.system),
                      arguments.common.json);
  if (isatty(STDIN_FILENO) == 1) {
    std::cerr << "Chat with " << arguments.common.model << ". /help lists the commands; Ctrl-D quits.\n";
  }
  command.run();
}

}  // namespace

void add_chat(Command& app) {
  Command* command = app.add_subcommand("chat", "Talk with a language model in the terminal");
  const auto arguments = std::make_shared<ChatArguments>();
  GenerateOptions& options = arguments->options;
  add_model_options(*command, arguments->common);
  command->get_option("--json")->description("Print each answer as one JSON object per line");
  command->add_option("--system", arguments->system, "System prompt (default: none)")->type_name("TEXT");
  command
      ->add_option("--template", arguments->template_file,
                   "File with a chat template in Jinja (default: the template of the model's folder)")
      ->type_name("FILE");
  command
      ->add_option("--set", arguments->variables,
                   "Variable of the template, such as enable_thinking=false; may be given several times")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--tokens", options.tokens,
                   "Maximum number of tokens per answer (default: the model's generation settings, else the context)")
      ->check(whole_number(1, 100000000))
      ->type_name("N");
  command->add_flag("--greedy", arguments->greedy, "Always choose the likeliest token");
  arguments->is_sampling_given = add_sampling_options(*command, options.sampling);
  arguments->penalty_option = command->get_option("--repetition-penalty");
  command->get_option("--temperature")
      ->description("Sampling temperature: below 1 safer, above 1 more varied (default: 0.8)");
  command->add_option("--stop", options.stop, "End an answer before TEXT; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  add_cache_type(*command, arguments->cache);
  add_draft(*command, arguments->draft);
  command->footer(kChatExamples);
  command->callback([arguments] { run_chat(*arguments); });
}

}  // namespace attend::cli
