// PrefixTree: the prefix cache, which finds the pages that hold the KV of given leading tokens.
// There is a tree per (tenant, adapter content hash); its nodes are whole pages of tokens. Two
// trees share nothing, with one exception: an adapter that acts from a position on uses the base
// model's pages before it, and branches off the base's tree there. An adapter that was reloaded
// with other content has another hash and so another tree. Pages without references stay cached in
// the pool until EvictOldest takes them, leaves first. A page is looked up by a hash under a key
// that no client knows, and used only after all its tokens were compared. Memory is fixed at
// construction except for the roots. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "cache/page_pool.h"
#include "cache/prefix_digest.h"

namespace graft {

// The requests that may share pages: one tenant's on one adapter content ("" is the base model).
// Where the adapter acts from a position on, the pages before that are the base model's.
struct PrefixKey {
  std::string tenant;
  std::string adapter_hash;
  int32_t active_from = 0;
  bool operator==(const PrefixKey&) const = default;
};

// What a search found, without a reference to it.
struct PrefixMatch {
  int32_t page = -1;        // the last one; -1: nothing
  int32_t num_pages = 0;    // with those before it
  uint64_t generation = 0;  // of the last one
};

class PrefixTree {
 public:
  // Equal keys give equal trees. A client that knows the key could slow the others down.
  PrefixTree(PagePool& pool, int32_t page_tokens, uint64_t hash_key);

  // The cached pages that hold the longest prefix of `tokens`, whole pages only; a partly filled
  // last page of `tokens` never matches.
  PrefixMatch Find(const PrefixKey& key, std::span<const int32_t> tokens) const;
  // Whether Find would find the same again: its last page is still known, and no page was inserted
  // behind it. False for a match of nothing, which is found again at once.
  bool IsCurrent(const PrefixMatch& match) const {
    return match.page >= 0 &&
           nodes_[static_cast<size_t>(match.page)].generation == match.generation;
  }
  // References to all pages of a match that is current.
  PageList Share(const PrefixMatch& match) const;
  // The number of pages without references in a match that is current.
  int32_t NumCached(const PrefixMatch& match) const;
  PageList Match(const PrefixKey& key, std::span<const int32_t> tokens) const {
    return Share(Find(key, tokens));
  }

  // Makes page `idx` of a sequence findable. `pages[idx]` holds the KV of `tokens` (one page of
  // them), and the pages before it are in the tree already. If the tree has another page with the
  // same content, the sequence gets that page and releases its own.
  void Insert(const PrefixKey& key, PageList& pages, int32_t idx, std::span<const int32_t> tokens);

  // Forgets the holder's cached page that went unused longest, and frees it. False: it has none.
  // All pages of a root have one holder.
  bool EvictOldest(int32_t holder = PagePool::kOneHolder);

  // What of it is told to others: all but what is behind an adapter that acts later.
  const PrefixDigest& digest() const { return digest_; }

  // Pages in the tree, referenced ones included.
  int32_t num_nodes() const { return num_nodes_; }
  int32_t num_roots() const { return static_cast<int32_t>(root_of_key_.size()); }

  // Walks everything, the pool's view of each page included. For tests.
  Status CheckIntegrity() const;

 private:
  struct KeyHash {
    uint64_t hash_key = 0;
    size_t operator()(const PrefixKey& key) const;
  };
  // Parents are page ids, or a root's id, which is below -1.
  static constexpr int32_t kNone = -1;
  struct Node {  // index: page id
    int32_t parent = kNone;
    int32_t branch = kNone;  // the root of its own key, where that is not its parent's root
    int32_t num_children = 0;
    int32_t next_in_bucket = kNone;
    bool used = false;
    uint64_t generation = 0;  // when it, or its last child, was inserted, by the count of all
    uint64_t name = 0;        // of the prefix that it ends, in digest_; 0: it is not told
  };
  struct Root {
    int32_t num_children = 0;
    const PrefixKey* key = nullptr;  // in root_of_key_, where keys do not move; null: id is free
  };
  static size_t RootIndex(int32_t root) { return static_cast<size_t>(-2 - root); }

  // Where a page hangs: behind a page or a root, and on which branch.
  struct Place {
    int32_t parent = kNone;
    int32_t branch = kNone;
  };
  std::span<const int32_t> TokensOf(int32_t page) const;
  size_t PageTokens() const { return static_cast<size_t>(page_tokens_); }
  // Leading pages that are the base model's.
  int32_t NumBasePages(const PrefixKey& key) const {
    return key.adapter_hash.empty() ? 0 : key.active_from / page_tokens_;
  }
  int32_t FindRoot(const PrefixKey& key) const;
  void FindChain(Place place, std::span<const int32_t> tokens, PrefixMatch* match) const;
  uint64_t NameOf(const PrefixKey& key, const Place& place, std::span<const int32_t> tokens) const;
  Place PlaceOf(const PrefixKey& key, const PageList& pages, int32_t idx);
  size_t BucketOf(const Place& place, std::span<const int32_t> tokens) const;
  int32_t FindChild(const Place& place, std::span<const int32_t> tokens) const {
    return FindChildIn(buckets_[BucketOf(place, tokens)], place, tokens);
  }
  int32_t FindChildIn(int32_t bucket_head, const Place& place,
                      std::span<const int32_t> tokens) const;
  int32_t& NumChildren(int32_t parent);
  int32_t OpenRoot(const PrefixKey& key);
  void CloseRootIfEmpty(int32_t root);
  void Remove(int32_t page);
  Status CheckNode(int32_t page) const;

  PagePool& pool_;
  const int32_t page_tokens_;
  const uint64_t hash_key_;
  PrefixDigest digest_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;   // [num_pages][page_tokens]
  std::vector<int32_t> buckets_;  // heads of the chains through next_in_bucket; a power of two
  int32_t num_nodes_ = 0;
  uint64_t num_inserts_ = 0;
  std::unordered_map<PrefixKey, int32_t, KeyHash> root_of_key_;
  std::vector<Root> roots_;
  std::vector<int32_t> free_roots_;
};

}  // namespace graft
