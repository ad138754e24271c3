// What programs that measure share: their options, their model, and results as JSON. Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_file.h"
#include "base/status.h"
#include "options/command.h"
#include "runtime/runtime.h"

namespace graft {

// Option rows that several subcommands have.
std::vector<Option> BenchModelOptionRows(std::string& shape, RuntimeOptions& runtime);
Option JsonOptionRow(std::string& path);

// What a benchmark runs: random weights of the shape in a config.json, or options.model where none
// is given; `check` as in LoadModel. Second, the model's name in the results.
Result<std::unique_ptr<LoadedModel>> LoadBenchModel(const RuntimeOptions& options,
                                                    const std::string& shape,
                                                    const CheckMemory& check = {});
std::string BenchModelName(const RuntimeOptions& options, const std::string& shape);

// The machine that a figure belongs to: processor, cores, instruction set, memory.
OrderedJson DescribeMachine();

// printf for one number.
std::string Text(const char* format, double value);

// Runs the step. OutOfMemory, which ends the command, where it came to nothing.
StepResult RunStep(Executor& executor, const StepPlan& plan);

// The middle one of at least one value, of two the larger.
double UpperMedian(std::vector<double> values);

}  // namespace graft
