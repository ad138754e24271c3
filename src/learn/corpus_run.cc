#include "learn/corpus_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/shuffle.h"

namespace graft {
namespace {

constexpr int32_t kLikeliest = 20;        // of the base's likeliest tokens
constexpr int32_t kTokensAQuestion = 48;  // of a question and its answer, on average at most
constexpr int32_t kRead = 8;              // tokens of a piece that are not to be said
constexpr double kLatest = 0.05;          // what a step counts in the losses that are told
constexpr uint64_t kDrawsAStep = 4096;

int32_t RoomForQuestions(const CorpusSettings& settings) {
  return settings.questions * kTokensAQuestion + settings.question_tokens;
}

int32_t WindowsMax(const CorpusSettings& settings) {
  return (settings.document_tokens + settings.form.window_tokens - 1) / settings.form.window_tokens;
}

template <typename Range>
void Append(const Range& from, std::vector<int32_t>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

// The example says these tokens, which are its last ones.
void Say(std::span<const int32_t> said, TrainingExample* example) {
  for (const int32_t token : said) {
    example->rows.push_back(static_cast<int32_t>(example->tokens.size()) - 1);
    example->ids.push_back(token);
    example->probabilities.push_back(1.0f);
    example->tokens.push_back(token);
  }
}

// A row's choices: the base's likeliest tokens, and the token that the corpus has.
constexpr int32_t kChoices = kLikeliest + 1;

// One choice a row becomes kChoices, the others of no probability.
void Widen(TrainingExample* example) {
  std::vector<int32_t> ids;
  std::vector<float> probabilities;
  for (const int32_t id : example->ids) {
    ids.push_back(id);
    ids.resize(ids.size() + kChoices - 1, 0);
    probabilities.push_back(1.0f);
    probabilities.resize(ids.size(), 0.0f);
  }
  example->ids = std::move(ids);
  example->probabilities = std::move(probabilities);
  example->num_choices = kChoices;
}

double Later(double before, double now) {
  return before == 0.0 ? now : before + kLatest * (now - before);
}

}  // namespace

std::vector<EncoderStage> CurriculumOf(const std::vector<int32_t>& compressions) {
  CHECK(!compressions.empty());
  // Without compression only the decoder has something to learn: to read what stands elsewhere.
  const int32_t least = std::min(2, compressions.front());
  std::vector<EncoderStage> stages = {{0.02, 512, {1}}, {0.06, 128, {least}}, {0.12, 512, {least}}};
  std::vector<int32_t> rising;
  for (int32_t c = least; c < compressions.back(); c *= 2) rising.push_back(c);
  const double begin = 0.12, end = 0.5;
  for (size_t i = 0; i < rising.size(); ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(rising.size());
    stages.push_back({begin + (end - begin) * share, 0, {rising[i]}});
  }
  stages.push_back({1.0, 0, compressions});
  return stages;
}

int32_t CorpusRun::MemoryTokensMax(const CorpusSettings& settings) {
  int32_t most = 0;
  for (const EncoderStage& stage : settings.stages) {
    const int32_t tokens = stage.tokens == 0 ? settings.document_tokens
                                             : std::min(stage.tokens, settings.document_tokens);
    for (const int32_t compression : stage.compressions) {
      most = std::max(most, MemoryTokensOf(settings.start.size(), static_cast<size_t>(tokens),
                                           settings.form, compression));
    }
  }
  return most;
}

std::vector<TrainedShape> CorpusRun::ShapesOf(const CorpusSettings& settings) {
  const MemoryForm& form = settings.form;
  std::vector<TrainedShape> shapes = {
      {.rank = settings.rank, .virtual_tokens = EncoderTokensOf(form)},
      {.rank = settings.decoder_rank}};
  shapes.resize(shapes.size() + static_cast<size_t>(settings.rates.batch),
                {.virtual_tokens = MemoryTokensMax(settings),
                 .kind = form.carrier == MemoryCarrier::kStates ? VirtualTokenKind::kEmbedding
                                                                : VirtualTokenKind::kKeysValues});
  return shapes;
}

int32_t CorpusRun::RowsOfDocument(const CorpusSettings& settings) {
  const auto start = static_cast<int32_t>(settings.start.size());
  int32_t reading = settings.document_tokens + WindowsMax(settings) * start;
  if (settings.form.rows != MemoryRows::kPieces) reading += MemoryTokensMax(settings);
  const int32_t in_context = start + settings.document_tokens + RoomForQuestions(settings);
  int32_t decoding = RoomForQuestions(settings) +
                     settings.pieces * (settings.piece_tokens + settings.prompt_start);
  if (settings.form.carrier == MemoryCarrier::kStates) {
    decoding += TextsOfDocument(settings) * MemoryTokensMax(settings);
  }
  return std::max({reading, in_context, decoding});
}

int32_t CorpusRun::TextsOfDocument(const CorpusSettings& settings) {
  return std::max(settings.questions + settings.pieces, WindowsMax(settings));
}

CorpusRun::CorpusRun(Trainer& trainer, DocumentSource& source, const CorpusSettings& settings)
    : trainer_(trainer), source_(source), settings_(settings) {
  CHECK(!settings.stages.empty() && settings.prompt_start >= 0);
  for (const TrainedShape& shape : ShapesOf(settings)) slots_.push_back(trainer.Add(shape));
  encoder_ = slots_[0];
  decoder_ = slots_[1];
  slots_.erase(slots_.begin(), slots_.begin() + 2);
  encoder_lora().Initialize(settings.seed);
  decoder().Initialize(settings.seed + 1);
}

const EncoderStage& CorpusRun::stage() const {
  const double share = static_cast<double>(step_) / settings_.steps;
  for (const EncoderStage& stage : settings_.stages) {
    if (share < stage.until) return stage;
  }
  return settings_.stages.back();
}

Result<std::optional<TaughtDocument>> CorpusRun::Take() {
  ASSIGN_OR_RETURN(std::optional<TaughtDocument> document, source_.Next());
  if (document.has_value()) CHECK(!document->tokens.empty() && !document->questions.empty());
  return document;
}

Result<bool> CorpusRun::Begin(const std::string& checkpoint,
                              const std::function<Status(int64_t documents)>& skip) {
  while (std::ssize(held_out_) < settings_.held_out) {
    ASSIGN_OR_RETURN(std::optional<TaughtDocument> document, Take());
    if (!document.has_value()) {
      return InvalidArgumentError("the corpus has " + std::to_string(held_out_.size()) +
                                  " documents, and " + std::to_string(settings_.held_out) +
                                  " are held out");
    }
    held_out_.push_back(std::move(*document));
  }
  if (TrainedPrompt* const tokens = encoder_tokens()) {
    std::vector<int32_t> text;
    for (const TaughtDocument& document : held_out_) Append(document.tokens, &text);
    while (std::ssize(text) < tokens->num_tokens()) Append(settings_.start, &text);
    trainer_.BeginPrompt(encoder_, text);
  }
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> found,
                   Checkpoint::Open(checkpoint, settings_.identity));
  if (!found.has_value()) return false;
  RETURN_IF_ERROR(found->Read(State()));
  RETURN_IF_ERROR(ReadState(found->state()).WithContext(checkpoint));
  for (const int32_t index : {encoder_, decoder_}) trainer_.set_num_updates(index, step_);
  encoder_lora().Refresh();
  decoder().Refresh();
  if (TrainedPrompt* const tokens = encoder_tokens()) tokens->Refresh();
  RETURN_IF_ERROR(skip(num_documents_));
  return true;
}

// A part has a question, if any question's answer fits.
CorpusRun::Lesson CorpusRun::LessonOf(TaughtDocument document, int32_t tokens_max,
                                      int32_t compression, Random& random) {
  const auto size = static_cast<int32_t>(document.tokens.size());
  const int32_t count = std::min({size, tokens_max, settings_.document_tokens});
  const TaughtQuestion& within = document.questions[random.Below(document.questions.size())];
  const int32_t low = std::clamp(within.end - count, 0, size - count);
  const int32_t high = std::clamp(within.begin, low, size - count);
  const int32_t begin =
      low + static_cast<int32_t>(random.Below(static_cast<uint64_t>(high - low + 1)));
  const int32_t end = begin + count;
  Lesson lesson;
  lesson.tokens.assign(document.tokens.begin() + begin, document.tokens.begin() + end);
  lesson.following.assign(document.tokens.begin() + end,
                          document.tokens.begin() + std::min(size, end + settings_.piece_tokens));
  Shuffle(document.questions, random);
  int32_t room = settings_.questions * kTokensAQuestion;
  for (TaughtQuestion& question : document.questions) {
    const auto tokens = static_cast<int32_t>(
        std::max(question.behind.size(), question.prompt.size()) + question.answer.size());
    const bool is_within = question.begin >= begin && question.end <= end;
    if (!is_within || tokens > settings_.question_tokens || tokens > room) continue;
    if (std::ssize(lesson.questions) == settings_.questions) break;
    room -= tokens;
    lesson.questions.push_back(std::move(question));
  }
  lesson.reading = ReadingOf(settings_.start, lesson.tokens, settings_.form, compression);
  return lesson;
}

CorpusRun::Asked CorpusRun::Ask(const Lesson& lesson, int32_t first, int32_t count,
                                bool in_context) const {
  Asked asked;
  TrainingExample& example = asked.example;
  example.adapter = decoder_;
  if (in_context) {
    Append(settings_.start, &example.tokens);
    Append(lesson.tokens, &example.tokens);
  }
  for (int32_t i = first; i < first + count; ++i) {
    const TaughtQuestion& question = lesson.questions[static_cast<size_t>(i)];
    if (i == first) {
      Append(in_context ? question.behind : question.prompt, &example.tokens);
    } else {
      Append(std::span(question.prompt).subspan(static_cast<size_t>(settings_.prompt_start)),
             &example.tokens);
    }
    asked.answers.push_back({i, static_cast<int32_t>(example.rows.size()),
                             static_cast<int32_t>(question.answer.size())});
    Say(question.answer, &example);
  }
  return asked;
}

TrainingExample CorpusRun::PieceOf(const Lesson& lesson, Random& random) const {
  std::vector<int32_t> text = lesson.tokens;
  Append(lesson.following, &text);
  const size_t count = std::min(text.size(), static_cast<size_t>(settings_.piece_tokens));
  const auto begin = static_cast<size_t>(random.Below(text.size() - count + 1));
  const std::span<const int32_t> piece = std::span(text).subspan(begin, count);
  const size_t read = std::min(count - 1, static_cast<size_t>(kRead));
  TrainingExample example;
  example.adapter = decoder_;
  example.weight = settings_.piece_weight;
  Append(std::span(settings_.start).first(static_cast<size_t>(settings_.prompt_start)),
         &example.tokens);
  Append(piece.first(read), &example.tokens);
  Say(piece.subspan(read), &example);
  Widen(&example);
  return example;
}

void CorpusRun::SetMemory(const Lesson& lesson, TrainingExample* example) const {
  example->prompt = lesson.slot;
  example->prompt_tokens = lesson.reading.memory_tokens;
}

// Gives the rows of `together` answers from `first` on the choices that the base has for them.
void CorpusRun::TeachRows(const Asked& read, const TrainingChoices& said, int32_t first,
                          int32_t together, TrainingExample* example) const {
  example->num_choices = kChoices;
  example->ids.clear();
  example->probabilities.clear();
  const float share = settings_.corpus_share;
  for (int32_t i = first; i < first + together; ++i) {
    const AnswerPlace& place = read.answers[static_cast<size_t>(i)];
    for (int32_t row = place.first_row; row < place.first_row + place.num_rows; ++row) {
      for (int32_t j = row * kLikeliest; j < (row + 1) * kLikeliest; ++j) {
        example->ids.push_back(said.ids[static_cast<size_t>(j)]);
        example->probabilities.push_back((1.0f - share) *
                                         said.probabilities[static_cast<size_t>(j)]);
      }
      example->ids.push_back(read.example.ids[static_cast<size_t>(row)]);
      example->probabilities.push_back(share);
    }
  }
}

// The base's reading of each lesson says what the decoder learns to say. Its questions stand in the
// groups that are drawn.
std::vector<TrainingExample> CorpusRun::Teach(const std::vector<Lesson>& lessons, Random& random) {
  std::vector<Asked> read;
  std::vector<const TrainingExample*> pointers;
  for (const Lesson& lesson : lessons) {
    if (lesson.questions.empty()) continue;
    read.push_back(Ask(lesson, 0, static_cast<int32_t>(lesson.questions.size()), true));
  }
  for (const Asked& asked : read) pointers.push_back(&asked.example);
  const std::vector<TrainingChoices> said = pointers.empty()
                                                ? std::vector<TrainingChoices>()
                                                : trainer_.Choose(pointers, kLikeliest, false);
  std::vector<TrainingExample> taught;
  size_t at = 0;
  for (const Lesson& lesson : lessons) {
    const auto count = static_cast<int32_t>(lesson.questions.size());
    for (int32_t first = 0; first < count;) {
      const auto drawn = 1 + static_cast<int32_t>(
                                 random.Below(static_cast<uint64_t>(settings_.questions_together)));
      const int32_t together = std::min(drawn, count - first);
      TrainingExample example = Ask(lesson, first, together, false).example;
      TeachRows(read[at], said[at], first, together, &example);
      SetMemory(lesson, &example);
      taught.push_back(std::move(example));
      first += together;
    }
    if (count > 0) ++at;
  }
  return taught;
}

CorpusRun::Texts CorpusRun::TextsOf(const std::vector<Lesson>& lessons) {
  Texts texts;
  for (const Lesson& lesson : lessons) {
    for (size_t i = 0; i < lesson.reading.windows.size(); ++i) {
      const auto& rows = lesson.reading.rows[i];
      texts.read.push_back(
          {lesson.reading.windows[i], lesson.slot, rows, lesson.reading.is_between});
      texts.states.push_back({lesson.reading.windows[i], lesson.slot, rows.front().token});
    }
  }
  return texts;
}

void CorpusRun::Encode(const std::vector<Lesson>& lessons) {
  const Texts texts = TextsOf(lessons);
  if (has_states()) return trainer_.Encode(encoder_, texts.states);
  trainer_.EncodeKeysValues(encoder_, texts.read);
}

void CorpusRun::BackwardEncoder(const std::vector<Lesson>& lessons) {
  const Texts texts = TextsOf(lessons);
  if (has_states()) return trainer_.BackwardEncoder(encoder_, texts.states);
  trainer_.BackwardKeysValues(encoder_, texts.read);
}

Status CorpusRun::Step() {
  CHECK(!is_done());
  Random random(RandomBits(settings_.seed, static_cast<uint64_t>(step_) * kDrawsAStep));
  const EncoderStage& now = stage();
  const int32_t compression = now.compressions[random.Below(now.compressions.size())];
  const int32_t tokens_max = now.tokens == 0 ? settings_.document_tokens : now.tokens;
  std::vector<Lesson> lessons;
  for (const int32_t slot : slots_) {
    ASSIGN_OR_RETURN(std::optional<TaughtDocument> document, Take());
    if (!document.has_value()) {
      is_empty_ = true;
      return Status(StatusCode::kOutOfRange, "the corpus has no more documents");
    }
    ++num_documents_;
    Lesson lesson = LessonOf(std::move(*document), tokens_max, compression, random);
    lesson.slot = slot;
    num_tokens_ += std::ssize(lesson.tokens);
    // A memory that nothing is said behind has no gradient.
    const bool has_pieces = settings_.pieces > 0 && lesson.tokens.size() > 1;
    if (has_pieces || !lesson.questions.empty()) lessons.push_back(std::move(lesson));
  }
  ++step_;
  if (!lessons.empty()) Learn(lessons, random);
  return OkStatus();
}

void CorpusRun::Learn(const std::vector<Lesson>& lessons, Random& random) {
  std::vector<TrainingExample> examples = Teach(lessons, random);
  const size_t num_answers = examples.size();
  for (const Lesson& lesson : lessons) {
    for (int32_t i = 0; i < settings_.pieces && lesson.tokens.size() > 1; ++i) {
      examples.push_back(PieceOf(lesson, random));
      SetMemory(lesson, &examples.back());
    }
  }
  Encode(lessons);
  std::vector<const TrainingExample*> pointers;
  for (const TrainingExample& example : examples) pointers.push_back(&example);
  const auto [answers, pieces] = trainer_.AccumulateTwo(pointers, num_answers);
  if (num_answers > 0) answer_loss_ = Later(answer_loss_, answers);
  if (num_answers < examples.size()) piece_loss_ = Later(piece_loss_, pieces);
  BackwardEncoder(lessons);
  const LearnerRates& rates = settings_.rates;
  const auto settings_at = [&](double rate) {
    return rates.SettingsAt(rate, step_ - 1, settings_.steps);
  };
  const UpdateSettings lora = settings_at(rates.learning_rate);
  const UpdateSettings tokens = settings_at(rates.prompt_learning_rate);
  const Trainer::Update updates[] = {{encoder_, lora, tokens}, {decoder_, lora, tokens}};
  trainer_.Apply(updates);
}

// In groups of as many as there is room for.
std::vector<std::vector<CorpusRun::Lesson>> CorpusRun::HeldOutLessons(int32_t compression) {
  std::vector<std::vector<Lesson>> groups;
  for (size_t i = 0; i < held_out_.size(); ++i) {
    if (i % slots_.size() == 0) groups.emplace_back();
    Random random(RandomBits(settings_.seed, kDrawsAStep - 1 - i % (kDrawsAStep - 1)));
    Lesson lesson = LessonOf(held_out_[i], settings_.document_tokens, compression, random);
    lesson.slot = slots_[i % slots_.size()];
    groups.back().push_back(std::move(lesson));
  }
  return groups;
}

int32_t CorpusRun::NumRight(const std::vector<Asked>& asked, bool with_adapters) {
  std::vector<const TrainingExample*> pointers;
  for (const Asked& one : asked) pointers.push_back(&one.example);
  if (pointers.empty()) return 0;
  const std::vector<TrainingChoices> said = trainer_.Choose(pointers, 1, with_adapters);
  int32_t right = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    for (const AnswerPlace& place : asked[i].answers) {
      const auto begin = said[i].ids.begin() + place.first_row;
      const auto wanted = asked[i].example.ids.begin() + place.first_row;
      right += std::equal(begin, begin + place.num_rows, wanted) ? 1 : 0;
    }
  }
  return right;
}

int32_t CorpusRun::CountRight(const std::vector<Lesson>& lessons, bool in_context) {
  std::vector<Asked> asked;
  for (const Lesson& lesson : lessons) {
    const auto count = static_cast<int32_t>(lesson.questions.size());
    if (in_context && count > 0) asked.push_back(Ask(lesson, 0, count, true));
    for (int32_t i = 0; i < count && !in_context; ++i) asked.push_back(Ask(lesson, i, 1, false));
  }
  return NumRight(asked, false);
}

// Behind the memory of the lesson that is `shift` further.
int32_t CorpusRun::CountRightBehind(const std::vector<Lesson>& lessons, size_t shift) {
  std::vector<Asked> asked;
  for (size_t i = 0; i < lessons.size(); ++i) {
    for (int32_t j = 0; j < std::ssize(lessons[i].questions); ++j) {
      asked.push_back(Ask(lessons[i], j, 1, false));
      SetMemory(lessons[(i + shift) % lessons.size()], &asked.back().example);
    }
  }
  return NumRight(asked, true);
}

CorpusRun::Look CorpusRun::LookAt(int32_t compression) {
  Look look{.compression = compression};
  int32_t without = 0, in_context = 0, memory = 0, other = 0;
  for (const std::vector<Lesson>& lessons : HeldOutLessons(compression)) {
    for (const Lesson& lesson : lessons) {
      look.num_questions += static_cast<int32_t>(lesson.questions.size());
    }
    if (!base_right_.has_value()) {
      without += CountRight(lessons, false);
      in_context += CountRight(lessons, true);
    }
    Encode(lessons);
    memory += CountRightBehind(lessons, 0);
    other += CountRightBehind(lessons, 1);
  }
  if (!base_right_.has_value()) base_right_ = {without, in_context};
  if (look.num_questions == 0) return look;
  const auto share = [&](int32_t right) { return static_cast<double>(right) / look.num_questions; };
  look.without = share(base_right_->first);
  look.in_context = share(base_right_->second);
  look.memory = share(memory);
  look.other = share(other);
  return look;
}

// Memories are not part of the state, because every step makes them anew.
std::vector<CheckpointPart> CorpusRun::State() {
  std::vector<CheckpointPart> parts;
  const auto add = [&](const std::string& name, auto& trained) {
    parts.push_back({name + ".parameters", trained.parameters()});
    parts.push_back({name + ".first_moments", trained.first_moments()});
    parts.push_back({name + ".second_moments", trained.second_moments()});
  };
  add("encoder.lora", encoder_lora());
  if (TrainedPrompt* const tokens = encoder_tokens()) add("encoder.tokens", *tokens);
  add("decoder", decoder());
  return parts;
}

Status CorpusRun::SaveCheckpoint(const std::string& path) {
  return WriteCheckpoint(path, State(), settings_.identity,
                         DumpJson({{"step", step_},
                                   {"documents", num_documents_},
                                   {"tokens", num_tokens_},
                                   {"answer_loss", answer_loss_},
                                   {"piece_loss", piece_loss_}}));
}

Status CorpusRun::ReadState(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  for (const char* key : {"step", "documents", "tokens", "answer_loss", "piece_loss"}) {
    if (json.contains(key) && json[key].is_number()) continue;
    return InvalidArgumentError(std::string("no number \"") + key + "\"");
  }
  step_ = json["step"].get<int32_t>();
  if (step_ < 0 || step_ > settings_.steps) {
    return InvalidArgumentError("a step that the run has not");
  }
  num_documents_ = json["documents"].get<int64_t>();
  num_tokens_ = json["tokens"].get<int64_t>();
  answer_loss_ = json["answer_loss"].get<double>();
  piece_loss_ = json["piece_loss"].get<double>();
  return OkStatus();
}

}  // namespace graft
