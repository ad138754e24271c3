#include "text/jinja/write.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace graft::jinja {
namespace {

void AppendHex(const char* prefix, uint32_t value, int digits, std::string* out) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), "%s%0*x", prefix, digits, value);
  *out += buffer;
}

// What the writers share: the text so far, and whether something untrusted is in it.
class Writer {
 public:
  Writer(Heap& heap, std::string* out) : heap_(heap), out_(*out) {}

  bool untrusted() const { return untrusted_; }

 protected:
  // Before each value: the limits on depth, work and size.
  Status Enter(int depth) const {
    if (depth > kValueDepthMax) {
      return InvalidArgumentError("a value nested deeper than " + std::to_string(kValueDepthMax) +
                                  " levels cannot be written");
    }
    if (!heap_.Charge(1)) return heap_.status();
    return heap_.Fits(static_cast<double>(out_.size()));
  }

  Status Put(std::string_view text) {
    out_ += text;
    return OkStatus();
  }

  void NoteOrigin(const Value& text) {
    untrusted_ = untrusted_ || heap_.origins().IsUntrusted(text.text(), text.origin());
  }

  Heap& heap_;
  std::string& out_;

 private:
  bool untrusted_ = false;
};

class ReprWriter : public Writer {
 public:
  using Writer::Writer;

  Status Write(const Value& value, int depth = 0) {
    RETURN_IF_ERROR(Enter(depth));
    switch (value.kind()) {
      case Kind::kUndefined:
        return Put("Undefined");
      case Kind::kNone:
        return Put("None");
      case Kind::kBool:
        return Put(value.boolean() ? "True" : "False");
      case Kind::kInt:
        return Put(std::to_string(value.integer()));
      case Kind::kFloat:
        return Put(FloatText(value.number()));
      case Kind::kString:
        heap_.ChargeBytes(value.text().size());
        NoteOrigin(value);
        return Put(QuoteText(value.text()));
      case Kind::kSequence:
        return WriteSequence(value.sequence(), depth);
      case Kind::kDict:
        return WriteDict(value.dict(), depth);
      case Kind::kNamespace:
        out_ += "<Namespace ";
        RETURN_IF_ERROR(WriteDict(value.dict(), depth));
        return Put(">");
      default:
        return NotWritable(value);
    }
  }

 private:
  static Status NotWritable(const Value& value) {
    return UnimplementedError("a value of type '" + std::string(TypeName(value)) +
                              "' cannot be printed" +
                              (value.kind() == Kind::kCallable ? "; is a call's () missing?" : ""));
  }

  Status WriteSequence(const Sequence& sequence, int depth) {
    const char* open = "[";
    const char* close = "]";
    if (sequence.flavor == Flavor::kIterator) {
      return UnimplementedError("a generator cannot be printed; add '| list'");
    }
    if (sequence.flavor == Flavor::kRange) {
      const auto& [start, stop, step] = sequence.bounds;
      out_ += "range(" + std::to_string(start) + ", " + std::to_string(stop);
      return Put(step == 1 ? ")" : ", " + std::to_string(step) + ")");
    }
    if (sequence.flavor == Flavor::kTuple) {
      open = "(";
      close = sequence.items.size() == 1 ? ",)" : ")";
    } else if (sequence.flavor == Flavor::kKeysView) {
      open = "dict_keys([";
      close = "])";
    } else if (sequence.flavor == Flavor::kItemsView) {
      open = "dict_items([";
      close = "])";
    } else if (sequence.flavor == Flavor::kValuesView) {
      open = "dict_values([";
      close = "])";
    }
    out_ += open;
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      RETURN_IF_ERROR(Write(sequence.items[i], depth + 1));
    }
    return Put(close);
  }

  Status WriteDict(const Dict& dict, int depth) {
    out_ += "{";
    const char* separator = "";
    for (const auto& [key, value] : dict.entries) {
      out_ += separator;
      separator = ", ";
      RETURN_IF_ERROR(Write(key, depth + 1));
      out_ += ": ";
      RETURN_IF_ERROR(Write(value, depth + 1));
    }
    return Put("}");
  }
};

class JsonWriter : public Writer {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style, std::string* out)
      : Writer(heap, out), style_(style) {}

  Status Write(const Value& value, int depth = 0) {
    RETURN_IF_ERROR(Enter(depth));
    switch (value.kind()) {
      case Kind::kNone:
        return Put("null");
      case Kind::kBool:
        return Put(value.boolean() ? "true" : "false");
      case Kind::kInt:
        return Put(std::to_string(value.integer()));
      case Kind::kFloat:
        return Put(Float(value.number()));
      case Kind::kString:
        heap_.ChargeBytes(value.text().size());
        return WriteString(value);
      case Kind::kSequence:
        if (value.sequence().flavor == Flavor::kList || value.sequence().flavor == Flavor::kTuple) {
          return WriteSequence(value.sequence(), depth);
        }
        break;
      case Kind::kDict:
        return WriteDict(value.dict(), depth);
      default:
        break;
    }
    return TypeError("a value of type '" + std::string(TypeName(value)) +
                     "' cannot be written as JSON" +
                     (value.is_undefined() ? ": " + UndefinedError(value).message() : ""));
  }

 private:
  Status WriteString(const Value& value) {
    NoteOrigin(value);
    return Put(JsonString(value.text(), style_.ensure_ascii));
  }

  static std::string Float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatText(value);
  }

  void NewLine(int depth) {
    if (!style_.has_indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += style_.indent;
  }

  Status WriteSequence(const Sequence& sequence, int depth) {
    if (sequence.items.empty()) return Put("[]");
    out_ += '[';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(depth + 1);
      RETURN_IF_ERROR(Write(sequence.items[i], depth + 1));
    }
    NewLine(depth);
    return Put("]");
  }

  Status WriteDict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return Put("{}");
    std::vector<std::pair<Value, Value>> entries = dict.entries;
    if (style_.sort_keys) RETURN_IF_ERROR(SortByKey(&entries));
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(depth + 1);
      RETURN_IF_ERROR(WriteKey(entries[i].first));
      out_ += style_.key_separator;
      RETURN_IF_ERROR(Write(entries[i].second, depth + 1));
    }
    NewLine(depth);
    return Put("}");
  }

  Status SortByKey(std::vector<std::pair<Value, Value>>* entries) {
    Status failure;
    std::stable_sort(entries->begin(), entries->end(), [&](const auto& a, const auto& b) {
      const Result<int> order = Compare(heap_, a.first, b.first);
      if (!order.ok()) failure = order.status();
      return order.ok() && *order < 0;
    });
    return failure;
  }

  Status WriteKey(const Value& key) {
    if (key.is_string()) return WriteString(key);
    std::string text;
    JsonWriter writer(heap_, style_, &text);
    RETURN_IF_ERROR(writer.Write(key));
    return Put('"' + text + '"');
  }

  const JsonStyle& style_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // The shortest digits, always as d.ddde+xx; Python places the point by the exponent.
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed_end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string fixed(buffer, fixed_end.ptr);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string QuoteText(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, &pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out += text.substr(begin, pos - begin);
    } else if (c < 0x100) {
      AppendHex("\\x", c, 2, &out);
    } else if (c < 0x10000) {
      AppendHex("\\u", c, 4, &out);
    } else {
      AppendHex("\\U", c, 8, &out);
    }
  }
  out += quote;
  return out;
}

namespace {

Value Written(Heap& heap, std::string text, bool untrusted) {
  const Value value = heap.TemplateText(std::move(text));
  return untrusted ? Value::String(value.text(), heap.origins().Mark(value.text())) : value;
}

}  // namespace

Result<Value> ToText(Heap& heap, const Value& value) {
  if (value.is_string()) return value;
  if (value.is_undefined()) return Value::String("");
  return ToRepr(heap, value);
}

Result<Value> ToRepr(Heap& heap, const Value& value) {
  std::string out;
  ReprWriter writer(heap, &out);
  RETURN_IF_ERROR(writer.Write(value));
  return Written(heap, std::move(out), writer.untrusted());
}

Result<Value> ToJson(Heap& heap, const Value& value, const JsonStyle& style) {
  std::string out;
  JsonWriter writer(heap, style, &out);
  RETURN_IF_ERROR(writer.Write(value));
  return Written(heap, std::move(out), writer.untrusted());
}

}  // namespace graft::jinja
