#include "runtime/memory_sum.h"

#include <algorithm>
#include <cstdio>

#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kGib = int64_t{1} << 30;
constexpr int64_t kWorthTelling = 50;  // a term from this part of the sum on

std::string LabelOf(const std::string& what, int count) {
  return count == 1 ? what : std::to_string(count) + " x " + what;
}

}  // namespace

int64_t GibToBytes(double gib) {
  constexpr double kManyGib = 1e9;  // more than any machine's, and no overflow
  return static_cast<int64_t>(std::min(gib, kManyGib) * static_cast<double>(kGib));
}

std::string BytesText(int64_t bytes) {
  char text[32];
  if (bytes >= kGib) {
    std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / kGib);
  } else {
    std::snprintf(text, sizeof(text), "%lld MiB",
                  static_cast<long long>((bytes + kMib - 1) / kMib));
  }
  return text;
}

MemoryBudget::MemoryBudget(const Device& device, double gib_max, int32_t num_sharing)
    : device_(device),
      gib_max_(gib_max),
      device_bytes_max_((FreeMemoryBytes(device) + AllocatedBytes(device)) /
                        (device.is_cpu() ? num_sharing : 1)),
      host_bytes_max_((FreeMemoryBytes({}) + AllocatedBytes({})) / num_sharing) {
  if (gib_max > 0.0) device_bytes_max_ = std::min(device_bytes_max_, GibToBytes(gib_max));
}

int64_t MemoryBudget::LeftOnDevice() const {
  const int64_t left =
      std::min(device_bytes_max_ - AllocatedBytes(device_), FreeMemoryBytes(device_));
  return std::max<int64_t>(0, left);
}

int64_t MemoryBudget::LeftOnHost() const {
  if (device_.is_cpu()) return LeftOnDevice();
  return std::max<int64_t>(0, std::min(host_bytes_max_ - AllocatedBytes({}), FreeMemoryBytes({})));
}

std::string MemoryBudget::DeviceText() const {
  std::string text = BytesText(LeftOnDevice());
  if (gib_max_ > 0.0) {
    char limit[32];
    std::snprintf(limit, sizeof(limit), "%g", gib_max_);
    return text + " are left of --memory-gib " + limit + " on " + device_.ToString();
  }
  return text + " are free on " + device_.ToString();
}

std::string MemoryBudget::HostText() const {
  return BytesText(LeftOnHost()) + " are free in the host's memory";
}

void MemorySum::AddTo(Terms& terms, const std::string& what, int64_t bytes) {
  if (bytes <= 0) return;
  const auto found = std::ranges::find(terms, what, &Term::what);
  if (found == terms.end()) {
    terms.push_back({.what = what, .bytes = bytes});
  } else {
    found->bytes += bytes;
    ++found->count;
  }
}

void MemorySum::Add(const std::string& what, int64_t bytes) { AddTo(on_device_, what, bytes); }

void MemorySum::AddOnHost(const std::string& what, int64_t bytes) {
  AddTo(device_.is_cpu() ? on_device_ : on_host_, what, bytes);
}

int64_t MemorySum::Total(const Terms& terms) {
  int64_t total = 0;
  for (const Term& term : terms) total += term.bytes;
  return total;
}

Status MemorySum::CheckOne(Terms terms, int64_t left, const std::string& left_text) {
  const int64_t total = Total(terms);
  if (total <= left) return OkStatus();
  std::ranges::stable_sort(terms, std::ranges::greater{}, &Term::bytes);
  std::string text = "not enough memory: " + BytesText(total) + " are needed, " + left_text;
  for (const Term& term : terms) {
    std::string bytes = BytesText(term.bytes);
    if (bytes.size() < 10) bytes.insert(0, 10 - bytes.size(), ' ');
    text += "\n" + bytes + "  " + LabelOf(term.what, term.count);
  }
  return ResourceExhaustedError(text + "\nlower what the flags in brackets say, from the top");
}

Status MemorySum::Check(const MemoryBudget& budget) const {
  RETURN_IF_ERROR(CheckOne(on_device_, budget.LeftOnDevice(), budget.DeviceText()));
  return CheckOne(on_host_, budget.LeftOnHost(), budget.HostText());
}

std::string MemorySum::TextOf(Terms terms) {
  std::ranges::stable_sort(terms, std::ranges::greater{}, &Term::bytes);
  const int64_t total = Total(terms);
  std::string text = BytesText(total);
  int64_t rest = total;
  for (const Term& term : terms) {
    if (term.bytes < total / kWorthTelling) break;
    text += (rest == total ? " = " : " + ") + BytesText(term.bytes) + " " +
            LabelOf(term.what, term.count);
    rest -= term.bytes;
  }
  if (rest > 0) text += " + " + BytesText(rest) + " of smaller things";
  return text;
}

}  // namespace graft
