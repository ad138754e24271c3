#include "adapters/tensor_pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace graft {
namespace {

static_assert(std::endian::native == std::endian::little, "pickles are little endian");

// What torch.save writes with protocol 2; the numbers are those of Lib/pickletools.py.
enum Opcode : uint8_t {
  kProto = 0x80,
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kMark = '(',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kBinUnicode = 'X',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kNone = 'N',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kGlobal = 'c',
  kBinPersId = 'Q',
  kReduce = 'R',
  kSetItem = 's',
  kSetItems = 'u',
  kAppend = 'a',
  kAppends = 'e',
  kBuild = 'b',
  kStop = '.',
};

struct StorageType {
  std::string_view name;
  std::string_view dtype;
  int64_t element_bytes;
};
constexpr size_t kNameBytesMax = 1024;

constexpr std::array<StorageType, 10> kStorageTypes = {{{"FloatStorage", "F32", 4},
                                                        {"HalfStorage", "F16", 2},
                                                        {"BFloat16Storage", "BF16", 2},
                                                        {"DoubleStorage", "F64", 8},
                                                        {"LongStorage", "I64", 8},
                                                        {"IntStorage", "I32", 4},
                                                        {"ShortStorage", "I16", 2},
                                                        {"CharStorage", "I8", 1},
                                                        {"ByteStorage", "U8", 1},
                                                        {"BoolStorage", "BOOL", 1}}};

// What a pickle may name, and what is made of it.
enum class Known : uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kStorageType };

// A value on the machine's stack. Those that hold others are numbers of its lists, so that a copy
// costs nothing and each is there once.
struct PickleValue {
  enum class Kind : uint8_t {
    kNothing,
    kBool,
    kInteger,
    kText,
    kMark,
    kTuple,
    kList,
    kDict,
    kKnown,
    kStorage,
    kTensor
  };
  Kind kind = Kind::kNothing;
  Known known = Known::kOrderedDict;
  int64_t number = 0;     // of an integer; else which list, tensor or StorageType
  std::string_view text;  // of a text; of a storage its key
  int64_t size = 0;       // of a storage
};
using PickleKind = PickleValue::Kind;

Status BadPickle(std::string_view what) {
  return InvalidArgumentError("its pickle makes no sense: " + std::string(what));
}

// A name of the file in an error, which stays readable.
std::string ShownText(std::string_view text) {
  constexpr size_t kShownMax = 80;
  std::string shown;
  for (const char c : text.substr(0, kShownMax)) shown += c < ' ' || c == 0x7F ? '?' : c;
  return text.size() > kShownMax ? shown + "..." : shown;
}

class TensorPickle {
 public:
  explicit TensorPickle(std::string_view pickle) : rest_(pickle) {}

  Result<std::vector<PickledTensor>> Run() {
    if (rest_.size() > static_cast<size_t>(kPickleBytesMax)) {
      return InvalidArgumentError("its pickle has more than " + std::to_string(kPickleBytesMax) +
                                  " bytes");
    }
    for (int64_t step = 0; step < kPickleStepsMax; ++step) {
      ASSIGN_OR_RETURN(const auto opcode, Take<uint8_t>());
      if (opcode == kStop) return TensorsOfRoot();
      RETURN_IF_ERROR(Do(opcode));
    }
    return InvalidArgumentError("its pickle has more than " + std::to_string(kPickleStepsMax) +
                                " steps");
  }

 private:
  template <typename T>
  Result<T> Take() {
    if (rest_.size() < sizeof(T)) return BadPickle("it ends early");
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  Result<std::string_view> TakeBytes(size_t count) {
    if (rest_.size() < count) return BadPickle("it ends early");
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  Result<std::string_view> TakeLine() {
    const size_t end = rest_.find('\n');
    if (end == rest_.npos) return BadPickle("it ends early");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  Result<PickleValue> Pop() {
    if (stack_.empty()) return BadPickle("it takes from an empty stack");
    const PickleValue top = stack_.back();
    stack_.pop_back();
    return top;
  }
  // Everything above the last mark, which goes, too.
  Result<std::vector<PickleValue>> PopToMark() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), [](const PickleValue& value) {
      return value.kind == PickleKind::kMark;
    });
    if (mark == stack_.rend()) return BadPickle("it lacks a mark");
    std::vector<PickleValue> above(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return above;
  }
  Result<PickleValue*> Top() {
    if (stack_.empty()) return BadPickle("it looks at an empty stack");
    return &stack_.back();
  }

  Status Push(PickleValue value) {
    stack_.push_back(value);
    return OkStatus();
  }
  Status PushInteger(int64_t number) {
    return Push({.kind = PickleKind::kInteger, .number = number});
  }
  Status PushList(PickleKind kind, std::vector<PickleValue> values = {}) {
    lists_.push_back(std::move(values));
    return Push({.kind = kind, .number = static_cast<int64_t>(lists_.size()) - 1});
  }
  const std::vector<PickleValue>& ListOf(const PickleValue& value) const {
    return lists_[static_cast<size_t>(value.number)];
  }

  Status Do(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        return DoProto();
      case kEmptyDict:
        return PushList(PickleKind::kDict);
      case kEmptyList:
        return PushList(PickleKind::kList);
      case kEmptyTuple:
        return PushList(PickleKind::kTuple);
      case kMark:
        return Push({.kind = PickleKind::kMark});
      case kNewTrue:
      case kNewFalse:
        return Push({.kind = PickleKind::kBool, .number = opcode == kNewTrue});
      case kNone:
        return Push({});
      case kTuple:
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return DoTuple(opcode);
      case kBinUnicode:
      case kBinInt:
      case kBinInt1:
      case kBinInt2:
      case kLong1:
        return DoScalar(opcode);
      case kBinPut:
      case kLongBinPut:
      case kBinGet:
      case kLongBinGet:
        return DoMemo(opcode);
      case kGlobal:
        return DoGlobal();
      case kBinPersId:
        return DoStorage();
      case kReduce:
        return DoReduce();
      case kSetItem:
      case kSetItems:
        return DoSet(opcode == kSetItems);
      case kAppend:
      case kAppends:
        return DoAppend(opcode == kAppends);
      case kBuild:
        return DoBuild();
      default:
        return UnimplementedError("its pickle has the step " + std::to_string(opcode) +
                                  ", which a file of tensors alone does not need");
    }
  }

  Status DoProto() {
    ASSIGN_OR_RETURN(const auto protocol, Take<uint8_t>());
    if (protocol == 2) return OkStatus();
    return UnimplementedError("its pickle has protocol " + std::to_string(protocol) +
                              ", torch.save's is 2");
  }

  Status DoTuple(uint8_t opcode) {
    if (opcode == kTuple) {
      ASSIGN_OR_RETURN(std::vector<PickleValue> values, PopToMark());
      return PushList(PickleKind::kTuple, std::move(values));
    }
    const auto count = static_cast<size_t>(opcode - kTuple1 + 1);
    if (stack_.size() < count) return BadPickle("it takes from an empty stack");
    std::vector<PickleValue> values(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                    stack_.end());
    stack_.resize(stack_.size() - count);
    return PushList(PickleKind::kTuple, std::move(values));
  }

  Status DoScalar(uint8_t opcode) {
    if (opcode == kBinInt) {
      ASSIGN_OR_RETURN(const auto number, Take<int32_t>());
      return PushInteger(number);
    }
    if (opcode == kBinInt1) {
      ASSIGN_OR_RETURN(const auto number, Take<uint8_t>());
      return PushInteger(number);
    }
    if (opcode == kBinInt2) {
      ASSIGN_OR_RETURN(const auto number, Take<uint16_t>());
      return PushInteger(number);
    }
    if (opcode == kLong1) return DoLong();
    ASSIGN_OR_RETURN(const auto length, Take<uint32_t>());
    ASSIGN_OR_RETURN(const std::string_view text, TakeBytes(length));
    return Push({.kind = PickleKind::kText, .text = text});
  }

  // Two's complement of as many bytes as it needs.
  Status DoLong() {
    ASSIGN_OR_RETURN(const auto length, Take<uint8_t>());
    ASSIGN_OR_RETURN(const std::string_view bytes, TakeBytes(length));
    if (length > sizeof(int64_t)) return BadPickle("a number past 63 bits");
    uint64_t number = 0;
    for (size_t i = 0; i < length; ++i) {
      number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    const bool is_negative = length > 0 && (bytes[length - 1] & 0x80) != 0;
    if (is_negative && length < sizeof(int64_t)) number |= ~uint64_t{0} << (8 * length);
    return PushInteger(static_cast<int64_t>(number));
  }

  Status DoMemo(uint8_t opcode) {
    const bool is_long = opcode == kLongBinPut || opcode == kLongBinGet;
    uint32_t key = 0;
    if (is_long) {
      ASSIGN_OR_RETURN(key, Take<uint32_t>());
    } else {
      ASSIGN_OR_RETURN(key, Take<uint8_t>());
    }
    if (opcode == kBinPut || opcode == kLongBinPut) {
      ASSIGN_OR_RETURN(const PickleValue* const top, Top());
      if (top->kind == PickleKind::kMark) return BadPickle("it keeps a mark");
      memo_[key] = *top;
      return OkStatus();
    }
    const auto found = memo_.find(key);
    if (found == memo_.end()) return BadPickle("it asks for what it did not keep");
    return Push(found->second);
  }

  Status DoGlobal() {
    ASSIGN_OR_RETURN(const std::string_view module, TakeLine());
    ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
    const auto known = [this](Known what, int64_t number = 0) {
      return Push({.kind = PickleKind::kKnown, .known = what, .number = number});
    };
    if (module == "collections" && name == "OrderedDict") return known(Known::kOrderedDict);
    if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
      return known(Known::kRebuildTensor);
    }
    if (module == "torch._utils" && name == "_rebuild_parameter") {
      return known(Known::kRebuildParameter);
    }
    const auto type = std::ranges::find(kStorageTypes, name, &StorageType::name);
    if (module == "torch" && type != kStorageTypes.end()) {
      return known(Known::kStorageType, type - kStorageTypes.begin());
    }
    return UnimplementedError("its pickle names " + ShownText(module) + "." + ShownText(name) +
                              ", which is no tensor: nothing of it was run. Save the adapter again "
                              "with safe_serialization=True");
  }

  // ('storage', type, key, location, number of elements)
  Status DoStorage() {
    ASSIGN_OR_RETURN(const PickleValue id, Pop());
    if (id.kind != PickleKind::kTuple) return BadPickle("a storage that is no tuple");
    const std::vector<PickleValue>& parts = ListOf(id);
    const bool is_storage = parts.size() == 5 && parts[0].kind == PickleKind::kText &&
                            parts[0].text == "storage" && parts[1].kind == PickleKind::kKnown &&
                            parts[1].known == Known::kStorageType &&
                            parts[2].kind == PickleKind::kText &&
                            parts[4].kind == PickleKind::kInteger && parts[4].number >= 0;
    if (!is_storage) return BadPickle("a storage of another form than torch's");
    return Push({.kind = PickleKind::kStorage,
                 .number = parts[1].number,
                 .text = parts[2].text,
                 .size = parts[4].number});
  }

  Status DoReduce() {
    ASSIGN_OR_RETURN(const PickleValue arguments, Pop());
    ASSIGN_OR_RETURN(const PickleValue function, Pop());
    if (function.kind != PickleKind::kKnown || arguments.kind != PickleKind::kTuple) {
      return BadPickle("it calls what is no function");
    }
    const std::vector<PickleValue>& values = ListOf(arguments);
    switch (function.known) {
      case Known::kOrderedDict:
        if (!values.empty()) return BadPickle("a dictionary with arguments");
        return PushList(PickleKind::kDict);
      case Known::kRebuildTensor:
        return MakeTensor(values);
      case Known::kRebuildParameter:
        if (values.empty() || values[0].kind != PickleKind::kTensor) {
          return BadPickle("a parameter of no tensor");
        }
        return Push(values[0]);
      case Known::kStorageType:
        break;
    }
    return BadPickle("it calls a type");
  }

  Result<std::vector<int64_t>> NumbersOf(const PickleValue& value) const {
    if (value.kind != PickleKind::kTuple) return BadPickle("a shape that is no tuple");
    std::vector<int64_t> numbers;
    if (ListOf(value).size() > kPickleDimsMax) return BadPickle("a tensor of too many dimensions");
    for (const PickleValue& one : ListOf(value)) {
      if (one.kind != PickleKind::kInteger || one.number < 0)
        return BadPickle("a shape of no numbers");
      numbers.push_back(one.number);
    }
    return numbers;
  }

  // (storage, offset, shape, strides, needs a gradient, hooks[, metadata])
  Status MakeTensor(const std::vector<PickleValue>& values) {
    const bool is_tensor = (values.size() == 6 || values.size() == 7) &&
                           values[0].kind == PickleKind::kStorage &&
                           values[1].kind == PickleKind::kInteger && values[1].number >= 0;
    if (!is_tensor) return BadPickle("a tensor of another form than torch's");
    const StorageType& type = kStorageTypes[static_cast<size_t>(values[0].number)];
    PickledTensor tensor{.storage = {.key = values[0].text,
                                     .dtype = type.dtype,
                                     .element_bytes = type.element_bytes,
                                     .num_elements = values[0].size},
                         .offset = values[1].number};
    ASSIGN_OR_RETURN(tensor.shape, NumbersOf(values[2]));
    ASSIGN_OR_RETURN(tensor.strides, NumbersOf(values[3]));
    if (tensor.shape.size() != tensor.strides.size()) return BadPickle("a shape without strides");
    tensors_.push_back(std::move(tensor));
    return Push({.kind = PickleKind::kTensor, .number = static_cast<int64_t>(tensors_.size()) - 1});
  }

  // A dictionary's list has a key and its value in turns.
  Status DoSet(bool several) {
    std::vector<PickleValue> items;
    if (several) {
      ASSIGN_OR_RETURN(items, PopToMark());
    } else {
      if (stack_.size() < 2) return BadPickle("it takes from an empty stack");
      items.assign(stack_.end() - 2, stack_.end());
      stack_.resize(stack_.size() - 2);
    }
    ASSIGN_OR_RETURN(const PickleValue* const top, Top());
    if (top->kind != PickleKind::kDict || items.size() % 2 != 0) {
      return BadPickle("items of what is no dictionary");
    }
    return AddTo(*top, items);
  }

  Status DoAppend(bool several) {
    std::vector<PickleValue> items;
    if (several) {
      ASSIGN_OR_RETURN(items, PopToMark());
    } else {
      ASSIGN_OR_RETURN(const PickleValue item, Pop());
      items.push_back(item);
    }
    ASSIGN_OR_RETURN(const PickleValue* const top, Top());
    if (top->kind != PickleKind::kList) return BadPickle("items of what is no list");
    return AddTo(*top, items);
  }

  Status AddTo(const PickleValue& to, const std::vector<PickleValue>& items) {
    std::vector<PickleValue>& list = lists_[static_cast<size_t>(to.number)];
    list.insert(list.end(), items.begin(), items.end());
    return OkStatus();
  }

  // What a module's state_dict() has beside its tensors: versions of modules, as an attribute.
  Status DoBuild() {
    ASSIGN_OR_RETURN(const PickleValue state, Pop());
    ASSIGN_OR_RETURN(const PickleValue* const top, Top());
    if (top->kind == PickleKind::kDict && state.kind == PickleKind::kDict) return OkStatus();
    return BadPickle("attributes of what is no dictionary");
  }

  Result<std::vector<PickledTensor>> TensorsOfRoot() {
    if (stack_.size() != 1 || !rest_.empty()) return BadPickle("more than one value");
    if (stack_[0].kind != PickleKind::kDict) {
      return UnimplementedError("holds no dictionary of tensors by name");
    }
    std::vector<PickledTensor> named;
    // Texts are the pickle's own bytes, which many tensors could share: copies of distinct short
    // names are bounded by these bytes.
    std::set<std::string_view> names;
    const std::vector<PickleValue>& items = ListOf(stack_[0]);
    for (size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind != PickleKind::kText) return BadPickle("a tensor without a name");
      if (items[i].text.size() > kNameBytesMax) return BadPickle("a name that is too long");
      if (!names.insert(items[i].text).second) {
        return BadPickle("two tensors of the name \"" + ShownText(items[i].text) + "\"");
      }
      if (items[i + 1].kind != PickleKind::kTensor) {
        return UnimplementedError("\"" + ShownText(items[i].text) +
                                  "\" is no tensor; an adapter's file holds tensors alone");
      }
      named.push_back(tensors_[static_cast<size_t>(items[i + 1].number)]);
      named.back().name = items[i].text;
    }
    return named;
  }

  std::string_view rest_;
  std::vector<PickleValue> stack_;
  std::vector<std::vector<PickleValue>> lists_;
  std::vector<PickledTensor> tensors_;
  std::map<uint32_t, PickleValue> memo_;
};

}  // namespace

Result<std::vector<PickledTensor>> ReadTensorPickle(std::string_view pickle) {
  return TensorPickle(pickle).Run();
}

}  // namespace graft
