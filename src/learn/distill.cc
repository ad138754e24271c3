// The learner distill: Deep Context Distillation (arXiv 2503.08727). The teacher is the base model
// with a window of the document in its context. The student is the adapter, without the window. The
// student learns to predict each text as the teacher does. There are three kinds of texts: what the
// base writes about a window; its answers to questions that it wrote about the window, put as users
// will put them; and the document itself, where the teacher reads half a window and the text is the
// half that follows. The teacher's likeliest tokens are stored once; training visits each text many
// times.
#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/learner.h"

namespace graft {
namespace {

constexpr size_t kDocumentTokensMin = 8;  // a document needs these to be asked about
constexpr size_t kTaughtTokensMin = 4;    // a text needs these to be worth an example
constexpr size_t kExamplesToHoldOut = 8;
// At least kAskedMin questions are asked and not taught, or one of kOwnOfAsked if that is less.
constexpr size_t kAskedMin = 8;
constexpr size_t kOwnOfAsked = 8;
constexpr float kRestMin = 1e-3f;    // less is the rounding error of a sum
constexpr int32_t kKeptTokens = 64;  // of a text that has nothing to do with the document
constexpr size_t kOwnOfKept = 8;     // texts of the document for each such text, at least
// An order has this many times as many texts as are written side by side. Smaller orders would more
// often leave places empty. Larger ones would need memory for texts that are not examples yet.
constexpr size_t kRoundsOfOrder = 16;

std::vector<int32_t> Joined(std::vector<int32_t> first, std::span<const int32_t> second) {
  first.reserve(first.size() + second.size());
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What the teacher reads and writes, and what the student reads before the same text.
struct Lesson {
  WriteOrder order;
  std::vector<int32_t> student_prompt;
};

// Which tokens get the probability that the teacher's likeliest tokens leave.
enum class Rest : uint8_t {
  kLeft,   // none: the adapter learns only what is likely
  kSpare,  // none, beside examples that are kTaught
  kTaught  // all others together: the adapter becomes as the teacher is
};

TrainingExample ExampleOf(const Lesson& lesson, const TaughtText& text, int32_t num_choices,
                          Rest rest) {
  TrainingExample example;
  example.num_choices = num_choices + (rest == Rest::kLeft ? 0 : 1);
  example.tokens = Joined(lesson.student_prompt, text.tokens);
  const auto before = static_cast<int32_t>(lesson.student_prompt.size());
  example.num_prompt_tokens = before;
  const size_t n = text.tokens.size();
  example.rows.reserve(n);
  example.ids.reserve(n * static_cast<size_t>(example.num_choices));
  example.probabilities.reserve(n * static_cast<size_t>(example.num_choices));
  for (size_t i = 0; i < n; ++i) {
    const int32_t row = before + static_cast<int32_t>(i) - 1;
    if (row < 0) continue;  // nothing stands before it
    example.rows.push_back(row);
    const auto k = static_cast<size_t>(num_choices);
    float left = 1.0f;
    for (size_t j = i * k; j < (i + 1) * k; ++j) {
      example.ids.push_back(text.ids[j]);
      example.probabilities.push_back(text.probabilities[j]);
      left -= text.probabilities[j];
    }
    if (rest == Rest::kLeft) continue;
    example.ids.push_back(kTokenRest);
    example.probabilities.push_back(rest == Rest::kTaught && left > kRestMin ? left : 0.0f);
  }
  return example;
}

class DistillLearner : public Learner {
 public:
  explicit DistillLearner(DistillSettings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "distill"; }
  LearnerRates rates() const override {
    return {.learning_rate = 2e-3, .passes = 6, .batch = 8, .keeps_best = true};
  }
  bool writes() const override { return true; }
  // The document's own text stands behind what texts begin with.
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    size_t longest = 0;
    for (const DistillPrompt& prompt : settings_.prompts) {
      longest = std::max(longest, prompt.student.size());
    }
    return std::max({static_cast<int32_t>(longest) + settings_.output_tokens,
                     settings_.start_tokens + window_tokens / 2, QuestionTokensMax(),
                     KeptTokensMax()});
  }
  int32_t TeacherTokensMax(int32_t window_tokens) const override {
    size_t longest = 0;
    for (const DistillPrompt& prompt : settings_.prompts) {
      longest = std::max(longest, prompt.before.size() + prompt.behind.size());
    }
    if (asks()) {
      const DistillPrompt& writes = settings_.form->writes();
      longest = std::max(longest, writes.before.size() + writes.behind.size());
    }
    return std::max({static_cast<int32_t>(longest) + window_tokens + settings_.output_tokens,
                     settings_.start_tokens + window_tokens, window_tokens + QuestionTokensMax(),
                     KeptTokensMax()});
  }

  LearnerDataSize DataMax(const LearnerInput& input, int32_t num_choices) const override {
    const auto num_tokens = static_cast<int64_t>(input.tokens.size());
    const auto num_windows =
        static_cast<int64_t>(WindowsOf(num_tokens, input.window_tokens).size());
    const int32_t choices = num_choices + 1;  // one more for the rest, where that is taught
    LearnerDataSize size;
    for (const DistillPrompt& prompt : settings_.prompts) {
      size.Add(num_windows * settings_.outputs, static_cast<int64_t>(prompt.student.size()),
               settings_.output_tokens, choices);
    }
    if (asks()) {
      const int32_t questions = QuestionsOfWhole(input);
      size.Add(num_windows * questions, settings_.form->prompt_tokens_max(),
               settings_.form->answer_tokens_max(), choices);
      // The texts in which questions are found are written, but they are no examples.
      LearnerDataSize written;
      written.Add(num_windows * static_cast<int64_t>(TextsOfQuestions(questions)), 0,
                  settings_.output_tokens, choices);
      size.bytes += written.bytes;
    }
    const int32_t half = input.window_tokens / 2;
    size.Add((num_tokens + half - 1) / half, settings_.start_tokens, half, choices);
    const int64_t start = KeptTokensMax() - kKeptTokens;
    const int64_t of_pass = std::min(int64_t{num_kept()}, size.examples / int64_t{kOwnOfKept});
    size.Add(of_pass * settings_.kept_passes, start, kKeptTokens, choices);
    return size;
  }

  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    CHECK(writer != nullptr);
    if (input.tokens.size() < kDocumentTokensMin) {
      return InvalidArgumentError("the document has " + std::to_string(input.tokens.size()) +
                                  " tokens, too few to be asked about");
    }
    const auto windows = WindowsOf(static_cast<int64_t>(input.tokens.size()), input.window_tokens);
    std::vector<TrainingExample> examples, answers;
    const size_t at_once = WindowsAtOnce(input, writer->orders_at_once());
    for (size_t begin = 0; begin < windows.size(); begin += at_once) {
      const Part part = {windows, begin, std::min(begin + at_once, windows.size())};
      writer->Announce("texts");
      RETURN_IF_ERROR(Teach(Study(input, part), kTaughtTokensMin, *writer, &examples));
      ASSIGN_OR_RETURN(const std::vector<Lesson> questions, AskQuestions(input, part, *writer));
      RETURN_IF_ERROR(Answer(questions, *writer, &answers));
    }
    writer->Announce("the document's own text");
    RETURN_IF_ERROR(ReadAloud(input, *writer, &examples));
    if (examples.empty() && answers.empty()) {
      return InvalidArgumentError("the document has " + std::to_string(input.tokens.size()) +
                                  " tokens, and the base wrote nothing about them");
    }
    const size_t kept_max = (examples.size() + answers.size()) / kOwnOfKept;
    LearnerData data = HoldOut(std::move(examples), std::move(answers), input.held_out_share);
    RETURN_IF_ERROR(AddKept(input, kept_max, *writer, &data));
    return data;
  }

 private:
  bool asks() const { return settings_.form != nullptr && settings_.questions > 0; }
  int32_t QuestionTokensMax() const {
    return asks() ? settings_.form->prompt_tokens_max() + settings_.form->answer_tokens_max() : 0;
  }

  // All examples of one step must have as many choices each.
  Rest own_rest() const { return num_kept() > 0 ? Rest::kSpare : Rest::kLeft; }
  int32_t num_kept() const {
    return settings_.kept_starts.empty() && settings_.kept_texts.empty() ? 0 : settings_.kept;
  }
  int32_t KeptTokensMax() const {
    if (num_kept() == 0) return 0;
    auto longest = static_cast<size_t>(settings_.start_tokens);
    for (const auto& start : settings_.kept_starts) longest = std::max(longest, start.size());
    return static_cast<int32_t>(longest) + kKeptTokens;
  }

  // Adds texts that must stay as likely as to the base. Teacher and student read the same.
  Status AddKept(const LearnerInput& input, size_t kept_max, TextWriter& writer,
                 LearnerData* data) const {
    const size_t of_pass = std::min(kept_max, static_cast<size_t>(num_kept()));
    size_t wanted = of_pass * static_cast<size_t>(settings_.kept_passes);
    if (settings_.visits > 0) {
      const auto visited = static_cast<size_t>(settings_.visits) / kOwnOfKept;
      wanted = std::min(wanted, std::max(of_pass, visited));
    }
    const std::vector<Lesson> lessons =
        settings_.kept_texts.empty() ? KeptToWrite(input, wanted) : KeptAsGiven(input, wanted);
    if (lessons.empty()) return OkStatus();
    writer.Announce("texts to keep");
    ASSIGN_OR_RETURN(std::vector<TaughtText> texts, WriteAll(lessons, writer));
    for (size_t i = 0; i < lessons.size(); ++i) {
      const TaughtText text = std::move(texts[i]);
      if (text.tokens.empty()) continue;
      data->kept.push_back(ExampleOf(lessons[i], text, writer.num_choices(), Rest::kTaught));
      data->kept.back().weight = settings_.kept_weight;
    }
    data->kept_of_pass = static_cast<int32_t>(std::min(of_pass, data->kept.size()));
    return OkStatus();
  }

  // Texts that the base writes without the document, drawn from its own distribution.
  std::vector<Lesson> KeptToWrite(const LearnerInput& input, size_t wanted) const {
    std::vector<Lesson> lessons;
    for (size_t i = 0; i < wanted; ++i) {
      const auto& start = settings_.kept_starts[i % settings_.kept_starts.size()];
      lessons.push_back({{.prompt = start,
                          .tokens_max = kKeptTokens,
                          .seed = RandomBits(input.seed + 1, i),
                          .top_p = 1.0f},
                         start});
    }
    return lessons;
  }

  // The texts' first pieces, then their second ones, and so on.
  std::vector<Lesson> KeptAsGiven(const LearnerInput& input, size_t wanted) const {
    std::vector<Lesson> lessons;
    bool is_behind_all = false;
    for (size_t begin = 0; lessons.size() < wanted && !is_behind_all; begin += kKeptTokens) {
      is_behind_all = true;
      for (const std::vector<int32_t>& text : settings_.kept_texts) {
        if (begin + kTaughtTokensMin > text.size() || lessons.size() == wanted) continue;
        is_behind_all = false;
        const size_t count = std::min<size_t>(kKeptTokens, text.size() - begin);
        const std::vector<int32_t> whole =
            Joined(input.start, std::span(text).subspan(begin, count));
        // Something must stand before the first token that is looked at.
        const auto first = whole.begin() + std::max<std::ptrdiff_t>(1, std::ssize(input.start));
        const std::vector<int32_t> start(whole.begin(), first);
        lessons.push_back({{.prompt = start, .given = {first, whole.end()}}, start});
      }
    }
    return lessons;
  }

  static Result<std::vector<TaughtText>> WriteAll(const std::vector<Lesson>& lessons,
                                                  TextWriter& writer) {
    std::vector<WriteOrder> orders;
    for (const Lesson& lesson : lessons) orders.push_back(lesson.order);
    ASSIGN_OR_RETURN(std::vector<TaughtText> texts, writer.Write(orders));
    CHECK_EQ(texts.size(), lessons.size());
    return texts;
  }

  // Some of a document's windows. Their texts are ordered together.
  struct Part {
    std::span<const DocumentWindow> windows;  // all of the document's
    size_t begin, end;
  };
  size_t WindowsAtOnce(const LearnerInput& input, size_t orders_at_once) const {
    const int32_t questions = asks() ? QuestionsOfWhole(input) : 0;
    const size_t of_window = settings_.prompts.size() * static_cast<size_t>(settings_.outputs) +
                             (asks() ? TextsOfQuestions(questions) : 0) +
                             static_cast<size_t>(questions);
    return std::max<size_t>(1, kRoundsOfOrder * orders_at_once / std::max<size_t>(1, of_window));
  }
  size_t TextsOfQuestions(int32_t questions) const {
    const int32_t each = settings_.form->questions_a_text();
    return static_cast<size_t>((questions + each - 1) / each);
  }
  // Few steps visit few questions, and the others are not worth their answers.
  int32_t QuestionsOfWhole(const LearnerInput& input) const {
    if (settings_.visits == 0) return settings_.questions;
    const auto windows = static_cast<int64_t>(
        WindowsOf(static_cast<int64_t>(input.tokens.size()), input.window_tokens).size());
    const int64_t visited = (settings_.visits + windows - 1) / windows;
    return static_cast<int32_t>(std::min<int64_t>(settings_.questions, visited));
  }

  // Makes an example of each lesson if its text has at least tokens_min tokens.
  Status Teach(const std::vector<Lesson>& lessons, size_t tokens_min, TextWriter& writer,
               std::vector<TrainingExample>* examples) const {
    ASSIGN_OR_RETURN(std::vector<TaughtText> texts, WriteAll(lessons, writer));
    for (size_t i = 0; i < lessons.size(); ++i) {
      const TaughtText text = std::move(texts[i]);  // freed once it is an example
      if (text.tokens.size() < tokens_min) continue;
      examples->push_back(ExampleOf(lessons[i], text, writer.num_choices(), own_rest()));
    }
    return OkStatus();
  }

  Status Answer(const std::vector<Lesson>& questions, TextWriter& writer,
                std::vector<TrainingExample>* examples) const {
    if (questions.empty()) return OkStatus();
    writer.Announce("answers");
    ASSIGN_OR_RETURN(std::vector<TaughtText> answers, WriteAll(questions, writer));
    for (size_t i = 0; i < questions.size(); ++i) {
      TaughtText answer = std::move(answers[i]);
      CutBehind(settings_.form->AnswerTokens(answer.tokens), writer.num_choices(), &answer);
      if (answer.tokens.empty()) continue;
      examples->push_back(ExampleOf(questions[i], answer, writer.num_choices(), own_rest()));
    }
    return OkStatus();
  }

  static void CutBehind(size_t num_tokens, int32_t num_choices, TaughtText* text) {
    num_tokens = std::min(num_tokens, text->tokens.size());
    text->tokens.resize(num_tokens);
    text->ids.resize(num_tokens * static_cast<size_t>(num_choices));
    text->probabilities.resize(num_tokens * static_cast<size_t>(num_choices));
  }

  // How many questions a window gets: fewer if it has less of the document to itself than others.
  int32_t QuestionsOf(const DocumentWindow& window, const LearnerInput& input) const {
    const int64_t whole = input.window_tokens - input.window_tokens / 10;
    const int64_t own = std::min(whole, window.end - window.fresh);
    return static_cast<int32_t>((QuestionsOfWhole(input) * own + whole - 1) / whole);
  }
  size_t QuestionTextsOf(const DocumentWindow& window, const LearnerInput& input) const {
    return TextsOfQuestions(QuestionsOf(window, input));
  }

  // Each question that the base writes about a window, once.
  Result<std::vector<Lesson>> AskQuestions(const LearnerInput& input, const Part& part,
                                           TextWriter& writer) const {
    std::vector<Lesson> asked;
    if (!asks()) return asked;
    const QuestionForm& form = *settings_.form;
    const size_t of_whole = TextsOfQuestions(QuestionsOfWhole(input));
    std::vector<Lesson> lessons;
    for (size_t w = part.begin; w < part.end; ++w) {
      for (size_t i = 0; i < QuestionTextsOf(part.windows[w], input); ++i) {
        lessons.push_back(
            {{.prompt = Told(form.writes(), PieceOf(TextOf(part.windows[w], input), i)),
              .tokens_max = settings_.output_tokens,
              .seed = RandomBits(~input.seed, w * of_whole + i),
              .top_p = 1.0f},
             {}});
      }
    }
    writer.Announce("questions");
    ASSIGN_OR_RETURN(const std::vector<TaughtText> texts, WriteAll(lessons, writer));
    size_t next = 0;
    for (size_t w = part.begin; w < part.end; ++w) {
      std::set<std::vector<int32_t>> known;
      const int32_t num_questions = QuestionsOf(part.windows[w], input);
      for (size_t i = 0; i < QuestionTextsOf(part.windows[w], input); ++i) {
        ASSIGN_OR_RETURN(const std::vector<DistillPrompt> questions,
                         form.QuestionsIn(texts[next++].tokens));
        for (const DistillPrompt& question : questions) {
          if (static_cast<int32_t>(known.size()) == num_questions) break;
          if (!known.insert(question.student).second) continue;
          asked.push_back({{.prompt = Told(question, TextOf(part.windows[w], input)),
                            .tokens_max = form.answer_tokens_max(),
                            .temperature = 0.0f},
                           question.student});
        }
      }
    }
    return asked;
  }

  static std::span<const int32_t> TextOf(const DocumentWindow& window, const LearnerInput& input) {
    return std::span(input.tokens)
        .subspan(static_cast<size_t>(window.begin), static_cast<size_t>(window.end - window.begin));
  }

  // The piece of a window that the i-th text of questions is written about. A base has favourite
  // topics in a window, and asks about others when it sees less of it. So it sees three half
  // windows, a quarter apart, and then the whole, in turns.
  static std::span<const int32_t> PieceOf(std::span<const int32_t> text, size_t i) {
    const size_t quarter = text.size() / 4;
    const size_t part = i % 4;
    if (part == 3 || quarter == 0) return text;
    return text.subspan(part * quarter, 2 * quarter);
  }

  static std::vector<int32_t> Told(const DistillPrompt& prompt, std::span<const int32_t> text) {
    return Joined(Joined(prompt.before, text), prompt.behind);
  }

  // What the base writes about each window.
  std::vector<Lesson> Study(const LearnerInput& input, const Part& part) const {
    std::vector<Lesson> lessons;
    const size_t of_window = settings_.prompts.size() * static_cast<size_t>(settings_.outputs);
    for (size_t w = part.begin; w < part.end; ++w) {
      for (const DistillPrompt& prompt : settings_.prompts) {
        for (int32_t i = 0; i < settings_.outputs; ++i) {
          lessons.push_back(
              {{.prompt = Told(prompt, TextOf(part.windows[w], input)),
                .tokens_max = settings_.output_tokens,
                .seed = RandomBits(input.seed, part.begin * of_window + lessons.size())},
               prompt.student});
        }
      }
    }
    return lessons;
  }

  // The document's own text behind each half window.
  Status ReadAloud(const LearnerInput& input, TextWriter& writer,
                   std::vector<TrainingExample>* examples) const {
    const std::span<const int32_t> tokens = input.tokens;
    const auto half = static_cast<size_t>(input.window_tokens) / 2;
    const size_t at_once = kRoundsOfOrder * writer.orders_at_once();
    std::vector<Lesson> lessons;
    for (size_t begin = half; begin < tokens.size(); begin += half) {
      const auto given = tokens.subspan(begin, std::min(half, tokens.size() - begin));
      lessons.push_back({{.prompt = Joined(input.start, tokens.subspan(begin - half, half)),
                          .given = {given.begin(), given.end()}},
                         input.start});
      if (lessons.size() < at_once) continue;
      RETURN_IF_ERROR(Teach(lessons, kTaughtTokensMin, writer, examples));
      lessons.clear();
    }
    return Teach(lessons, kTaughtTokensMin, writer, examples);
  }

  // Spreads what is held out over all windows, so that each keeps examples that are learned.
  static LearnerData HoldOut(std::vector<TrainingExample> texts,
                             std::vector<TrainingExample> answers, double share) {
    LearnerData data;
    const size_t n = texts.size() + answers.size();
    size_t num_texts = 0, num_answers = 0;
    if (share > 0.0 && n >= kExamplesToHoldOut) {
      const auto count = [share](size_t all) {
        return static_cast<size_t>(static_cast<double>(all) * share + 0.5);
      };
      num_texts = count(texts.size());
      num_answers =
          std::max(count(answers.size()), std::min(kAskedMin, answers.size() / kOwnOfAsked));
      if (num_texts + num_answers == 0) (texts.empty() ? num_answers : num_texts) = 1;
    }
    std::set<std::vector<int32_t>> held_out;  // questions: two windows may have the same one
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!IsHeldOut(i, num_answers, answers.size())) continue;
      if (!held_out.insert(QuestionOf(answers[i])).second) continue;
      const TrainingExample& answer = answers[i];
      data.asked.push_back(
          {QuestionOf(answer),
           {answer.tokens.begin() + answer.num_prompt_tokens, answer.tokens.end()}});
      data.held_out.push_back(answer);
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      (IsHeldOut(i, num_texts, texts.size()) ? data.held_out : data.training)
          .push_back(std::move(texts[i]));
    }
    for (TrainingExample& answer : answers) {
      if (!held_out.contains(QuestionOf(answer))) data.training.push_back(std::move(answer));
    }
    return data;
  }

  // The student reads it before the answer.
  static std::vector<int32_t> QuestionOf(const TrainingExample& answer) {
    return {answer.tokens.begin(), answer.tokens.begin() + answer.num_prompt_tokens};
  }

  const DistillSettings settings_;
};

}  // namespace

std::unique_ptr<Learner> MakeDistillLearner(DistillSettings settings) {
  return std::make_unique<DistillLearner>(std::move(settings));
}

}  // namespace graft
