#include "engine/give_way.h"

#include <algorithm>
#include <limits>

#include "engine/shortage.h"

namespace graft {

// At a turn's end the first request without room gets some. A tenant that runs too little for its
// weight need not wait for that: the one that runs too much makes room at once.
bool GiveWay::GiveRoomForAdapter(const Sequence& sequence) {
  if (is_beside_step_) return false;
  const bool ends_turn = turn_.is_over() && !std::exchange(has_made_room_, true);
  const bool is_light = sequences_.line().GiverOfPlace(sequence.line->tenant) != nullptr;
  if (!ends_turn && !is_light) return false;
  const Givers givers = GiversOfRoom(sequence, ends_turn);
  for (const Sequence* const giver : givers) sequences_.Preempt(*giver);
  return !givers.empty();
}

// They are those of the tenant that runs too much and, at a turn's end, the younger ones of tenants
// that were served no less. Where the sequences of a single adapter suffice, and no other sequence
// uses it, those that are cheapest to compute anew are taken; else all are, if these suffice.
GiveWay::Givers GiveWay::GiversOfRoom(const Sequence& sequence, bool ends_turn) {
  const FairLine& line = sequences_.line();
  const TenantLine& tenant = sequence.line->tenant;
  const TenantLine* const heavy = line.GiverOfPlace(tenant);
  const auto must_yield = [&](const Sequence& other) {
    if (&other.line->tenant == heavy) return true;
    return ends_turn && other.order > sequence.order &&
           ServedOf(line, other.line->tenant) >= ServedOf(line, tenant);
  };
  const int32_t content = sequence.adapter.content();
  givers_.clear();
  kept_.clear();
  for (const auto& other : sequences_.running()) {
    if (must_yield(*other)) {
      givers_.push_back(other.get());
    } else {
      kept_.push_back(other->adapter.content());
    }
  }
  if (!CouldMakeRoom(content, givers_)) return {};
  std::sort(kept_.begin(), kept_.end());
  by_content_ = givers_;
  std::sort(by_content_.begin(), by_content_.end(), [](const Sequence* a, const Sequence* b) {
    return std::pair(a->adapter.content(), a->order) < std::pair(b->adapter.content(), b->order);
  });
  Givers cheapest = givers_;
  int64_t least_tokens = std::numeric_limits<int64_t>::max();
  for (size_t begin = 0, end = 0; begin < by_content_.size(); begin = end) {
    const int32_t other = by_content_[begin]->adapter.content();
    int64_t tokens = 0;
    for (; end < by_content_.size() && by_content_[end]->adapter.content() == other; ++end) {
      tokens += by_content_[end]->num_computed;
    }
    if (other < 0 || std::binary_search(kept_.begin(), kept_.end(), other)) continue;
    const Givers group = Givers(by_content_).subspan(begin, end - begin);
    if (tokens >= least_tokens || !CouldMakeRoom(content, group)) continue;
    least_tokens = tokens;
    cheapest = group;
  }
  return cheapest;
}

// Whether the content finds room once these sequences run no more. Pages that others share with
// them stay.
bool GiveWay::CouldMakeRoom(int32_t content, Givers givers) {
  contents_.clear();
  pages_.clear();
  for (const Sequence* const one : givers) {
    if (one->adapter.content() >= 0) contents_.push_back(one->adapter.content());
    for (int32_t i = 0; i < one->pages.size(); ++i) pages_.push_back(one->pages.page(i));
  }
  std::sort(pages_.begin(), pages_.end());
  int32_t num_pages = 0;
  for (auto page = pages_.begin(); page != pages_.end();) {
    const auto next = std::upper_bound(page, pages_.end(), *page);
    num_pages += next - page == sequences_.pool().references(*page) ? 1 : 0;
    page = next;
  }
  return sequences_.adapters().CouldBePlaced(content, contents_, num_pages);
}

bool GiveWay::GivePages(const Sequence& sequence, int32_t num_missing) {
  const Givers givers = GiversOfPages(sequence, num_missing);
  for (const Sequence* const giver : givers) sequences_.Preempt(*giver);
  return !givers.empty();
}

int32_t GiveWay::NumOwnPages(const Sequence& sequence) const {
  int32_t num_own = 0;
  for (int32_t i = 0; i < sequence.pages.size(); ++i) {
    num_own += sequences_.pool().references(sequence.pages.page(i)) == 1 ? 1 : 0;
  }
  return num_own;
}

// The newest sequences of tenants that hold more pages for their weight than the sequence's tenant
// will, as many as suffice; else none.
GiveWay::Givers GiveWay::GiversOfPages(const Sequence& sequence, int32_t num_missing) {
  const FairLine& line = sequences_.line();
  if (line.tenants().size() < 2) return {};
  const Sequences::List& running = sequences_.running();
  TenantLine& taker = line.TenantOf(sequence);
  taker.num_pages = 0;
  for (const auto& one : running) line.TenantOf(*one).num_pages = 0;
  for (const auto& one : running) line.TenantOf(*one).num_pages += one->pages.size();
  const int32_t then = taker.num_pages + sequences_.PagesFor(sequence.num_tokens() + 1);
  givers_.clear();
  for (auto it = running.rbegin(); it != running.rend() && num_missing > 0; ++it) {
    TenantLine& giver = line.TenantOf(**it);
    const int32_t left = giver.num_pages - (*it)->pages.size();
    if (&giver == &taker || !MayTake(taker.share, then, giver.share, left)) continue;
    giver.num_pages = left;
    givers_.push_back(it->get());
    num_missing -= 1 + NumOwnPages(**it);  // and the page that it would grow by
  }
  return num_missing > 0 ? Givers() : Givers(givers_);
}

bool GiveWay::GivePlace(const Sequence& sequence) {
  const TenantLine* const giver = sequences_.line().GiverOfPlace(sequence.line->tenant);
  if (giver == nullptr) return false;
  sequences_.Preempt(sequences_.NewestOf(*giver));
  return true;
}

// A tenant has many sequences that decode if they are more than the rows of the prompts that end in
// the step, of the tenant that has most of these. Rows of the others are not touched.
void GiveWay::GiveRows(std::vector<Verdict>* verdicts) {
  const FairLine& line = sequences_.line();
  if (std::exchange(gave_rows_, false) || !room_.ends_prompts() || line.tenants().size() < 2) {
    return;
  }
  const auto decodes = [](const Sequence& one) {
    return one.num_planned == 1 && one.num_pending() == 1 && one.num_output_tokens() > 0;
  };
  many_.clear();
  for (const auto& one : sequences_.running()) {
    if (!decodes(*one)) continue;
    TenantLine& tenant = line.TenantOf(*one);
    const bool had_many = HasMany(tenant);
    ++tenant.num_decoding;
    if (!had_many && HasMany(tenant)) many_.push_back(&tenant);
  }
  int32_t num_many = 0, prompt_rows = 0, other_rows = 0;
  for (const auto& one : sequences_.running()) {
    const bool is_of_many = HasMany(line.TenantOf(*one));
    (!is_of_many ? other_rows : decodes(*one) ? num_many : prompt_rows) += one->num_planned;
  }
  const int32_t num_kept = room_.AsLongAs(other_rows) - prompt_rows;
  if (num_many <= num_kept) return;
  gave_rows_ = true;
  const int32_t each = std::max(1, num_kept / static_cast<int32_t>(many_.size()));
  for (TenantLine* const tenant : many_) tenant->num_going_on = each;
  for (const auto& one : sequences_.running()) {
    TenantLine& tenant = line.TenantOf(*one);
    if (!HasMany(tenant) || !decodes(*one) || tenant.num_going_on-- > 0) continue;
    one->num_planned = 0;
    verdicts->push_back({one->id, Verdict::Why::kGivesWay});
  }
}

}  // namespace graft
