#include "sim/trace.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"

namespace graft {
namespace {

using Names = std::unordered_map<std::string, int32_t>;

// Numbers names in order of first appearance.
int32_t IndexOf(Names& names, const std::string& name) {
  return names.emplace(name, static_cast<int32_t>(names.size())).first->second;
}

Result<std::vector<std::string>> ReadLines(const std::string& path) {
  if (path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0) {
    return InvalidArgumentError(path + " is packed; unpack it first (gunzip -k)");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  if (lines.empty()) return InvalidArgumentError(path + " holds no lines");
  return lines;
}

std::vector<std::string> SplitAtCommas(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(std::move(field));
  return fields;
}

Status BrokenLine(const std::string& path, size_t idx, const std::string& why) {
  return InvalidArgumentError(path + ", line " + std::to_string(idx + 1) + ": " + why);
}

// Seconds of "12.5", or of "2023-11-16 18:17:03.9799600" since 1970; negative where it is neither.
double ParseTime(const std::string& text) {
  if (text.find(':') == std::string::npos) {
    char* end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    return end == text.c_str() || *end != '\0' ? -1.0 : seconds;
  }
  std::tm time = {};
  double seconds = 0.0;
  if (std::sscanf(text.c_str(), "%d-%d-%d %d:%d:%lf", &time.tm_year, &time.tm_mon, &time.tm_mday,
                  &time.tm_hour, &time.tm_min, &seconds) != 6) {
    return -1.0;
  }
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return static_cast<double>(timegm(&time)) + seconds;
}

struct Columns {
  std::string time, adapter, prompt, output;
};

class CsvReader {
 public:
  CsvReader(const std::string& header, const Columns& columns)
      : names_(SplitAtCommas(header)),
        time_(Find(columns.time)),
        adapter_(Find(columns.adapter)),
        prompt_(Find(columns.prompt)),
        output_(Find(columns.output)) {}

  Status Read(const std::string& line, TraceRequest* request) {
    const std::vector<std::string> fields = SplitAtCommas(line);
    if (fields.size() < names_.size()) return InvalidArgumentError("a column is missing");
    const std::string& time = fields[time_];
    request->arrival_seconds = ParseTime(time);
    if (request->arrival_seconds < 0.0) return InvalidArgumentError("'" + time + "' is no time");
    if (adapter_ < names_.size()) request->adapter = IndexOf(adapters_, fields[adapter_]);
    if (prompt_ < names_.size()) request->prompt_tokens = std::atoi(fields[prompt_].c_str());
    if (output_ < names_.size()) request->output_tokens = std::atoi(fields[output_].c_str());
    return OkStatus();
  }

 private:
  // names_.size() where there is none.
  size_t Find(const std::string& name) const {
    return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  const std::vector<std::string> names_;
  const size_t time_, adapter_, prompt_, output_;
  Names adapters_;
};

Status ReadJsonLine(const std::string& line, const char* time, const char* prompt,
                    const char* output, TraceRequest* request) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(line));
  const auto number = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : -1.0;
  };
  if (!json.is_object() || number(time) < 0.0 || number(prompt) < 0.0 || number(output) < 0.0) {
    return InvalidArgumentError(std::string("needs the numbers ") + time + ", " + prompt + " and " +
                                output);
  }
  request->arrival_seconds = number(time) * 1e-3;
  request->prompt_tokens = static_cast<int32_t>(number(prompt));
  request->output_tokens = static_cast<int32_t>(number(output));
  return OkStatus();
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

using ReadLine = std::function<Status(const std::string& line, TraceRequest* request)>;

// Reads the lines of the format that `first` begins; empty for an unknown one.
ReadLine ReaderFor(const std::string& first) {
  const auto csv = [&first](Columns columns) -> ReadLine {
    return [reader = CsvReader(first, columns)](const std::string& line,
                                                TraceRequest* request) mutable {
      return reader.Read(line, request);
    };
  };
  const auto json = [](const char* time, const char* prompt, const char* output) -> ReadLine {
    return [=](const std::string& line, TraceRequest* request) {
      return ReadJsonLine(line, time, prompt, output, request);
    };
  };
  if (Has(first, "\"input_length\"")) return json("timestamp", "input_length", "output_length");
  if (Has(first, "\"il\"")) return json("ts", "il", "ol");
  if (Has(first, "ContextTokens")) {
    return csv({"TIMESTAMP", "", "ContextTokens", "GeneratedTokens"});
  }
  if (Has(first, "req_time_s")) return csv({"req_time_s", "adapter", "prompt_len", "output_len"});
  if (Has(first, "gmt_create")) return csv({"gmt_create", "groupId", "", ""});
  return {};
}

std::vector<double> Descending(std::vector<double> counts) {
  std::erase(counts, 0.0);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

// A row per function, a column per minute after the three hashes.
std::vector<double> CountFunctions(const std::vector<std::string>& lines) {
  constexpr size_t kHashes = 3;
  std::vector<double> counts;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = SplitAtCommas(lines[i]);
    double count = 0.0;
    for (size_t j = kHashes; j < fields.size(); ++j) count += std::atof(fields[j].c_str());
    counts.push_back(count);
  }
  return counts;
}

// Rows end with a quoted list of {'modelVersionId': 'ID', ...}.
std::vector<double> CountLoras(const std::vector<std::string>& lines) {
  constexpr std::string_view kKey = "'modelVersionId': '";
  Names names;
  std::vector<double> counts;
  for (const std::string& line : lines) {
    for (size_t at = line.find(kKey); at != std::string::npos; at = line.find(kKey, at)) {
      at += kKey.size();
      const auto idx =
          static_cast<size_t>(IndexOf(names, line.substr(at, line.find('\'', at) - at)));
      counts.resize(names.size());
      counts[idx] += 1.0;
    }
  }
  return counts;
}

// The first column with one of `words` in its lower-cased name, or -1.
int FindColumn(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = LowerCase(names[i]);
    for (const std::string& word : words) {
      if (name.find(word) != std::string::npos) return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

Result<std::vector<TraceRequest>> ReadTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  const ReadLine read = ReaderFor(lines[0]);
  if (!read) {
    return InvalidArgumentError(path +
                                ": unknown kind of trace; src/sim/trace.h lists those "
                                "that are read");
  }
  std::vector<TraceRequest> trace;
  for (size_t i = lines[0][0] == '{' ? 0 : 1; i < lines.size(); ++i) {
    TraceRequest request;
    const Status status = read(lines[i], &request);
    if (!status.ok()) return BrokenLine(path, i, status.message());
    trace.push_back(request);
  }
  if (trace.empty()) return InvalidArgumentError(path + " holds no requests");
  std::stable_sort(trace.begin(), trace.end(), [](const TraceRequest& a, const TraceRequest& b) {
    return a.arrival_seconds < b.arrival_seconds;
  });
  const double begin = trace.front().arrival_seconds;
  for (TraceRequest& request : trace) request.arrival_seconds -= begin;
  return trace;
}

Result<std::vector<double>> ReadPopularity(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  std::vector<double> counts;
  if (Has(lines[0], "HashFunction")) {
    counts = CountFunctions(lines);
  } else if (Has(lines[0], "lora_args")) {
    counts = CountLoras(lines);
  } else {
    ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(path));
    for (const TraceRequest& request : trace) {
      if (request.adapter < 0) continue;
      const auto idx = static_cast<size_t>(request.adapter);
      counts.resize(std::max(counts.size(), idx + 1));
      counts[idx] += 1.0;
    }
  }
  counts = Descending(std::move(counts));
  if (counts.empty()) return InvalidArgumentError(path + " names no adapters");
  return counts;
}

Result<std::vector<double>> ReadLoadTimes(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  const std::vector<std::string> names = SplitAtCommas(lines[0]);
  const auto found = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name == "value" || name == "fetch_ms";
  });
  if (found == names.end()) {
    return InvalidArgumentError(path + ": the first line must name a column value or fetch_ms");
  }
  const auto column = static_cast<size_t>(found - names.begin());
  std::vector<double> times;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = SplitAtCommas(lines[i]);
    const double ms = column < fields.size() ? std::atof(fields[column].c_str()) : 0.0;
    if (ms <= 0.0) return BrokenLine(path, i, "a load's time must be above 0");
    times.push_back(ms);
  }
  if (times.empty()) return InvalidArgumentError(path + " holds no times");
  return times;
}

Result<std::vector<RequestLengths>> ReadLengths(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  const std::vector<std::string> names = SplitAtCommas(lines[0]);
  const int prompt = FindColumn(names, {"prompt", "input", "context", "prefill"});
  const int output = FindColumn(names, {"response", "output", "generated", "decode"});
  if (prompt < 0 || output < 0) {
    return InvalidArgumentError(path + ": the first line must name a prompt and an output column");
  }
  std::vector<RequestLengths> lengths;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = SplitAtCommas(lines[i]);
    if (static_cast<int>(fields.size()) <= std::max(prompt, output)) continue;
    const RequestLengths row{std::atoi(fields[prompt].c_str()), std::atoi(fields[output].c_str())};
    if (row.prompt_tokens > 0 && row.output_tokens > 0) lengths.push_back(row);
  }
  if (lengths.empty()) return InvalidArgumentError(path + ": no row with two positive lengths");
  return lengths;
}

}  // namespace graft
