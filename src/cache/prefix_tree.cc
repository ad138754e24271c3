#include "cache/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "cache/keyed_hash.h"

namespace graft {

size_t PrefixTree::KeyHash::operator()(const PrefixKey& key) const {
  const uint64_t content = MixIn(hash_key, KeyedHash(hash_key, key.adapter_hash),
                                 static_cast<uint64_t>(key.active_from));
  return MixIn(hash_key, KeyedHash(hash_key, key.tenant), content);
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
  const auto num_base =
      std::min(static_cast<size_t>(NumBasePages(key)), tokens.size() / PageTokens());
  int32_t branch = kNone;
  if (num_base > 0) {
    FindChain({FindRoot({key.tenant, ""})}, tokens.first(num_base * PageTokens()), &match);
    branch = FindRoot(key);
  }
  // What is the adapter's own hangs behind all of that.
  if (num_base == 0) {
    FindChain({FindRoot(key)}, tokens, &match);
  } else if (branch != kNone && static_cast<size_t>(match.num_pages) == num_base) {
    FindChain({match.page, branch}, tokens.subspan(num_base * PageTokens()), &match);
  }
  if (match.page >= 0) match.generation = nodes_[static_cast<size_t>(match.page)].generation;
  return match;
}

int32_t PrefixTree::FindRoot(const PrefixKey& key) const {
  const auto root = root_of_key_.find(key);
  return root == root_of_key_.end() ? kNone : root->second;
}

// Adds the pages to the match that follow each other from `place` on.
void PrefixTree::FindChain(Place place, std::span<const int32_t> tokens, PrefixMatch* match) const {
  if (place.parent == kNone) return;
  for (; tokens.size() >= PageTokens(); tokens = tokens.subspan(PageTokens())) {
    const int32_t page = FindChild(place, tokens.first(PageTokens()));
    if (page == kNone) return;
    match->page = page;
    ++match->num_pages;
    place = {page};
  }
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

// A reference to a page comes with references to the pages before it.
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
  const Place place = PlaceOf(key, pages, idx);
  const int32_t parent = place.parent;
  int32_t& bucket = buckets_[BucketOf(place, tokens)];
  const int32_t known = FindChildIn(bucket, place, tokens);
  if (known != kNone) {
    // This also keeps the rule that a sequence that references a node references its parent.
    if (known != pages.page(idx)) pages.Replace(idx, pool_.Share(known));
    return;
  }
  const int32_t page = pages.page(idx);
  pool_.Keep(page);
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<ptrdiff_t>(page) * page_tokens_);
  nodes_[static_cast<size_t>(page)] = {.parent = parent,
                                       .branch = place.branch,
                                       .num_children = 0,
                                       .next_in_bucket = bucket,
                                       .used = true,
                                       .generation = ++num_inserts_,
                                       .name = NameOf(key, place, tokens)};
  if (nodes_[static_cast<size_t>(page)].name != 0) {
    digest_.Add(nodes_[static_cast<size_t>(page)].name);
  }
  bucket = page;
  ++NumChildren(parent);
  if (place.branch != kNone) ++NumChildren(place.branch);
  if (parent >= 0) nodes_[static_cast<size_t>(parent)].generation = num_inserts_;
  ++num_nodes_;
}

// 0: behind a branch, where a name would not tell the adapter's own pages from others'.
uint64_t PrefixTree::NameOf(const PrefixKey& key, const Place& place,
                            std::span<const int32_t> tokens) const {
  if (place.branch != kNone) return 0;
  if (place.parent >= 0) {
    const uint64_t before = nodes_[static_cast<size_t>(place.parent)].name;
    return before == 0 ? 0 : NextPrefixName(before, tokens);
  }
  const bool is_base = NumBasePages(key) > 0;
  const uint64_t empty = EmptyPrefixName(key.tenant, is_base ? "" : key.adapter_hash,
                                         is_base ? 0 : key.active_from, page_tokens_);
  return NextPrefixName(empty, tokens);
}

// Opens the root that the page hangs on; it is to be inserted then, unless it is known.
PrefixTree::Place PrefixTree::PlaceOf(const PrefixKey& key, const PageList& pages, int32_t idx) {
  const int32_t num_base = NumBasePages(key);
  if (idx == 0) return {OpenRoot(num_base > 0 ? PrefixKey{key.tenant, ""} : key)};
  const int32_t parent = pages.page(idx - 1);
  CHECK(nodes_[static_cast<size_t>(parent)].used) << "page " << idx - 1 << " missing";
  return {parent, idx == num_base ? OpenRoot(key) : kNone};
}

// A holder's oldest cached page is a leaf: a sequence that references a node also references its
// ancestors and lets go of them later (PageList). They have the same holder, and are younger.
bool PrefixTree::EvictOldest(int32_t holder) {
  const int32_t page = pool_.OldestCached(holder);
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

size_t PrefixTree::BucketOf(const Place& place, std::span<const int32_t> tokens) const {
  uint64_t hash = KeyedHash(hash_key_, place.parent, tokens);
  if (place.branch != kNone) {
    hash = MixIn(hash_key_, hash, static_cast<uint64_t>(RootIndex(place.branch)));
  }
  return hash & (buckets_.size() - 1);
}

int32_t PrefixTree::FindChildIn(int32_t bucket_head, const Place& place,
                                std::span<const int32_t> tokens) const {
  int32_t page = bucket_head;
  for (; page != kNone; page = nodes_[static_cast<size_t>(page)].next_in_bucket) {
    const Node& node = nodes_[static_cast<size_t>(page)];
    if (node.parent == place.parent && node.branch == place.branch &&
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
  int32_t* link = &buckets_[BucketOf({node.parent, node.branch}, TokensOf(page))];
  while (*link != page) link = &nodes_[static_cast<size_t>(*link)].next_in_bucket;
  *link = node.next_in_bucket;
  --NumChildren(node.parent);
  if (node.parent < 0) CloseRootIfEmpty(node.parent);
  if (node.branch != kNone) {
    --NumChildren(node.branch);
    CloseRootIfEmpty(node.branch);
  }
  if (node.name != 0) digest_.Remove(node.name);
  node = Node();
  --num_nodes_;
}

Status PrefixTree::CheckNode(int32_t page) const {
  const Node& node = nodes_[static_cast<size_t>(page)];
  const std::string name = "page " + std::to_string(page);
  if (node.used != pool_.kept(page)) return InternalError(name + ": pool and tree disagree");
  if (!node.used) return OkStatus();
  if (FindChild({node.parent, node.branch}, TokensOf(page)) != page) {
    return InternalError(name + " is not found by its tokens");
  }
  for (const int32_t root : {node.parent, node.branch}) {
    if (root >= kNone) continue;
    if (RootIndex(root) >= roots_.size() || roots_[RootIndex(root)].key == nullptr) {
      return InternalError(name + " hangs on a closed root");
    }
  }
  if (node.name != 0 && !digest_.Has(node.name)) return InternalError(name + " is not told");
  if (node.parent < 0) return OkStatus();
  if (!nodes_[static_cast<size_t>(node.parent)].used) {
    return InternalError(name + " lost its parent");
  }
  if (pool_.holder(page) != pool_.holder(node.parent)) {
    return InternalError(name + " and its parent have two holders");
  }
  if (pool_.references(page) > pool_.references(node.parent)) {
    return InternalError(name + " is referenced more often than its parent");
  }
  return OkStatus();
}

Status PrefixTree::CheckIntegrity() const {
  int32_t num_used = 0;
  int64_t num_told = 0;
  std::vector<int32_t> children_of_page(nodes_.size(), 0);
  std::vector<int32_t> children_of_root(roots_.size(), 0);
  for (int32_t page = 0; page < pool_.num_pages(); ++page) {
    RETURN_IF_ERROR(CheckNode(page));
    const Node& node = nodes_[static_cast<size_t>(page)];
    if (!node.used) continue;
    ++num_used;
    num_told += node.name != 0 ? 1 : 0;
    ++(node.parent >= 0 ? children_of_page[static_cast<size_t>(node.parent)]
                        : children_of_root[RootIndex(node.parent)]);
    if (node.branch != kNone) ++children_of_root[RootIndex(node.branch)];
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
  if (num_told != digest_.num_names()) return InternalError("the digest miscounts its names");
  if (num_used != num_nodes_ || num_open != root_of_key_.size()) {
    return InternalError("the tree miscounts its nodes or roots");
  }
  return OkStatus();
}

}  // namespace graft
