// The numeric self-test of an adapter when it is loaded. It compares the kernels' low-rank path
// over the converted weights with a merged reference, which is computed in double from the file's
// own tensors and the config's ranks and scales. So a wrong layout, scale or transposition is
// caught before a client sees it. Any thread.
#pragma once

#include <memory>

#include "adapters/lora_weights.h"
#include "adapters/peft_config.h"
#include "base/status.h"
#include "base/work_crew.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace graft {

// Tests every adapted module on one probe row and a few output columns. On a difference the error
// is kInternal and names the module and both values; kCancelled: the work is unwanted.
Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights);

// The same beside other work: begun when it is made, on threads that are free, and done by Finish's
// caller where there are none. What is tested may be moved meanwhile, but must not be destroyed.
class LoraSelfTest {
 public:
  // kInternal where the weights have other modules than the config targets. Borrows the weights'
  // bytes and tables of rows, the model, and the crew, which may be null.
  static Result<LoraSelfTest> Begin(SafetensorsFile file, const PeftConfig& peft,
                                    const ModelConfig& model, const LoraWeights& weights,
                                    WorkCrew* crew);
  LoraSelfTest(LoraSelfTest&&) noexcept;
  LoraSelfTest& operator=(LoraSelfTest&&) noexcept;
  ~LoraSelfTest();

  // Waits. The failure of the first module, in their order.
  Status Finish();

 private:
  struct State;
  friend Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft,
                             const ModelConfig& model, const LoraWeights& weights);
  explicit LoraSelfTest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace graft
