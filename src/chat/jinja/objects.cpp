#include "chat/jinja/objects.h"

#include <algorithm>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"

namespace attend::jinja {

const Value* Arguments::find(size_t place, std::string_view name) const {
  if (place < positional.size()) return &positional[place];
  const auto found = std::ranges::find_if(named, [&](const auto& argument) { return argument.first == name; });
  return found != named.end() ? &found->second : nullptr;
}
void Arguments::check(std::string_view function, size_t most, std::initializer_list<std::string_view> names) const {
  if (positional.size() > most) {
    fail(function, "() takes at most ", most, " arguments (", positional.size(), " given)");
  }
  for (const auto& [name, value] : named) {
    const auto found = std::ranges::find(names, std::string_view(name));
    if (found == names.end()) fail(function, "() got an unexpected keyword argument '", name, "'");
    const auto place = static_cast<size_t>(found - names.begin());
    if (names.size() == most && place < positional.size()) {
      fail(function, "() got multiple values for argument '", name, "'");
    }
  }
}

Value Object::call(Interpreter&, const Arguments&) { fail("'", type(), "' object is not callable"); }
std::optional<Value> Object::attribute(Interpreter&, std::string_view) { return std::nullopt; }

std::optional<Value> Iterator::next() {
  if (is_running_) fail("generator already executing");
  if (!next_) return std::nullopt;
  is_running_ = true;
  auto value = next_();
  is_running_ = false;
  if (!value) next_ = nullptr;
  return value;
}

Range::Range(int64_t start, int64_t stop, int64_t step) : start_(start), stop_(stop), step_(step), count_(0) {
  constexpr uint64_t kMost = 100000;  // as Jinja's sandbox
  if (step == 0) fail("range() arg 3 must not be zero");
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  if (is_empty) return;
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop),
             high = static_cast<uint64_t>(step > 0 ? stop : start);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  const uint64_t count = (high - low - 1) / stride + 1;
  if (count > kMost) fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMost, ").");
  count_ = static_cast<int64_t>(count);
}
std::string Range::print() const {
  const std::string bounds = "range(" + std::to_string(start_) + ", " + std::to_string(stop_);
  return bounds + (step_ == 1 ? ")" : ", " + std::to_string(step_) + ")");
}
std::shared_ptr<Range> Range::slice(int64_t first, int64_t step, int64_t count) const {
  int64_t stride = 0, stop = 0;
  const int64_t start = start_ + first * step_;
  if (__builtin_mul_overflow(step, step_, &stride) || __builtin_mul_overflow(stride, count, &stop) ||
      __builtin_add_overflow(stop, start, &stop)) {
    fail("integers beyond 64 bits are not supported");
  }
  return std::make_shared<Range>(start, stop, stride);
}

std::string DictView::type() const {
  return part_ == Part::keys ? "dict_keys" : part_ == Part::values ? "dict_values" : "dict_items";
}
std::optional<Value> DictView::item(int64_t index) const {
  const auto& [key, value] = dict_->members[static_cast<size_t>(index)];
  if (part_ != Part::items) return part_ == Part::keys ? key : value;
  auto pair = std::make_shared<Sequence>();
  pair->items = {key, value};
  pair->depth = depth_above(pair->items);
  return Value(Value::Tuple{std::move(pair)});
}

std::optional<Value> Namespace::attribute(Interpreter&, std::string_view name) {
  const Value* found = attributes.find(name);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

std::string Loop::print() const {
  return "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(*length()) + ">";
}
std::optional<Value> Loop::advance() {
  before_ = std::move(current_);
  current_ = peek();
  has_peeked_ = false;
  after_.reset();
  ++index_;
  return current_;
}
const std::optional<Value>& Loop::peek() {
  if (!has_peeked_) after_ = source_ ? source_() : std::nullopt;
  has_peeked_ = true;
  return after_;
}
int64_t Loop::count() {
  if (length_) return *length_;
  auto rest = std::make_shared<Values>();
  if (source_) {
    while (auto item = source_()) rest->push_back(std::move(*item));
  }
  length_ = index_ + 1 + (has_peeked_ && after_ ? 1 : 0) + static_cast<int64_t>(rest->size());
  source_ = [rest, at = size_t{0}]() mutable -> std::optional<Value> {
    return at < rest->size() ? std::optional((*rest)[at++]) : std::nullopt;
  };
  return *length_;
}
void Loop::finish() {
  source_ = nullptr;
  recurse = nullptr;
  after_.reset();
  current_.reset();
  before_.reset();
  last_changed_.reset();
}
Value Loop::changed(Interpreter& interpreter, const Values& values) {
  const bool is_same = last_changed_ && std::ranges::equal(*last_changed_, values, [&](const Value& a, const Value& b) {
                         return equal(a, b, interpreter.budget());
                       });
  if (!is_same) last_changed_ = values;
  return Value(!is_same);
}
Value Loop::call(Interpreter&, const Arguments& arguments) {
  if (!recurse) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("loop() takes one argument");
  return recurse(arguments.positional[0]);
}
std::optional<Value> Loop::attribute(Interpreter&, std::string_view name) {
  if (name == "index") return Value(index_ + 1);
  if (name == "index0") return Value(index_);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(!peek().has_value());
  if (name == "length") return Value(count());
  if (name == "revindex") return Value(count() - index_);
  if (name == "revindex0") return Value(count() - index_ - 1);
  if (name == "depth") return Value(int64_t{level_});
  if (name == "depth0") return Value(int64_t{level_ - 1});
  if (name == "previtem") return before_ ? *before_ : undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *peek() : undefined("there is no next item");
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  if (name == "cycle") {
    return make_object<Function>("cycle", [self](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty()) fail("no items for cycling given");
      return arguments.positional[static_cast<size_t>(self->index_) % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_object<Function>("changed", [self](Interpreter& interpreter, const Arguments& arguments) {
      return self->changed(interpreter, arguments.positional);
    });
  }
  return std::nullopt;
}

std::optional<Value> Cycler::attribute(Interpreter&, std::string_view name) {
  const auto self = std::static_pointer_cast<Cycler>(shared_from_this());
  if (name == "current") return items_[at_];
  if (name == "next") {
    return make_object<Function>(
        "next",
        [self](Interpreter&, const Arguments&) {
          return self->items_[std::exchange(self->at_, (self->at_ + 1) % self->items_.size())];
        },
        depth);
  }
  if (name == "reset") {
    return make_object<Function>(
        "reset",
        [self](Interpreter&, const Arguments&) {
          self->at_ = 0;
          return Value();
        },
        depth);
  }
  return std::nullopt;
}

Value Joiner::call(Interpreter&, const Arguments&) {
  return std::exchange(is_used_, true) ? separator_ : plain_text("");
}

}  // namespace attend::jinja
