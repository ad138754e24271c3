// The identity of a weighted sum of adapters: it is a content like any other, made of contents.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "step/adapter_loader.h"

namespace graft {

// Puts them into the order in which they are added: a sum has the same bits however a request names
// its parts.
void SortParts(std::vector<AdapterPart>* parts);

// SHA-256 of the sorted parts' hashes and weights; the key stands for a hash that is not known.
std::string ContentSumHash(std::span<const AdapterPart> parts);

}  // namespace graft
