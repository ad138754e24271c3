// The sums against what a server really allocates, and refusals before a byte is taken.
#include "runtime/server_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/runtime.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RuntimeOptions DemoOptions(DeviceChoice::Kind device = DeviceChoice::Kind::kCpu) {
  RuntimeOptions options;
  options.model = std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base";
  options.device = {.kind = device};
  options.threads = 2;
  options.limits.sequences_max = 9;
  options.limits.step_tokens_max = 100;
  options.limits.adapters_max = 7;
  options.host_gib = 0.0;
  options.pool_gib = 0.05;
  return options;
}

std::string RefusalOf(const RuntimeOptions& options) {
  const int64_t before = AllocatedBytes({});
  const auto model = LoadModel(options, /*quiet=*/true);
  if (model.ok()) return "accepted";
  EXPECT_EQ(AllocatedBytes({}), before) << "something was taken";
  return model.status().message();
}

// Everything that Buffers hold must be in the sum, and the sum may hold little else: tables that
// are plain vectors, and what threads keep.
void ExpectSumIsWhatIsTaken(RuntimeOptions options) {
  const auto sum_of = [&](const LoadedModel& model) {
    MemorySum sum(model.device);
    AddServer(options, model.shape(), /*lora=*/true, &sum);
    AddLeastPool(options, model.shape(), /*lora=*/true, &sum);
    return sum;
  };
  const auto model = LoadModel(options, /*quiet=*/true).value();
  const Device device = model->device;
  const int64_t before = AllocatedBytes(device);
  const auto runtime = Runtime::Create(options, *model, /*lora=*/true).value();
  const int64_t taken = AllocatedBytes(device) - before;
  const int64_t summed = sum_of(*model).on_device();
  EXPECT_LE(taken, summed);
  constexpr int64_t kUncounted = int64_t{64} << 20;  // of vectors, scratch of threads
  const int64_t of_the_driver =
      device.is_cpu()
          ? 0
          : DecodeGraphs::BytesFor(model->config.num_layers, options.limits.sequences_max,
                                   kLoraRankMax, options.limits.draft_tokens_max > 0);
  EXPECT_GE(taken, summed - kUncounted - of_the_driver);
}

TEST(ServerMemoryTest, TheSumIsWhatAServerTakes) {
  ExpectSumIsWhatIsTaken(DemoOptions());
  RuntimeOptions more = DemoOptions();
  more.engine.scheduler.cold_start = ColdStart::kCpuAssist;
  more.cpu_assist_workers = 1;
  ExpectSumIsWhatIsTaken(more);
}

TEST(ServerMemoryTest, GpuTheSumIsWhatAServerTakes) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  ExpectSumIsWhatIsTaken(DemoOptions(DeviceChoice::Kind::kCuda));
}

// To the byte, but for what grows with the threads' rows and tables that are no Buffers.
TEST(ServerMemoryTest, AStepsBuffersAreSummedToTheByte) {
  const RuntimeOptions options = DemoOptions();
  const auto model = LoadModel(options, /*quiet=*/true).value();
  for (const bool lora : {false, true}) {
    const ExecutorLimits limits = ExecutorLimitsOf(options, model->shape(), lora);
    const TransformerLimits transformer = TransformerLimitsOf(options, limits);
    const KvLayout layout = LayoutOf(model->shape(), limits);
    KvPool pool(layout, 10, model->device);
    const int64_t before = AllocatedBytes({});
    Transformer made(model->config, model->weights, pool, transformer, model->stream);
    EXPECT_EQ(AllocatedBytes({}) - before,
              SizesOf(transformer, model->config, model->weights.types, layout, {}).on_device());
    const int64_t between = AllocatedBytes({});
    const ModelExecutor executor(made, nullptr, limits, model->stream);
    EXPECT_EQ(AllocatedBytes({}) - between,
              ModelExecutor::BytesFor(transformer, model->config, {}).on_device);
  }
}

// The weights of an 8B model in bf16 take an H200 3 ms and an L4 50.
TEST(ServerMemoryTest, SlowMemoryLengthensSteps) {
  RuntimeOptions options = DemoOptions();
  const Device gpu = {DeviceKind::kCuda, 0};
  constexpr int64_t kBytes = 15'000'000'000;
  const int64_t h200 = WeightsReadingNs(kBytes, {.compute = 90, .memory_gbytes_per_s = 4800});
  const int64_t l4 = WeightsReadingNs(kBytes, {.compute = 89, .memory_gbytes_per_s = 300});
  EXPECT_EQ(h200, 3'125'000);
  EXPECT_EQ(l4, 50 * kMsInNs);
  EXPECT_EQ(StepNsMax(options, gpu, h200), 50 * kMsInNs);
  EXPECT_EQ(StepNsMax(options, gpu, l4), 100 * kMsInNs);
  EXPECT_EQ(WeightsReadingNs(kBytes, {.compute = 89}), 0) << "a card that does not tell its clock";
  options.engine.scheduler.step_ns_max = 40 * kMsInNs;
  EXPECT_EQ(StepNsMax(options, gpu, l4), 40 * kMsInNs) << "what was given by hand";
}

// Rows that the goal brings are in the sum, and what is drawn does not grow with them. What is
// given by hand holds for either goal.
TEST(ServerMemoryTest, TheGoalDecidesWhatStepsMayTake) {
  RuntimeOptions options = DemoOptions();
  options.limits.step_tokens_max = 0;
  const Device cpu, gpu = {DeviceKind::kCuda, 0};
  EXPECT_EQ(StepTokensMax(options, gpu), 2048);
  EXPECT_EQ(StepNsMax(options, gpu, 0), 50 * kMsInNs);
  options.engine.scheduler.goal = Goal::kThroughput;
  EXPECT_EQ(StepTokensMax(options, gpu), 16384);
  EXPECT_EQ(StepNsMax(options, gpu, 0), 1000 * kMsInNs);
  EXPECT_EQ(StepTokensMax(options, cpu), 512);
  EXPECT_EQ(StepNsMax(options, cpu, 0), 0);
  options.limits.step_tokens_max = 5000;
  options.engine.scheduler.step_ns_max = 70 * kMsInNs;
  for (const Goal goal : {Goal::kLatency, Goal::kThroughput}) {
    options.engine.scheduler.goal = goal;
    for (const Device& device : {cpu, gpu}) {
      EXPECT_EQ(StepTokensMax(options, device), 5000);
      EXPECT_EQ(StepNsMax(options, device, 100 * kMsInNs), 70 * kMsInNs);
    }
  }
}

TEST(ServerMemoryTest, ManyRowsTakeActivationsAndNoLogits) {
  RuntimeOptions options = DemoOptions();
  const auto model = LoadModel(options, /*quiet=*/true).value();
  const auto sizes_of = [&](int32_t rows) {
    options.limits.step_tokens_max = rows;
    const ExecutorLimits limits = ExecutorLimitsOf(options, model->shape(), /*lora=*/true);
    return SizesOf(TransformerLimitsOf(options, limits), model->config, model->weights.types,
                   LayoutOf(model->shape(), limits), {});
  };
  const TransformerSizes few = sizes_of(2048), many = sizes_of(16384);
  EXPECT_EQ(many.activations(), 8 * few.activations());
  EXPECT_EQ(many.all_logits(), few.all_logits());
  EXPECT_EQ(many.attention_scratch, few.attention_scratch);
}

TEST(ServerMemoryTest, WhatCannotFitIsRefusedBeforeAByteIsTaken) {
  RuntimeOptions options = DemoOptions();
  options.memory_gib = 0.5;
  EXPECT_EQ(RefusalOf(options), "accepted");
  options.memory_gib = 0.01;
  EXPECT_THAT(RefusalOf(options), AllOf(HasSubstr("not enough memory: "),
                                        HasSubstr("are left of --memory-gib 0.01 on cpu"),
                                        HasSubstr("weights in bf16 (--dtype)"),
                                        HasSubstr("lower what the flags in brackets say")));
  options = DemoOptions();
  options.limits.step_tokens_max = 1 << 20;
  options.memory_gib = 1.0;
  EXPECT_THAT(RefusalOf(options), HasSubstr("activations of 1048576 rows (--step-tokens-max)"));
  options = DemoOptions();
  options.host_gib = 0.7;
  options.memory_gib = 0.6;
  EXPECT_THAT(RefusalOf(options), HasSubstr("adapters in the host's memory (--host-gib)"));
  options = DemoOptions();
  options.pool_gib = 0.0001;
  EXPECT_THAT(RefusalOf(options), HasSubstr("raise --pool-gib or lower --context-tokens-max"));
}

// What fetches may take is in the sum before the store and the pool share the rest.
TEST(ServerMemoryTest, AdaptersOnTheirWayAreCounted) {
  RuntimeOptions options = DemoOptions();
  options.pool_gib = 0.0625;
  const auto model = LoadModel(options, /*quiet=*/true).value();
  constexpr int64_t kMib = int64_t{1} << 20;
  const AvailableLimit limit(256 * kMib);  // what others take and give back does not show
  const MemoryBudget budget({});
  ASSERT_EQ(budget.LeftOnHost(), 256 * kMib) << "this machine has too little memory";
  for (const double host_gib : {-1.0, 0.0, 0.25}) {
    options.host_gib = host_gib;
    MemorySum sum(Device{});
    sum.Add("others", 20 * kMib);
    const AdapterMemory memory = AddAdapters(options, model->shape(), budget, &sum);
    const int64_t beside = (256 - 64 - 20) * kMib;
    EXPECT_EQ(memory.fetches.bytes_max, beside / 4) << "less than 256 MiB";
    EXPECT_EQ(memory.store_bytes,
              host_gib < 0.0 ? (beside - beside / 4) / 4 : GibToBytes(host_gib));
    EXPECT_EQ(sum.on_device(),
              20 * kMib + memory.fetches.bytes_max + (host_gib < 0.0 ? memory.store_bytes : 0));
    EXPECT_THAT(sum.ToString(), HasSubstr(" adapters on their way from their folders"));
  }
}

// Beside a GPU it is the host's memory.
TEST(ServerMemoryTest, AdaptersOnTheirWayTakeNothingOfAGpu) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  const RuntimeOptions options = DemoOptions(DeviceChoice::Kind::kCuda);
  const auto model = LoadModel(options, /*quiet=*/true).value();
  MemorySum sum(model->device);
  const AdapterMemory memory = AddAdapters(options, model->shape(), *model->budget, &sum);
  EXPECT_EQ(sum.on_device(), 0);
  EXPECT_EQ(sum.on_host(), memory.fetches.bytes_max);
}

// Where no option says how large the pool is, it makes do with what the rest leaves.
TEST(ServerMemoryTest, ThePoolTakesWhatIsLeft) {
  RuntimeOptions options = DemoOptions();
  options.pool_gib = 0.0;
  options.limits.sequences_max = 2000;
  options.memory_gib = 0.5;
  const auto model = LoadModel(options, /*quiet=*/true).value();
  const auto runtime = Runtime::Create(options, *model, /*lora=*/true).value();
  EXPECT_LE(AllocatedBytes({}), GibToBytes(0.5));
  EXPECT_GT(runtime->pool_bytes(), 0);
  options.memory_gib = 0.0;
  const auto roomy = LoadModel(options, /*quiet=*/true).value();
  EXPECT_GT(Runtime::Create(options, *roomy, /*lora=*/true).value()->pool_bytes(),
            runtime->pool_bytes());
}

TEST(ServerMemoryTest, ASecondServerIsRefusedWhereTheFirstOneLeftNoRoom) {
  RuntimeOptions options = DemoOptions();
  options.pool_gib = 0.3;
  options.memory_gib = 0.8;
  const auto model = LoadModel(options, /*quiet=*/true).value();
  const auto first = Runtime::Create(options, *model, /*lora=*/false);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  options.pool_gib = 0.5;
  const auto second = Runtime::Create(options, *model, /*lora=*/true);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr("512 MiB  page pool (--pool-gib)"),
                    HasSubstr("MiB  adapters on their way from their folders\n")));
}

}  // namespace
}  // namespace graft
