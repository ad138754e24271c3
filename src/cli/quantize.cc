// graft quantize: a model folder with the weights of its layers as codes, made of one in 16 or 32
// bits. Main thread.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_format.h"
#include "base/new_file.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/derived_model.h"
#include "model/code_files.h"
#include "model/model_folder.h"
#include "runtime/memory_sum.h"
#include "runtime/progress.h"
#include "runtime/weights_kept.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr OptionWord<WrittenCodes> kWrittenCodesWords[] = {
    {WrittenCodes::kInt8, "int8"}, {WrittenCodes::kInt4, "int4"}, {WrittenCodes::kNf4, "nf4"}};
constexpr char kConfig[] = "config.json";
constexpr char kIndex[] = "model.safetensors.index.json";

struct QuantizeOptions {
  std::string model;
  WrittenCodes to = WrittenCodes::kInt4;
  std::string out;
};

class Quantization {
 public:
  Quantization(const QuantizeOptions& options, std::string model, const ModelConfig& config)
      : options_(options), model_(std::move(model)), config_(config) {}

  Status Run() {
    ASSIGN_OR_RETURN(const SafetensorsSet base, SafetensorsSet::Open(model_));
    ASSIGN_OR_RETURN(plan_, PlanCodesOfFiles(config_, base, options_.to));
    int64_t bytes = 0;
    for (const SafetensorsFile& file : base.files()) {
      ASSIGN_OR_RETURN(const int64_t of_file, BytesOfCodesFile(base, file, plan_));
      bytes += of_file;
    }
    ASSIGN_OR_RETURN(const std::string config, NewConfig());
    ASSIGN_OR_RETURN(const TakenFiles files,
                     TakenFiles::Find(model_, base, {{kConfig, config}, {kIndex, {}}}));
    ASSIGN_OR_RETURN(NewFolder out, NewFolder::Make(options_.out, bytes + files.bytes(),
                                                    ModeOf(model_), "quantisation"));
    RETURN_IF_ERROR(WriteWeights(base, out.part()));
    RETURN_IF_ERROR(files.Write(out.part()));
    RETURN_IF_ERROR(out.Finish());
    Tell(files, bytes, out.path());
    return OkStatus();
  }

 private:
  Result<std::string> NewConfig() const {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(model_ + "/" + kConfig));
    ASSIGN_OR_RETURN(OrderedJson json, ParseOrderedJson(text));
    json["quantization_config"] = OrderedJson(QuantizationConfigOf(plan_));
    return json.dump(2) + "\n";
  }

  Status WriteWeights(const SafetensorsSet& base, const std::string& to) const {
    ThreadPool threads(NumCpus());
    ProgressBar bar("writing " + WeightFormatText(plan_.format), /*quiet=*/false);
    int64_t done = 0, total = 0;
    for (const SafetensorsFile& file : base.files()) {
      for (const auto& [name, entry] : file.entries()) total += entry.end - entry.begin;
    }
    OrderedJson weight_map = OrderedJson::object();
    for (const SafetensorsFile& file : base.files()) {
      const std::string name = fs::path(file.label()).filename().string();
      NewFile out(to + "/" + name, ModeOf(file.label()));
      std::set<std::string> written;
      RETURN_IF_ERROR(WriteCodesFile(base, file, plan_, out, threads, written,
                                     [&](const std::string& tensor, int64_t bytes) {
                                       done += bytes;
                                       bar.Update(done, total, EscapeForLog(tensor));
                                     }));
      for (const std::string& tensor : written) weight_map[tensor] = name;
    }
    if (!FileExists(model_ + "/" + kIndex)) return OkStatus();
    const OrderedJson index = {{"metadata", OrderedJson::object()}, {"weight_map", weight_map}};
    return WriteWholeFile(to + "/" + kIndex, index.dump(2) + "\n");
  }

  void Tell(const TakenFiles& files, int64_t bytes, const std::string& out) const {
    const auto line = [](const std::string& text) {
      std::printf("%s\n", EscapeForLog(text).c_str());
    };
    line(model_ + ": " + std::to_string(plan_.weights.size()) + " weights as " +
         WeightFormatText(plan_.format) + ", " + BytesText(files.weight_bytes()) + " became " +
         BytesText(bytes));
    if (!files.left_out().empty()) {
      line("not copied, as they may hold the weights: " + Joined(files.left_out(), ", "));
    }
    line(out + " is a model by itself: graft serve --model " + out);
  }

  const QuantizeOptions& options_;
  const std::string model_;
  const ModelConfig& config_;
  CodesOfFiles plan_;
};

Status RunQuantize(const QuantizeOptions& options) {
  RETURN_IF_ERROR(InitLog("warn"));
  ASSIGN_OR_RETURN(const std::string model, ResolveModelFolder(options.model));
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model));
  if (config.quantisation.has_value()) {
    return InvalidArgumentError(model + " is " + config.quantisation->text +
                                " already; take the model in 16 bits that it was made of");
  }
  signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large fails, and what was written goes
  return Quantization(options, model, config).Run();
}

}  // namespace

Command QuantizeCommand() {
  const auto options = std::make_shared<QuantizeOptions>();  // lives as long as the command
  Option model = Required(Positional({"folder", Text(options->model), "the model's folder"}));
  Option to = Required({"to", OneOf(options->to, kWrittenCodesWords),
                        "codes of 8 or 4 bits in groups, as compressed-tensors packs them, or NF4, "
                        "as bitsandbytes saves it"});
  Option out = Required(
      {"out", Text(options->out), "the new model's folder, which is not there yet or is empty"});
  return {.name = "quantize",
          .help =
              "Write a model whose layers' weights are codes of 4 or 8 bits.\n"
              "  graft quantize models/llama --to int4 --out models/llama-int4",
          .groups = {{"Codes", {model, to, out}}},
          .run = [options] { return RunQuantize(*options); }};
}

}  // namespace graft
