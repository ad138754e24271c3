#include "cache/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "cache/keyed_hash.h"

namespace graft {

size_t PrefixTree::KeyHash::operator()(const PrefixKey& key) const {
  return MixIn(hash_key, KeyedHash(hash_key, key.tenant), KeyedHash(hash_key, key.adapter_hash));
}

PrefixTree::PrefixTree(PagePool& pool, int32_t page_tokens, uint64_t hash_key)
    : pool_(pool),
      page_tokens_(page_tokens),
      hash_key_(hash_key),
      root_of_key_(0, KeyHash{hash_key}) {
  CHECK_GT(page_tokens, 0);
  const auto num_pages = static_cast<size_t>(pool.num_pages());
  nodes_.resize(num_pages);
  tokens_.resize(num_pages * static_cast<size_t>(page_tokens));
  buckets_.assign(std::bit_ceil(2 * num_pages), kNone);
}

PrefixMatch PrefixTree::Find(const PrefixKey& key, std::span<const int32_t> tokens) const {
  PrefixMatch match;
  const auto root = root_of_key_.find(key);
  if (root == root_of_key_.end()) return match;
  int32_t parent = root->second;
  const auto page_tokens = static_cast<size_t>(page_tokens_);
  for (; tokens.size() >= page_tokens; tokens = tokens.subspan(page_tokens)) {
    const int32_t page = FindChild(parent, tokens.first(page_tokens));
    if (page == kNone) break;
    match.page = page;
    ++match.num_pages;
    parent = page;
  }
  if (match.page >= 0) match.generation = nodes_[static_cast<size_t>(match.page)].generation;
  return match;
}

PageList PrefixTree::Share(const PrefixMatch& match) const {
  PageList pages;
  if (match.page < 0) return pages;
  CHECK(IsCurrent(match)) << "page " << match.page;
  pages.Resize(match.num_pages);
  int32_t page = match.page;
  for (int32_t idx = match.num_pages - 1; idx >= 0; --idx) {
    pages.Replace(idx, pool_.Share(page));
    page = nodes_[static_cast<size_t>(page)].parent;
  }
  return pages;
}

// Whoever references a page references those before it.
int32_t PrefixTree::NumCached(const PrefixMatch& match) const {
  int32_t num_cached = 0;
  for (int32_t page = match.page; page >= 0 && pool_.references(page) == 0; ++num_cached) {
    page = nodes_[static_cast<size_t>(page)].parent;
  }
  return num_cached;
}

void PrefixTree::Insert(const PrefixKey& key, PageList& pages, int32_t idx,
                        std::span<const int32_t> tokens) {
  CHECK_EQ(tokens.size(), static_cast<size_t>(page_tokens_));
  const int32_t parent = idx == 0 ? OpenRoot(key) : pages.page(idx - 1);
  CHECK(idx == 0 || nodes_[static_cast<size_t>(parent)].used) << "page " << idx - 1 << " missing";
  int32_t& bucket = buckets_[BucketOf(parent, tokens)];
  const int32_t known = FindChildIn(bucket, parent, tokens);
  if (known != kNone) {
    // Also keeps the rule that whoever references a node references its parent.
    if (known != pages.page(idx)) pages.Replace(idx, pool_.Share(known));
    return;
  }
  const int32_t page = pages.page(idx);
  pool_.Keep(page);
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<ptrdiff_t>(page) * page_tokens_);
  nodes_[static_cast<size_t>(page)] = {.parent = parent,
                                       .num_children = 0,
                                       .next_in_bucket = bucket,
                                       .used = true,
                                       .generation = ++num_inserts_};
  bucket = page;
  ++NumChildren(parent);
  if (parent >= 0) nodes_[static_cast<size_t>(parent)].generation = num_inserts_;
  ++num_nodes_;
}

// The oldest cached page is a leaf: whoever references a node references its ancestors too and lets
// go of them later (PageList), so ancestors are always younger.
bool PrefixTree::EvictOldest() {
  const int32_t page = pool_.OldestCached();
  if (page < 0) return false;
  CHECK_EQ(nodes_[static_cast<size_t>(page)].num_children, 0) << "page " << page << " is no leaf";
  Remove(page);
  pool_.Evict(page);
  return true;
}

std::span<const int32_t> PrefixTree::TokensOf(int32_t page) const {
  const auto page_tokens = static_cast<size_t>(page_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_tokens, page_tokens);
}

size_t PrefixTree::BucketOf(int32_t parent, std::span<const int32_t> tokens) const {
  return KeyedHash(hash_key_, parent, tokens) & (buckets_.size() - 1);
}

int32_t PrefixTree::FindChildIn(int32_t bucket_head, int32_t parent,
                                std::span<const int32_t> tokens) const {
  int32_t page = bucket_head;
  for (; page != kNone; page = nodes_[static_cast<size_t>(page)].next_in_bucket) {
    if (nodes_[static_cast<size_t>(page)].parent == parent &&
        std::ranges::equal(TokensOf(page), tokens)) {
      break;
    }
  }
  return page;
}

int32_t& PrefixTree::NumChildren(int32_t parent) {
  if (parent >= 0) return nodes_[static_cast<size_t>(parent)].num_children;
  return roots_[RootIndex(parent)].num_children;
}

int32_t PrefixTree::OpenRoot(const PrefixKey& key) {
  const auto [it, is_new] = root_of_key_.try_emplace(key, kNone);
  if (!is_new) return it->second;
  if (free_roots_.empty()) {
    free_roots_.push_back(-2 - static_cast<int32_t>(roots_.size()));
    roots_.emplace_back();
  }
  it->second = free_roots_.back();
  free_roots_.pop_back();
  roots_[RootIndex(it->second)] = {.num_children = 0, .key = &it->first};
  return it->second;
}

void PrefixTree::CloseRootIfEmpty(int32_t root) {
  Root& entry = roots_[RootIndex(root)];
  if (entry.num_children > 0) return;
  root_of_key_.erase(root_of_key_.find(*entry.key));
  entry.key = nullptr;
  free_roots_.push_back(root);
}

void PrefixTree::Remove(int32_t page) {
  Node& node = nodes_[static_cast<size_t>(page)];
  int32_t* link = &buckets_[BucketOf(node.parent, TokensOf(page))];
  while (*link != page) link = &nodes_[static_cast<size_t>(*link)].next_in_bucket;
  *link = node.next_in_bucket;
  --NumChildren(node.parent);
  if (node.parent < 0) CloseRootIfEmpty(node.parent);
  node = Node();
  --num_nodes_;
}

Status PrefixTree::CheckNode(int32_t page) const {
  const Node& node = nodes_[static_cast<size_t>(page)];
  const std::string name = "page " + std::to_string(page);
  if (node.used != pool_.kept(page)) return InternalError(name + ": pool and tree disagree");
  if (!node.used) return OkStatus();
  if (FindChild(node.parent, TokensOf(page)) != page) {
    return InternalError(name + " is not found by its tokens");
  }
  if (node.parent < 0) {
    const size_t root = RootIndex(node.parent);
    if (root >= roots_.size() || roots_[root].key == nullptr) {
      return InternalError(name + " hangs on a closed root");
    }
    return OkStatus();
  }
  if (!nodes_[static_cast<size_t>(node.parent)].used) {
    return InternalError(name + " lost its parent");
  }
  if (pool_.references(page) > pool_.references(node.parent)) {
    return InternalError(name + " is referenced more often than its parent");
  }
  return OkStatus();
}

Status PrefixTree::CheckIntegrity() const {
  int32_t num_used = 0;
  std::vector<int32_t> children_of_page(nodes_.size(), 0);
  std::vector<int32_t> children_of_root(roots_.size(), 0);
  for (int32_t page = 0; page < pool_.num_pages(); ++page) {
    RETURN_IF_ERROR(CheckNode(page));
    const Node& node = nodes_[static_cast<size_t>(page)];
    if (!node.used) continue;
    ++num_used;
    ++(node.parent >= 0 ? children_of_page[static_cast<size_t>(node.parent)]
                        : children_of_root[RootIndex(node.parent)]);
  }
  for (size_t page = 0; page < nodes_.size(); ++page) {
    if (nodes_[page].num_children != children_of_page[page]) {
      return InternalError("page " + std::to_string(page) + " miscounts its children");
    }
  }
  size_t num_open = 0;
  for (size_t root = 0; root < roots_.size(); ++root) {
    if (roots_[root].key == nullptr) continue;
    ++num_open;
    if (children_of_root[root] == 0 || roots_[root].num_children != children_of_root[root]) {
      return InternalError("root " + std::to_string(root) + " miscounts its children");
    }
  }
  if (num_used != num_nodes_ || num_open != root_of_key_.size()) {
    return InternalError("the tree miscounts its nodes or roots");
  }
  return OkStatus();
}

}  // namespace graft
