#include "learn/encoder_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/random.h"
#include "base/shuffle.h"
#include "learn/training_run.h"

namespace graft {
namespace {

// A step draws answers of this many documents, so that each memory it makes serves several answers.
constexpr int32_t kDocumentsAStep = 4;

// Windows without their overlaps, which would be said twice.
std::vector<DocumentWindow> SidesOf(size_t num_tokens, int32_t window_tokens) {
  std::vector<DocumentWindow> windows = WindowsOf(static_cast<int64_t>(num_tokens), window_tokens);
  for (DocumentWindow& window : windows) window.begin = window.fresh;
  return windows;
}

// The row before a token learns to say it. The last row says the end token.
TrainingExample Reconstruction(std::span<const int32_t> tokens, int32_t end_token) {
  TrainingExample example;
  example.tokens.assign(tokens.begin(), tokens.end());
  example.ids = example.tokens;
  example.ids.push_back(end_token);
  example.rows.resize(example.ids.size());
  std::iota(example.rows.begin(), example.rows.end(), -1);
  example.probabilities.assign(example.ids.size(), 1.0f);
  return example;
}

std::string HashesOf(const std::vector<EncoderDocument>& documents) {
  std::string hashes;
  for (const EncoderDocument& document : documents) {
    hashes += "\nexamples " + HashOfExamples(document.answers);
  }
  return hashes;
}

}  // namespace

std::vector<TrainedShape> EncoderRun::ShapesOf(std::span<const size_t> document_tokens,
                                               const EncoderSettings& settings) {
  const int32_t k = settings.memory_tokens;
  const bool is_map = settings.embedder != Embedder::kTrained;
  std::vector<TrainedShape> shapes = {
      is_map ? TrainedShape{.virtual_tokens = settings.hidden_size + 1}
             : TrainedShape{.rank = settings.rank, .virtual_tokens = k},
      {.rank = settings.rank},
      {.virtual_tokens = 1}};
  shapes.resize(shapes.size() + static_cast<size_t>(settings.rates.batch), {.virtual_tokens = k});
  for (const size_t tokens : document_tokens) {
    const auto windows = static_cast<int32_t>(SidesOf(tokens, settings.window_tokens).size());
    shapes.push_back({.virtual_tokens = k * windows});
  }
  return shapes;
}

int32_t EncoderRun::TextsAtOnce(std::span<const size_t> document_tokens,
                                const EncoderSettings& settings) {
  size_t most = 0;
  for (const size_t tokens : document_tokens) {
    most = std::max(most, SidesOf(tokens, settings.window_tokens).size());
  }
  const size_t documents = std::min<size_t>(kDocumentsAStep, document_tokens.size());
  return static_cast<int32_t>(documents * most);
}

int32_t EncoderRun::RowsBeforeMax(std::span<const size_t> document_tokens,
                                  const EncoderSettings& settings) {
  int32_t most = settings.memory_tokens + 1;  // the memory of a window, and the mark
  for (const size_t tokens : document_tokens) {
    const size_t windows = SidesOf(tokens, settings.window_tokens).size();
    most = std::max(most, settings.memory_tokens * static_cast<int32_t>(windows));
  }
  return most;
}

EncoderRun::EncoderRun(Trainer& trainer, std::vector<EncoderDocument> documents,
                       const EncoderSettings& settings)
    : trainer_(trainer),
      documents_(std::move(documents)),
      settings_(settings),
      identity_(settings.identity + HashesOf(documents_)) {
  std::vector<size_t> sizes;
  std::vector<int32_t> text;
  for (const EncoderDocument& document : documents_) {
    sizes.push_back(document.tokens.size());
    text.insert(text.end(), document.tokens.begin(), document.tokens.end());
  }
  std::vector<int32_t> added;
  for (const TrainedShape& shape : ShapesOf(sizes, settings)) added.push_back(trainer.Add(shape));
  encoder_ = added[0];
  decoder_ = added[1];
  mark_ = added[2];
  const auto memories = added.end() - static_cast<std::ptrdiff_t>(documents_.size());
  slots_.assign(added.begin() + 3, memories);
  memories_.assign(memories, added.end());
  trainer.lora(decoder_)->Initialize(settings.seed + 1);
  while (text.size() < static_cast<size_t>(settings.memory_tokens)) text.push_back(text.front());
  trainer.BeginPrompt(mark_, text);
  for (size_t i = 0; i < documents_.size(); ++i) AddDocument(documents_[i], memories_[i]);
  first_windows_.push_back(static_cast<int32_t>(windows_.size()));
  if (is_map()) {
    BeginMap();
  } else {
    encoder_lora()->Initialize(settings.seed);
    trainer.BeginPrompt(encoder_, text);
  }
  const auto steps = [&](Stage stage) { return RatesOf(stage).StepsFor(CountOf(stage)); };
  num_reconstructions_ = steps(Stage::kReconstruction);
  if (settings.reconstruction_only) return;
  num_window_answers_ = steps(Stage::kWindowAnswers);
  num_answers_ = steps(Stage::kAnswers);
}

size_t EncoderRun::CountOf(Stage stage) const {
  switch (stage) {
    case Stage::kReconstruction:
      return windows_.size();
    case Stage::kWindowAnswers:
      return window_answers_.size();
    case Stage::kAnswers:
      return answers_.size();
  }
  CHECK(false) << static_cast<int>(stage);
  __builtin_unreachable();
}

// Embeds the pieces of all windows. The map begins as the identity at an embedding's length.
void EncoderRun::BeginMap() {
  const auto k = static_cast<size_t>(settings_.memory_tokens);
  std::vector<std::span<const int32_t>> pieces;
  for (const Window& window : windows_) {
    const std::span<const int32_t> tokens = window.example.tokens;
    for (size_t i = 0; i < k; ++i) {
      const size_t begin = i * tokens.size() / k;
      const size_t end = std::max((i + 1) * tokens.size() / k, begin + 1);
      pieces.push_back(tokens.subspan(begin, end - begin));
    }
  }
  vectors_ = trainer_.Embed(
      pieces, settings_.embedder == Embedder::kMean ? StatePooling::kMean : StatePooling::kLast);
  double squares = 0.0;
  for (const float number : trainer_.prompt(mark_)->parameters()) {
    squares += static_cast<double>(number) * static_cast<double>(number);
  }
  TrainedPrompt& map = encoder_tokens();
  CHECK_EQ(map.columns(), settings_.hidden_size);
  for (int64_t i = 0; i < map.columns(); ++i) {
    map.parameters()[static_cast<size_t>(i * map.columns() + i)] =
        static_cast<float>(std::sqrt(squares));
  }
  map.Refresh();
}

std::vector<EncodedText> EncoderRun::TextsOf(std::span<const WindowMemory> windows) const {
  std::vector<EncodedText> texts;
  for (const auto& [window, memory, first] : windows) {
    texts.push_back({windows_[static_cast<size_t>(window)].example.tokens, memory, first});
  }
  return texts;
}

std::vector<MappedRows> EncoderRun::MappedOf(std::span<const WindowMemory> windows) const {
  std::vector<MappedRows> rows;
  const int64_t window_floats = int64_t{settings_.memory_tokens} * settings_.hidden_size;
  for (const auto& [window, memory, first] : windows) {
    rows.push_back(
        {vectors_.data() + window * window_floats, settings_.memory_tokens, memory, first});
  }
  return rows;
}

void EncoderRun::Encode(std::span<const WindowMemory> windows) {
  if (is_map()) return trainer_.Map(encoder_, MappedOf(windows));
  trainer_.Encode(encoder_, TextsOf(windows));
}

void EncoderRun::BackwardEncoder(std::span<const WindowMemory> windows) {
  if (is_map()) return trainer_.BackwardMap(encoder_, MappedOf(windows));
  trainer_.BackwardEncoder(encoder_, TextsOf(windows));
}

LearnerRates EncoderRun::RatesOf(Stage stage) const {
  LearnerRates rates = settings_.rates;
  if (stage == Stage::kReconstruction && settings_.window_passes > 0) {
    rates.passes = settings_.window_passes;
  }
  if (stage == Stage::kWindowAnswers) rates.passes = settings_.window_answer_passes;
  return rates;
}

void EncoderRun::AddDocument(EncoderDocument& document, int32_t memory) {
  const auto index = static_cast<int32_t>(first_windows_.size());
  first_windows_.push_back(static_cast<int32_t>(windows_.size()));
  for (const DocumentWindow& side : SidesOf(document.tokens.size(), settings_.window_tokens)) {
    const auto text =
        std::span(document.tokens)
            .subspan(static_cast<size_t>(side.begin), static_cast<size_t>(side.end - side.begin));
    windows_.push_back({index, Reconstruction(text, settings_.end_token)});
    windows_.back().example.adapter = decoder_;
    windows_.back().example.mark = mark_;
  }
  for (std::vector<TrainingExample>* examples :
       {&document.answers.training, &document.answers.held_out}) {
    for (TrainingExample& example : *examples) {
      example.adapter = decoder_;
      example.prompt = memory;
    }
  }
  for (const TrainingExample& example : document.answers.training) {
    const int32_t window = example.window < 0 ? -1 : first_windows_.back() + example.window;
    CHECK_LT(window, static_cast<int32_t>(windows_.size()));
    if (window >= 0) window_answers_.push_back(static_cast<int32_t>(answers_.size()));
    answers_.push_back({index, window, &example});
  }
}

std::vector<int32_t> EncoderRun::OrderOf(Stage stage, int64_t pass) const {
  Random random(
      RandomBits(settings_.seed + static_cast<uint64_t>(stage), static_cast<uint64_t>(pass)));
  std::vector<int32_t> order(CountOf(stage));
  std::iota(order.begin(), order.end(), 0);
  Shuffle(order, random);
  if (stage != Stage::kAnswers) return order;
  // The answers of a document form groups, and the groups come in random order.
  const auto document_of = [&](int32_t i) { return answers_[static_cast<size_t>(i)].document; };
  std::ranges::stable_sort(order, {}, document_of);
  const size_t group_max =
      static_cast<size_t>(std::max(1, settings_.rates.batch / kDocumentsAStep));
  std::vector<std::vector<int32_t>> groups;
  for (const int32_t i : order) {
    const bool goes_on = !groups.empty() && groups.back().size() < group_max &&
                         document_of(groups.back().front()) == document_of(i);
    if (!goes_on) groups.emplace_back();
    groups.back().push_back(i);
  }
  Shuffle(groups, random);
  order.clear();
  for (const auto& group : groups) order.insert(order.end(), group.begin(), group.end());
  return order;
}

std::vector<int32_t> EncoderRun::Drawn(Stage stage, int32_t step) {
  const auto count = static_cast<int64_t>(CountOf(stage));
  const int64_t begin = int64_t{step} * settings_.rates.batch;
  const int64_t end = std::min(begin + settings_.rates.batch, count * RatesOf(stage).passes);
  std::vector<int32_t> drawn;
  for (int64_t visit = begin; visit < end; ++visit) {
    if (stage != order_stage_ || visit / count != order_pass_) {
      order_stage_ = stage;
      order_pass_ = visit / count;
      order_ = OrderOf(stage, order_pass_);
    }
    drawn.push_back(order_[static_cast<size_t>(visit % count)]);
  }
  return drawn;
}

void EncoderRun::Step() {
  CHECK_LT(step_, num_steps());
  int32_t step = step_;
  if (step < num_reconstructions_) {
    last_loss_ = RunBehindWindows(WindowsAt(Drawn(Stage::kReconstruction, step)), true);
    Apply(step, num_reconstructions_, true);
  } else if ((step -= num_reconstructions_) < num_window_answers_) {
    last_loss_ = RunBehindWindows(WindowAnswersAt(Drawn(Stage::kWindowAnswers, step)), true);
    Apply(step, num_window_answers_, false);
  } else {
    step -= num_window_answers_;
    StepAnswers(Drawn(Stage::kAnswers, step));
    Apply(step, num_answers_, false);
  }
  ++step_;
}

std::vector<EncoderRun::WindowExample> EncoderRun::WindowsAt(std::span<const int32_t> drawn) const {
  std::vector<WindowExample> examples;
  for (const int32_t i : drawn) examples.push_back({i, &windows_[static_cast<size_t>(i)].example});
  return examples;
}

std::vector<EncoderRun::WindowExample> EncoderRun::WindowAnswersAt(
    std::span<const int32_t> drawn) const {
  std::vector<WindowExample> examples;
  for (const int32_t i : drawn) {
    const auto index = static_cast<size_t>(window_answers_[static_cast<size_t>(i)]);
    examples.push_back({answers_[index].window, answers_[index].example});
  }
  return examples;
}

// Each example has a memory of its own in front.
double EncoderRun::RunBehindWindows(std::span<const WindowExample> windows, bool learns) {
  std::vector<TrainingExample> examples;
  std::vector<WindowMemory> memories;
  for (const WindowExample& window : windows) {
    memories.push_back({window.window, slots_[examples.size()], 0});
    examples.push_back(*window.example);
    examples.back().prompt = memories.back().memory;
  }
  std::vector<const TrainingExample*> pointers;
  for (const TrainingExample& example : examples) pointers.push_back(&example);
  Encode(memories);
  const auto decoder = static_cast<size_t>(decoder_);
  if (!learns) return trainer_.Evaluate(pointers)[decoder].tokens;
  const double loss = trainer_.Accumulate(pointers)[decoder].tokens;
  BackwardEncoder(memories);
  return loss;
}

void EncoderRun::AddWindows(int32_t document, std::vector<WindowMemory>* windows) const {
  const auto index = static_cast<size_t>(document);
  const int32_t first = first_windows_[index];
  for (int32_t i = first; i < first_windows_[index + 1]; ++i) {
    windows->push_back({i, memories_[index], (i - first) * settings_.memory_tokens});
  }
}

void EncoderRun::StepAnswers(std::span<const int32_t> answers) {
  std::vector<const TrainingExample*> examples;
  std::vector<int32_t> documents;
  std::vector<WindowMemory> windows;
  for (const int32_t index : answers) {
    const Answer& answer = answers_[static_cast<size_t>(index)];
    examples.push_back(answer.example);
    if (std::ranges::find(documents, answer.document) != documents.end()) continue;
    documents.push_back(answer.document);
    AddWindows(answer.document, &windows);
  }
  Encode(windows);
  last_loss_ = trainer_.Accumulate(examples)[static_cast<size_t>(decoder_)].tokens;
  BackwardEncoder(windows);
}

// Rates rise and fall in each stage anew.
void EncoderRun::Apply(int32_t step, int32_t num_steps, bool with_mark) {
  const LearnerRates& rates = settings_.rates;
  const UpdateSettings lora = rates.SettingsAt(rates.learning_rate, step, num_steps);
  const UpdateSettings tokens = rates.SettingsAt(rates.prompt_learning_rate, step, num_steps);
  std::vector<Trainer::Update> updates = {{encoder_, lora, tokens}, {decoder_, lora, tokens}};
  if (with_mark) updates.push_back({mark_, lora, tokens});
  trainer_.Apply(updates);
}

void EncoderRun::RoundMap() {
  if (!is_map()) return;
  TrainedPrompt& map = encoder_tokens();
  const auto n = static_cast<int64_t>(map.parameters().size());
  std::vector<char> rounded(static_cast<size_t>(n * DTypeBytes(map.dtype())));
  ConvertElements(DType::kF32, map.parameters().data(), map.dtype(), rounded.data(), n);
  ConvertElements(map.dtype(), rounded.data(), DType::kF32, map.parameters().data(), n);
  map.Refresh();
}

void EncoderRun::EncodeAll() {
  std::vector<WindowMemory> windows;
  for (size_t i = 0; i < documents_.size(); ++i) AddWindows(static_cast<int32_t>(i), &windows);
  Encode(windows);
}

double EncoderRun::MeanLoss(bool held_out, bool with_memory) {
  std::vector<const TrainingExample*> all;
  for (const EncoderDocument& document : documents_) {
    for (const TrainingExample& example :
         held_out ? document.answers.held_out : document.answers.training) {
      all.push_back(&example);
    }
  }
  double sum = 0.0;
  int64_t num_rows = 0;
  const auto batch = static_cast<size_t>(settings_.rates.batch);
  for (size_t begin = 0; begin < all.size(); begin += batch) {
    std::vector<TrainingExample> examples;
    for (size_t i = begin; i < std::min(begin + batch, all.size()); ++i) {
      examples.push_back(*all[i]);
      if (!with_memory) examples.back().prompt = -1;
    }
    std::vector<const TrainingExample*> pointers;
    for (const TrainingExample& example : examples) pointers.push_back(&example);
    const auto losses =
        with_memory ? trainer_.Evaluate(pointers) : trainer_.EvaluateWithout(pointers);
    const TrainingLoss& loss = losses[static_cast<size_t>(decoder_)];
    sum += loss.tokens * static_cast<double>(loss.num_rows);
    num_rows += loss.num_rows;
  }
  return num_rows == 0 ? 0.0 : sum / static_cast<double>(num_rows);
}

EncoderRun::Scores EncoderRun::Evaluate() {
  Scores scores;
  double sum = 0.0, num_rows = 0.0;
  const size_t batch = slots_.size();
  for (size_t begin = 0; begin < windows_.size(); begin += batch) {
    std::vector<int32_t> windows(std::min(batch, windows_.size() - begin));
    std::iota(windows.begin(), windows.end(), static_cast<int32_t>(begin));
    double rows = 0.0;
    for (const int32_t window : windows) {
      rows += static_cast<double>(windows_[static_cast<size_t>(window)].example.rows.size());
    }
    sum += RunBehindWindows(WindowsAt(windows), false) * rows;
    num_rows += rows;
  }
  scores.reconstruction = sum / num_rows;
  scores.answers_without = MeanLoss(false, false);
  scores.answers = MeanLoss(false, true);
  scores.held_out_without = MeanLoss(true, false);
  scores.held_out = MeanLoss(true, true);
  return scores;
}

// Memories are not part of the state, because every step makes them anew.
std::vector<CheckpointPart> EncoderRun::State() {
  std::vector<CheckpointPart> parts;
  const auto add = [&](const std::string& name, auto& trained) {
    parts.push_back({name + ".parameters", trained.parameters()});
    parts.push_back({name + ".first_moments", trained.first_moments()});
    parts.push_back({name + ".second_moments", trained.second_moments()});
  };
  if (encoder_lora() != nullptr) add("encoder.lora", *encoder_lora());
  add("encoder.tokens", encoder_tokens());
  add("decoder", decoder());
  add("mark", *trainer_.prompt(mark_));
  return parts;
}

Status EncoderRun::SaveCheckpoint(const std::string& path) {
  return WriteCheckpoint(path, State(), identity_,
                         DumpJson({{"step", step_}, {"last_loss", last_loss_}}));
}

Result<bool> EncoderRun::Resume(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> checkpoint, Checkpoint::Open(path, identity_));
  if (!checkpoint.has_value()) return false;
  RETURN_IF_ERROR(checkpoint->Read(State()));
  RETURN_IF_ERROR(ReadState(checkpoint->state()).WithContext(path));
  for (const int32_t index : {encoder_, decoder_}) trainer_.set_num_updates(index, step_);
  trainer_.set_num_updates(mark_, std::min(step_, num_reconstructions_));
  if (encoder_lora() != nullptr) encoder_lora()->Refresh();
  encoder_tokens().Refresh();
  decoder().Refresh();
  trainer_.prompt(mark_)->Refresh();
  return true;
}

Status EncoderRun::ReadState(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  for (const char* key : {"step", "last_loss"}) {
    if (json.contains(key) && json[key].is_number()) continue;
    return InvalidArgumentError(std::string("no number \"") + key + "\"");
  }
  step_ = json["step"].get<int32_t>();
  if (step_ < 0 || step_ > num_steps()) return InvalidArgumentError("a step that the run has not");
  last_loss_ = json["last_loss"].get<double>();
  return OkStatus();
}

}  // namespace graft
