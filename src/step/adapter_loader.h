// Waist 2, beside Executor: the interfaces that move adapters' bytes from folders into the host's
// memory, and from there into pages of the device. The engine says what goes where and when.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/adapter_text.h"
#include "base/status.h"
#include "step/adapter_rows.h"
#include "step/step_plan.h"

namespace graft {

struct AdapterFacts {
  std::string hash;
  std::string base_model;
  int32_t rank_max = 0;
  int64_t bytes = 0;         // in the device's pages
  std::vector<RowRun> rows;  // what must be placed there
  int32_t num_layers = 1;    // in which they arrive
  // Positions in front of every prompt that are the adapter's own: rows of embeddings that are
  // computed like a prompt's, or keys and values of all layers.
  int32_t num_virtual_tokens = 0;
  bool has_virtual_kv = false;
  // It acts from where these tokens stand last in a prompt (activated LoRA); empty: everywhere.
  std::vector<int32_t> invocation_tokens;
  AdapterTextPtr text;            // what it says of texts
  bool leaves_texts_out = false;  // its folder has such files, of which its hash does not know
  bool changes_nothing = false;   // the base answers in its place
  // What its folder asks for or holds and is not served, which changes no answer; "": nothing.
  std::string left_out;
};

// PEFT folders into the host's memory. Any thread.
class AdapterBackend {
 public:
  virtual ~AdapterBackend() = default;
  // The content hash of the PEFT folder without loading it.
  virtual Result<std::string> Hash(const std::string& path) = 0;
  // Reads, checks and self-tests the PEFT folder, and keeps what the device will want in the host's
  // memory, as far as it has room.
  virtual Result<AdapterFacts> Read(const std::string& path) = 0;
  // For a caller that knows the content by `hash`. Earlier versions of this program hashed no files
  // of texts; under such a hash the folder is served as it was, without them.
  virtual Result<std::string> HashAs(const std::string& path, const std::string& /*hash*/) {
    return Hash(path);
  }
  virtual Result<AdapterFacts> ReadAs(const std::string& path, const std::string& /*hash*/) {
    return Read(path);
  }
  // What the files beside the folder's weights say of texts; reads no weights. Null: nothing.
  virtual Result<AdapterTextPtr> ReadText(const std::string& /*path*/) { return AdapterTextPtr(); }
  // Whether the content is in the host's memory.
  virtual bool Has(const std::string& hash) const = 0;
  // Where there is no room for all contents, lower priorities go first; 0 by default. Also for
  // contents that are not there yet.
  virtual void SetPriority(const std::string& hash, int32_t priority) = 0;
};

// One of the adapters that a content is the weighted sum of; as AdapterSource has them.
struct AdapterPart {
  std::string path;
  std::string hash;  // "": never read
  std::string key;
  float weight = 1.0f;
};

// One content to fetch: `content` is the engine's number for it, `path` its folder, `hash` the hash
// that must come out ("": it was never read), `key` its name until the hash is known.
struct FetchOrder {
  int32_t content = -1;
  std::string path;
  std::string hash;
  std::string key;
  // Not empty: it is the weighted sum of these, `path` tells people where they are, and `hash` is
  // ContentSumHash's, "" if one of them was never read.
  std::vector<AdapterPart> parts;
  // The number of the tenant that wants it. Its orders are begun in order; tenants take turns.
  int32_t holder = -1;
};

// A content's rows into pages; then `slot` of a plan means this adapter.
// A content that is no longer in the host's memory is fetched again for it.
struct CopyOrder {
  FetchOrder source;
  AdapterSlot slot = kNoAdapter;
  std::vector<PageExtent> extents;
};

struct LoadEvent {
  // kSlow: a fetch takes so long that others go on without it; its kFetched follows. A fetch for a
  // copy makes neither of these events.
  enum class Kind : uint8_t { kFetched, kCopied, kSlow };
  Kind kind = Kind::kFetched;
  int32_t content = -1;
  Status status;        // why it came to nothing
  AdapterFacts facts;   // of a fetch that went well
  int64_t copy_ns = 0;  // what a copy's own bytes took, without its time in the queue
};

// AdapterLoader loads adapters beside the steps. Engine thread only, except for the waker's call.
// After a fetch that succeeded, the content stays in the host's memory until Copy or Drop. The
// pages and the slot of a CopyOrder belong to it until its kCopied. A slot that a plan in flight
// names is neither copied to nor freed.
// Events are taken between steps. An engine that runs ahead may also take them while a plan is in
// flight, after Begin has returned and unless the plan `bridges`: all waits for rows are in the
// stream by then, so a kCopied may end the arrival that they wait for.
class AdapterLoader {
 public:
  virtual ~AdapterLoader() = default;
  virtual void Fetch(FetchOrder order) = 0;
  // True: the adapter is in the host's memory, so the copy cannot fail, and plans may name the slot
  // from now on. Its rows arrive layer by layer, and an executor that runs such a plan waits before
  // each layer for that layer's rows. False: plans may name the slot only after kCopied. kCopied
  // follows in both cases.
  virtual bool Copy(CopyOrder order) = 0;
  // The facts of a content that could be copied without reading its folder.
  virtual std::optional<AdapterFacts> FindInHost(const std::string& hash) const = 0;
  // A fetched content is not wanted any more.
  virtual void Drop(int32_t content) = 0;
  // The slot means nothing any more, and its pages are given to others.
  virtual void Free(AdapterSlot slot) = 0;

  // The events since the last call, in order.
  virtual std::vector<LoadEvent> TakeEvents() = 0;
  // Waits for an event, if anything is under way.
  virtual void WaitForEvent() = 0;
  // `waker` is called, on any thread, when there is an event. To be set before the first order.
  virtual void SetWaker(std::function<void()> waker) = 0;
};

}  // namespace graft
