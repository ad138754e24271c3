#include "learn/encoder_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/shuffle.h"

namespace graft {
namespace {

// Windows side by side: what overlaps would be said twice.
std::vector<DocumentWindow> SidesOf(size_t num_tokens, int32_t window_tokens) {
  std::vector<DocumentWindow> windows = WindowsOf(static_cast<int64_t>(num_tokens), window_tokens);
  for (DocumentWindow& window : windows) window.begin = window.fresh;
  return windows;
}

// The row before a token says it; the last one says that the window has ended.
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

}  // namespace

int32_t EncoderRun::WindowsMax(std::span<const size_t> document_tokens, int32_t window_tokens) {
  size_t most = 0;
  for (const size_t tokens : document_tokens) {
    most = std::max(most, SidesOf(tokens, window_tokens).size());
  }
  return static_cast<int32_t>(most);
}

EncoderRun::EncoderRun(Trainer& trainer, std::vector<EncoderDocument> documents,
                       const EncoderSettings& settings)
    : trainer_(trainer), documents_(std::move(documents)), settings_(settings) {
  const int32_t k = settings.memory_tokens;
  encoder_ = trainer.Add({.rank = settings.rank, .virtual_tokens = k});
  decoder_ = trainer.Add({.rank = settings.rank});
  mark_ = trainer.Add({.virtual_tokens = 1});
  trainer.lora(encoder_)->Initialize(settings.seed);
  trainer.lora(decoder_)->Initialize(settings.seed + 1);
  for (int32_t i = 0; i < settings.rates.batch; ++i) {
    slots_.push_back(trainer.Add({.virtual_tokens = k + 1}));
  }
  std::vector<int32_t> all;
  for (size_t i = 0; i < documents_.size(); ++i) {
    const auto document = static_cast<int32_t>(i);
    const std::vector<int32_t>& tokens = documents_[i].tokens;
    all.insert(all.end(), tokens.begin(), tokens.end());
    const auto sides = SidesOf(tokens.size(), settings.window_tokens);
    for (const DocumentWindow& side : sides) {
      const auto text = std::span(tokens).subspan(static_cast<size_t>(side.begin),
                                                  static_cast<size_t>(side.end - side.begin));
      windows_.push_back({document, Reconstruction(text, settings.end_token)});
    }
    memories_.push_back(trainer.Add({.virtual_tokens = k * static_cast<int32_t>(sides.size())}));
    for (std::vector<TrainingExample>* examples :
         {&documents_[i].answers.training, &documents_[i].answers.held_out}) {
      for (TrainingExample& example : *examples) {
        example.adapter = decoder_;
        example.prompt = memories_.back();
      }
    }
    for (const TrainingExample& example : documents_[i].answers.training) {
      answers_.push_back({document, &example});
    }
  }
  while (all.size() < static_cast<size_t>(k)) all.push_back(all.front());
  trainer.BeginPrompt(encoder_, all);
  trainer.BeginPrompt(mark_, all);
  num_reconstructions_ = settings.rates.StepsFor(windows_.size());
  if (settings.has_answers) num_answers_ = settings.rates.StepsFor(answers_.size());
}

std::vector<int32_t> EncoderRun::Drawn(int32_t step, int32_t count, uint64_t stage) {
  const int64_t begin = int64_t{step} * settings_.rates.batch;
  const int64_t end =
      std::min<int64_t>(begin + settings_.rates.batch, int64_t{count} * settings_.rates.passes);
  std::vector<int32_t> drawn;
  for (int64_t visit = begin; visit < end; ++visit) {
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const auto pass = static_cast<uint64_t>(visit / count);
    Random random(RandomBits(settings_.seed + stage, pass));
    Shuffle(order, random);
    const int32_t index = order[static_cast<size_t>(visit % count)];
    // Two of one window would share its memory.
    if (std::find(drawn.begin(), drawn.end(), index) == drawn.end()) drawn.push_back(index);
  }
  return drawn;
}

void EncoderRun::Step() {
  CHECK_LT(step_, num_steps());
  if (step_ < num_reconstructions_) {
    StepReconstruction(Drawn(step_, static_cast<int32_t>(windows_.size()), 0));
  } else {
    StepAnswers(Drawn(step_ - num_reconstructions_, static_cast<int32_t>(answers_.size()), 1));
  }
  ++step_;
}

double EncoderRun::Reconstruct(std::span<const int32_t> windows, bool learns) {
  TrainedPrompt& mark = *trainer_.prompt(mark_);
  std::vector<TrainingExample> examples;
  std::vector<EncodedText> texts;
  for (size_t i = 0; i < windows.size(); ++i) {
    examples.push_back(windows_[static_cast<size_t>(windows[i])].example);
    examples.back().adapter = decoder_;
    examples.back().prompt = slots_[i];
    TrainedPrompt& slot = *trainer_.prompt(slots_[i]);
    std::copy(mark.parameters().begin(), mark.parameters().end(),
              slot.parameters().end() - mark.columns());
  }
  std::vector<const TrainingExample*> pointers;
  for (size_t i = 0; i < examples.size(); ++i) {
    texts.push_back({examples[i].tokens, slots_[i], 0});
    pointers.push_back(&examples[i]);
  }
  trainer_.Encode(encoder_, texts);
  const auto decoder = static_cast<size_t>(decoder_);
  if (!learns) return trainer_.Evaluate(pointers)[decoder].tokens;
  const double loss = trainer_.Accumulate(pointers)[decoder].tokens;
  trainer_.BackwardEncoder(encoder_, texts);
  mark.ZeroGradients();
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto gradients = trainer_.prompt(slots_[i])->gradients();
    const float* from = gradients.data() + gradients.size() - mark.columns();
    for (int64_t j = 0; j < mark.columns(); ++j) {
      mark.gradients()[static_cast<size_t>(j)] += from[j];
    }
  }
  return loss;
}

void EncoderRun::StepReconstruction(std::span<const int32_t> windows) {
  last_loss_ = Reconstruct(windows, true);
  Apply(step_, num_reconstructions_, true);
}

std::vector<EncodedText> EncoderRun::TextsOf(int32_t document) const {
  std::vector<EncodedText> texts;
  for (const Window& window : windows_) {
    if (window.document != document) continue;
    texts.push_back({window.example.tokens, memories_[static_cast<size_t>(document)],
                     static_cast<int32_t>(texts.size()) * settings_.memory_tokens});
  }
  return texts;
}

void EncoderRun::StepAnswers(std::span<const int32_t> answers) {
  std::vector<const TrainingExample*> examples;
  std::vector<int32_t> documents;
  std::vector<EncodedText> texts;
  for (const int32_t index : answers) {
    const Answer& answer = answers_[static_cast<size_t>(index)];
    examples.push_back(answer.example);
    if (std::find(documents.begin(), documents.end(), answer.document) != documents.end()) continue;
    documents.push_back(answer.document);
    for (const EncodedText& text : TextsOf(answer.document)) texts.push_back(text);
  }
  trainer_.Encode(encoder_, texts);
  last_loss_ = trainer_.Accumulate(examples)[static_cast<size_t>(decoder_)].tokens;
  trainer_.BackwardEncoder(encoder_, texts);
  Apply(step_ - num_reconstructions_, num_answers_, false);
}

// Rates rise and fall in either stage.
void EncoderRun::Apply(int32_t step, int32_t num_steps, bool with_mark) {
  const LearnerRates& rates = settings_.rates;
  const auto warmup = static_cast<int32_t>(std::ceil(rates.warmup_share * num_steps));
  const double share = step < warmup ? static_cast<double>(step + 1) / (warmup + 1)
                                     : static_cast<double>(num_steps - step) / (num_steps - warmup);
  const auto settings = [&](double rate) {
    return UpdateSettings{.learning_rate = static_cast<float>(rate * share),
                          .weight_decay = rates.weight_decay,
                          .norm_max = rates.norm_max};
  };
  const UpdateSettings lora = settings(rates.learning_rate);
  const UpdateSettings tokens = settings(rates.prompt_learning_rate);
  std::vector<Trainer::Update> updates = {{encoder_, lora, tokens}, {decoder_, lora, tokens}};
  if (with_mark) updates.push_back({mark_, lora, tokens});
  trainer_.Apply(updates);
}

void EncoderRun::EncodeAll() {
  for (size_t i = 0; i < documents_.size(); ++i) {
    trainer_.Encode(encoder_, TextsOf(static_cast<int32_t>(i)));
  }
}

double EncoderRun::MeanLoss(bool held_out, bool with_memory) {
  double sum = 0.0;
  int64_t num_rows = 0;
  for (const EncoderDocument& document : documents_) {
    const auto& examples = held_out ? document.answers.held_out : document.answers.training;
    for (TrainingExample example : examples) {
      if (!with_memory) example.prompt = -1;
      const TrainingExample* const one[] = {&example};
      const auto losses = with_memory ? trainer_.Evaluate(one) : trainer_.EvaluateWithout(one);
      const TrainingLoss& loss = losses[static_cast<size_t>(decoder_)];
      sum += loss.tokens * static_cast<double>(loss.num_rows);
      num_rows += loss.num_rows;
    }
  }
  return num_rows == 0 ? 0.0 : sum / static_cast<double>(num_rows);
}

EncoderRun::Scores EncoderRun::Evaluate() {
  Scores scores;
  double sum = 0.0;
  for (size_t i = 0; i < windows_.size(); ++i) {
    const int32_t one[] = {static_cast<int32_t>(i)};
    sum += Reconstruct(one, false);
  }
  scores.reconstruction = sum / static_cast<double>(windows_.size());
  scores.answers_without = MeanLoss(false, false);
  scores.answers = MeanLoss(false, true);
  scores.held_out_without = MeanLoss(true, false);
  scores.held_out = MeanLoss(true, true);
  return scores;
}

}  // namespace graft
