#include "text/decoder.h"

#include <charconv>
#include <utility>

#include "text/byte_level.h"
#include "text/json_field.h"

namespace graft {
namespace {

constexpr const char* kSupportedDecoders =
    "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, Sequence";
constexpr const char* kMetaspaceCharacter = "\xE2\x96\x81";  // U+2581

// The byte of "<0xNN>".
std::optional<char> ByteOfToken(std::string_view token) {
  const bool framed = token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
  if (!framed) return std::nullopt;
  unsigned byte = 0;
  const char* end = token.data() + 5;
  const auto [stopped, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string ReplaceCharacter(std::string_view text, std::string_view from, std::string_view to) {
  // A plain pattern cannot fail.
  return *Pattern::OfString(std::string(from)).ReplaceAll(text, to);
}

}  // namespace

Result<Decoder> Decoder::Parse(const Json& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.Add({.kind = Kind::kJoinBySpace});
  } else {
    RETURN_IF_ERROR(decoder.AddSteps(json));
  }
  return decoder;
}

Decoder Decoder::Metaspace(bool strips_first_space) {
  Decoder decoder;
  decoder.Add(
      {.kind = Kind::kReplace, .pattern = Pattern::OfString(kMetaspaceCharacter), .content = " "});
  decoder.Add({.kind = Kind::kByteFallback});
  decoder.Add({.kind = Kind::kFuse});
  if (strips_first_space) decoder.Add({.kind = Kind::kStrip, .content = " ", .start = 1});
  return decoder;
}

void Decoder::Add(Step step) {
  step.fused = fused_;
  fused_ = fused_ || step.kind == Kind::kFuse || step.kind == Kind::kByteLevel;
  steps_.push_back(std::move(step));
}

Status Decoder::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "decoder"));
  if (type == "Sequence") {
    const auto list = json.find("decoders");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgumentError("decoder Sequence has no list 'decoders'");
    }
    for (const Json& member : *list) RETURN_IF_ERROR(AddSteps(member));
    return OkStatus();
  }
  Result<Step> step = ParseStep(json, type);
  if (!step.ok()) return step.status().WithContext("decoder " + type);
  Add(*std::move(step));
  return OkStatus();
}

Result<Decoder::Step> Decoder::ParseStep(const Json& json, const std::string& type) const {
  // After Fuse a token comes in pieces, and these would have to be joined again.
  const Status after_fuse = UnimplementedError("is not supported after Fuse or ByteLevel");
  if (type == "ByteLevel") {
    if (fused_) return after_fuse;
    return Step{.kind = Kind::kByteLevel};
  }
  if (type == "ByteFallback") {
    if (fused_) return after_fuse;
    return Step{.kind = Kind::kByteFallback};
  }
  if (type == "Fuse") return Step{.kind = Kind::kFuse};
  if (type == "Strip") return ParseStrip(json);
  if (type == "Metaspace") return ParseMetaspace(json);
  if (type == "Replace") {
    Step step{.kind = Kind::kReplace};
    ASSIGN_OR_RETURN(step.content, StringField(json, "content", ""));
    ASSIGN_OR_RETURN(step.pattern, Pattern::Parse(json.value("pattern", Json())));
    const bool one_code_point = step.pattern->plain() && IsOneCodePoint(*step.pattern->plain());
    if (fused_ && !one_code_point) return after_fuse;
    return step;
  }
  return UnsupportedComponent("decoder", type, kSupportedDecoders);
}

Result<Decoder::Step> Decoder::ParseStrip(const Json& json) {
  Step step{.kind = Kind::kStrip};
  ASSIGN_OR_RETURN(step.content, StringField(json, "content", " "));
  ASSIGN_OR_RETURN(step.start, IntField(json, "start", 0));
  ASSIGN_OR_RETURN(step.stop, IntField(json, "stop", 0));
  if (!IsOneCodePoint(step.content)) {
    return InvalidArgumentError("field 'content' must be one character");
  }
  if (step.start < 0 || step.stop < 0) return InvalidArgumentError("negative 'start' or 'stop'");
  return step;
}

Result<Decoder::Step> Decoder::ParseMetaspace(const Json& json) {
  Step step{.kind = Kind::kMetaspace};
  ASSIGN_OR_RETURN(step.content, StringField(json, "replacement", kMetaspaceCharacter));
  if (!IsOneCodePoint(step.content)) {
    return InvalidArgumentError("field 'replacement' must be one character");
  }
  ASSIGN_OR_RETURN(const std::string scheme, StringField(json, "prepend_scheme", "always"));
  ASSIGN_OR_RETURN(const bool add_prefix_space, BoolField(json, "add_prefix_space", true));
  step.strips_first = add_prefix_space && scheme != "never";
  return step;
}

std::string Decoder::TokenBytes(std::string_view token) const {
  std::string bytes(token);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kByteLevel) {
      bytes = BytesOfByteLevel(bytes);
    } else if (step.kind == Kind::kByteFallback) {
      const std::optional<char> byte = ByteOfToken(bytes);
      if (byte.has_value()) return std::string(1, *byte);
    } else if (step.kind == Kind::kReplace) {
      Result<std::string> replaced = step.pattern->ReplaceAll(bytes, step.content);
      if (replaced.ok()) bytes = *std::move(replaced);
    } else if (step.kind == Kind::kMetaspace) {
      bytes = ReplaceCharacter(bytes, step.content, " ");
    }
  }
  return bytes;
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.steps_.size()) {}

void DecodeStream::Push(std::string_view token, std::string* out) {
  Feed(0, std::string(token), out);
}

void DecodeStream::Feed(size_t step_idx, std::string token, std::string* out) {
  using Kind = Decoder::Kind;
  if (step_idx == states_.size()) {
    out->append(token);
    return;
  }
  const Decoder::Step& step = decoder_->steps_[step_idx];
  State& state = states_[step_idx];
  const bool first = !state.started;
  state.started = true;
  switch (step.kind) {
    case Kind::kByteLevel: {
      std::string text;
      state.utf8.Push(BytesOfByteLevel(token), &text);
      return Feed(step_idx + 1, std::move(text), out);
    }
    case Kind::kByteFallback: {
      const std::optional<char> byte = ByteOfToken(token);
      if (byte.has_value()) {
        state.held.push_back(*byte);
        return;
      }
      FlushByteRun(step_idx, out);
      return Feed(step_idx + 1, std::move(token), out);
    }
    case Kind::kFuse:
      return Feed(step_idx + 1, std::move(token), out);
    case Kind::kStrip:
      return FeedStrip(step_idx, std::move(token), out);
    case Kind::kReplace: {
      Result<std::string> replaced = step.pattern->ReplaceAll(token, step.content);
      return Feed(step_idx + 1, replaced.ok() ? *std::move(replaced) : std::move(token), out);
    }
    case Kind::kMetaspace: {
      const bool strips = step.strips_first && (first || step.fused);
      return Feed(step_idx + 1, ReplaceCharacter(token, step.content, strips ? "" : " "), out);
    }
    case Kind::kJoinBySpace:
      return Feed(step_idx + 1, first ? std::move(token) : std::string(1, ' ').append(token), out);
  }
}

// A run of byte tokens is text as a whole or not at all: one broken sequence makes every byte of
// the run a U+FFFD, so that nothing of a run can be passed on before its end.
void DecodeStream::FlushByteRun(size_t step_idx, std::string* out) {
  const std::string run = std::exchange(states_[step_idx].held, {});
  if (run.empty()) return;
  if (IsValidUtf8(run)) return Feed(step_idx + 1, run, out);
  for (size_t i = 0; i < run.size(); ++i) {
    Feed(step_idx + 1, std::string(kReplacementCharacter), out);
  }
}

void DecodeStream::EndByteRun(std::string* out) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (decoder_->steps_[i].kind == Decoder::Kind::kByteFallback) FlushByteRun(i, out);
  }
}

void DecodeStream::FeedStrip(size_t step_idx, std::string token, std::string* out) {
  const Decoder::Step& step = decoder_->steps_[step_idx];
  State& state = states_[step_idx];
  if (!step.fused) state.stripped = 0;
  std::string text = StripStart(step, &state, state.held + token);
  state.held.clear();
  // What stands at the end and may go: held back where the token goes on, dropped where it does
  // not.
  size_t end = text.size();
  for (int64_t i = 0; i < step.stop && text.substr(0, end).ends_with(step.content); ++i) {
    end -= step.content.size();
  }
  if (step.fused) state.held = text.substr(end);
  text.resize(end);
  Feed(step_idx + 1, std::move(text), out);
}

// Takes off what the token, or the pieces of it so far, may still lose at its start.
std::string DecodeStream::StripStart(const Decoder::Step& step, State* state,
                                     std::string token) const {
  size_t begin = 0;
  while (state->stripped < step.start && begin < token.size()) {
    if (!std::string_view(token).substr(begin).starts_with(step.content)) {
      state->stripped = step.start;
      break;
    }
    begin += step.content.size();
    ++state->stripped;
  }
  return token.substr(begin);
}

void DecodeStream::Flush(std::string* out) {
  for (size_t i = 0; i < states_.size(); ++i) {
    const Decoder::Kind kind = decoder_->steps_[i].kind;
    if (kind == Decoder::Kind::kByteLevel) {
      std::string text;
      states_[i].utf8.Flush(&text);
      Feed(i + 1, std::move(text), out);
    } else if (kind == Decoder::Kind::kByteFallback) {
      FlushByteRun(i, out);
    }
    states_[i] = State();
  }
}

}  // namespace graft
