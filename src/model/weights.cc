#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "base/log.h"
#include "base/random.h"
#include "model/family.h"
#include "model/matrix_codes.h"
#include "model/quantised_source.h"
#include "model/safetensors.h"
#include "model/tensor_names.h"
#include "model/tensor_rows.h"
#include "model/tensor_source.h"
#include "model/wrapper.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// Elements per task when tensors are drawn.
constexpr int64_t kGrain = int64_t{1} << 16;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";

// Norms do nothing; everything else is uniform with the standard deviation 0.02 that HF starts
// from. Uniform, because a benchmark cares that numbers stay in range, and it costs a tenth of
// normal.
class RandomSource : public TensorSource {
 public:
  // `norm`: the value of norms' weights.
  RandomSource(DType dtype, uint64_t seed, float norm, Stream& stream)
      : dtype_(dtype), seed_(seed), norm_(norm), stream_(stream) {}

  Result<TensorView> Get(const std::string& name, const std::vector<int64_t>& shape) override {
    TensorView view{nullptr, dtype_, shape};
    void* data = Allocate(view.bytes());
    const uint64_t tensor_seed = RandomBits(seed_, num_tensors_++);
    const bool is_norm = name.ends_with("norm.weight") ||
                         (name.ends_with(kWeight) && name.find(".ln_") != name.npos);
    DispatchDType(dtype_, [&]<typename T>() {
      T* out = static_cast<T*>(data);
      const auto fill = [&](int64_t begin, int64_t end) {
        if (is_norm) {
          std::fill(out + begin, out + end, FromFloat<T>(norm_));
        } else {
          Draw(tensor_seed, begin, end, out);
        }
      };
      stream_.cpu_threads->ParallelFor(view.num_elements(), kGrain, fill);
    });
    view.data = data;
    return view;
  }
  // Only what must be there.
  bool Has(const std::string&) const override { return false; }

 private:
  // Four elements per draw, 16 bits each; begin is a multiple of 4.
  template <typename T>
  static void Draw(uint64_t seed, int64_t begin, int64_t end, T* out) {
    constexpr float kStep = 0.02f * 1.7320508f / 32768.0f;  // sqrt(3): half width of std dev 1
    for (int64_t i = begin; i < end; i += 4) {
      uint64_t bits = RandomBits(seed, static_cast<uint64_t>(i));
      const int64_t n = std::min<int64_t>(4, end - i);
      for (int64_t j = 0; j < n; ++j, bits >>= 16) {
        const float centred = static_cast<float>(static_cast<int32_t>(bits & 0xffffu)) - 32767.5f;
        out[i + j] = FromFloat<T>(centred * kStep);
      }
    }
  }

  const DType dtype_;
  const uint64_t seed_;
  const float norm_;
  Stream& stream_;
  uint64_t num_tensors_ = 0;
};

// Asks a source for every tensor of the architecture and packs it.
class Builder {
 public:
  Builder(const ModelConfig& config, const Shard& shard, const ServedTypes& types,
          TensorSource& source, Stream& stream, const LoadProgress& progress)
      : config_(config),
        shard_(shard),
        types_(types),
        source_(source),
        names_(config, [&source](const std::string& name) { return source.Has(name); }),
        stream_(stream),
        progress_(progress) {}

  Result<ModelWeights> Build() {
    ModelWeights weights;
    weights.types = types_;
    weights.vocabulary = VocabularyOf(config_, shard_);
    const ModulePaths& paths = FamilyOf(config_.architecture).paths;
    const std::string embedding_name = names_.WeightOf(paths.embedding);
    const std::string head_name = names_.WeightOf(paths.head);
    const auto table_of = [&](const std::string& name) -> Part {
      return {name, {config_.vocab_size, config_.hidden_size}, {weights.vocabulary}};
    };
    // Files that hold a shared table once may hold it under either name.
    const bool only_head =
        config_.tied_embeddings && !source_.Has(embedding_name) && source_.Has(head_name);
    ASSIGN_OR_RETURN(
        Buffer embedding,
        PlainOnHost({table_of(only_head ? head_name : embedding_name)}, types_.embeddings));
    if (config_.tied_embeddings) {
      TensorView table{
          embedding.data(), types_.embeddings, {weights.vocabulary.size(), config_.hidden_size}};
      Buffer other_head;
      if (!only_head && source_.Has(head_name)) {
        ASSIGN_OR_RETURN(other_head, OtherHead(table_of(head_name), embedding_name, table));
        if (other_head.data() != nullptr) table.data = other_head.data();
      }
      weights.lm_head = GemmWeight::Pack({&table, 1}, types_.operands, stream_);
    }
    weights.embedding = MoveToDevice(std::move(embedding), stream_);
    if (config_.num_positions > 0) {
      ASSIGN_OR_RETURN(
          weights.positions,
          Plain({{names_.WeightOf(paths.positions), {config_.num_positions, config_.hidden_size}}},
                types_.embeddings));
    }
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      weights.layers.emplace_back();
      const std::string prefix = names_.Of(paths.layers) + std::to_string(layer) + ".";
      RETURN_IF_ERROR(BuildProjections(layer, weights.layers.back()));
      RETURN_IF_ERROR(BuildNorms(prefix, config_.layers[layer], weights.layers.back()));
      RETURN_IF_ERROR(BuildBiases(layer, weights.layers.back()));
    }
    ASSIGN_OR_RETURN(weights.final_norm, HiddenNorm(names_.Of(paths.final_norm)));
    if (!config_.tied_embeddings) {
      ASSIGN_OR_RETURN(weights.lm_head, Matrix({table_of(head_name)}, types_.operands));
    }
    if (config_.head_bias) {
      ASSIGN_OR_RETURN(weights.lm_head_bias, Plain({{names_.Of(paths.head) + std::string(kBias),
                                                     {config_.vocab_size},
                                                     {weights.vocabulary}}},
                                                   DType::kF32));
    }
    return weights;
  }

 private:
  // A tensor of the checkpoint, [rows] or [rows, columns], and what this rank has of it.
  struct Part {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<IndexRange> rows = {};       // one after the other; none: all
    std::optional<IndexRange> columns = {};  // none: all
    bool is_transposed = false;              // the checkpoint has numbers as [columns, rows]
    bool by_heads = false;                   // StoredProjection::by_heads
  };

  // The file's lm_head of a model with tied embeddings, in the table's dtype; empty where it is the
  // table itself. One that differs is what the model computes with, as transformers 5 has it.
  Result<Buffer> OtherHead(const Part& part, const std::string& embedding_name,
                           const TensorView& table) {
    ASSIGN_OR_RETURN(const std::vector<TensorView> heads, Get({part}));
    Buffer head(table.bytes());
    ConvertElements(heads[0].dtype, heads[0].data, table.dtype, head.data(), table.num_elements());
    source_.Release();
    if (std::memcmp(head.data(), table.data, static_cast<size_t>(table.bytes())) == 0) {
      return Buffer();
    }
    LOG_WARN(
        "config.json, or the default of its class, says tie_word_embeddings, but the files' {} "
        "differs from {}: both are used as they are",
        part.name, embedding_name);
    return head;
  }

  Status BuildProjections(int32_t i, LayerWeights& layer) {
    const auto matrix = [&](LayerProduct product) {
      return Matrix(PartsOf(i, product, kWeight), types_.weights);
    };
    ASSIGN_OR_RETURN(layer.qkv, matrix(LayerProduct::kQkv));
    ASSIGN_OR_RETURN(layer.o, matrix(LayerProduct::kO));
    ASSIGN_OR_RETURN(layer.gate_up, matrix(LayerProduct::kGateUp));
    ASSIGN_OR_RETURN(layer.down, matrix(LayerProduct::kDown));
    return OkStatus();
  }

  // The tensors of a layer's projections that a product is made of: as the family stores them, and
  // cut as each module's rows and columns are.
  std::vector<Part> PartsOf(int32_t layer, LayerProduct product, std::string_view suffix) const {
    std::vector<Part> parts;
    for (const StoredProjection& projection : StoredProjections(config_)) {
      if (config_.lora_target(projection.first).product != product) continue;
      const LoraModuleShape shape = ShapeOfStoredProjection(config_, projection);
      const std::string path = LoraModulePath(config_, layer, projection.first);
      Part part{names_.Of(path) + std::string(suffix), {shape.out}};
      for (int j = 0; j < projection.num_modules; ++j) {
        const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + j);
        const IndexRange rows = SliceOfLoraModule(config_, module, shard_).out;
        for (const IndexRange& stored : StoredRowsOf(config_, module, rows)) {
          part.rows.push_back(stored);
        }
      }
      if (suffix == kWeight) {
        part.shape.push_back(shape.in);
        part.columns = SliceOfLoraModule(config_, projection.first, shard_).in;
        part.is_transposed = FamilyOf(config_.architecture).transposes_weights;
        part.by_heads = projection.by_heads;
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  Status BuildNorms(const std::string& prefix, const LayerSpec& spec, LayerWeights& layer) {
    const NormNames& names = FamilyOf(config_.architecture).norms;
    const auto path_of = [&](std::string_view name) {
      CHECK(!name.empty()) << ArchitectureName(config_.architecture) << " has no such norm";
      return prefix + std::string(name);
    };
    if (spec.input_norms) {
      ASSIGN_OR_RETURN(layer.attention_norm, HiddenNorm(path_of(names.attention)));
    }
    if (spec.output_norms) {
      ASSIGN_OR_RETURN(layer.attention_output_norm, HiddenNorm(path_of(names.attention_output)));
    }
    if (spec.input_norms && !spec.shares_norm) {
      ASSIGN_OR_RETURN(layer.mlp_norm, HiddenNorm(path_of(names.mlp)));
    }
    if (spec.output_norms) {
      ASSIGN_OR_RETURN(layer.mlp_output_norm, HiddenNorm(path_of(names.mlp_output)));
    }
    if (spec.qk_norm) {
      const bool across = spec.qk_norm_across_heads;
      const auto norm = [&](std::string_view name, LoraModule module, int64_t columns) {
        if (!across) return Norm(path_of(name), config_.head_dim);
        return Norm(path_of(name), columns, SliceOfLoraModule(config_, module, shard_).out);
      };
      ASSIGN_OR_RETURN(layer.q_norm, norm(names.q, LoraModule::kQ, config_.q_size()));
      ASSIGN_OR_RETURN(layer.k_norm, norm(names.k, LoraModule::kK, config_.kv_size()));
    }
    return OkStatus();
  }

  Status BuildBiases(int32_t i, LayerWeights& layer) {
    const auto bias = [&](LayerProduct product) {
      return Plain(PartsOf(i, product, kBias), DType::kF32);
    };
    if (config_.qkv_bias) {
      ASSIGN_OR_RETURN(layer.qkv_bias, bias(LayerProduct::kQkv));
    }
    if (config_.o_bias) {
      ASSIGN_OR_RETURN(layer.o_bias, bias(LayerProduct::kO));
    }
    if (config_.mlp_bias) {
      ASSIGN_OR_RETURN(layer.gate_up_bias, bias(LayerProduct::kGateUp));
      ASSIGN_OR_RETURN(layer.down_bias, bias(LayerProduct::kDown));
    }
    // What ranks sum up has its bias once.
    if (shard_.rank == 0) return OkStatus();
    layer.o_bias = Buffer();
    layer.down_bias = Buffer();
    return OkStatus();
  }

  // A norm of hidden states: of LayerNorm its weights, and its biases behind them.
  Result<Buffer> HiddenNorm(const std::string& module) {
    if (config_.norm == NormKind::kRms) return Norm(module, config_.hidden_size);
    return Plain({{module + std::string(kWeight), {config_.hidden_size}},
                  {module + std::string(kBias), {config_.hidden_size}}},
                 DType::kF32);
  }

  // What a norm multiplies by, of `n` dimensions, or of those that this rank has.
  Result<Buffer> Norm(const std::string& module, int64_t n, std::optional<IndexRange> own = {}) {
    const IndexRange range = own.value_or(IndexRange{0, n});
    ASSIGN_OR_RETURN(Buffer buffer, PlainOnHost({{module + ".weight", {n}, {range}}}, DType::kF32));
    if (config_.norms_add_one) {
      for (int64_t i = 0; i < range.size(); ++i) buffer.as<float>()[i] += 1.0f;
    }
    return MoveToDevice(std::move(buffer), stream_);
  }

  // The parts stacked and packed for GEMM.
  Result<GemmWeight> Matrix(const std::vector<Part>& parts, const WeightFormat& format) {
    if (types_.keeps_codes) {
      ASSIGN_OR_RETURN(const auto codes, CodesOf(parts));
      if (codes != nullptr) {
        GemmWeight weight = GemmWeight::PackCodes(*codes, codes->format(), stream_);
        Finish(parts);
        return weight;
      }
    }
    ASSIGN_OR_RETURN(const std::vector<TensorView> views, Get(parts));
    const StackedTensors numbers(views);
    GemmWeight weight = format.is_plain()
                            ? GemmWeight::Pack(numbers, format, stream_)
                            : GemmWeight::PackCodes(RoundedCodes(numbers, format), format, stream_);
    Finish(parts);
    return weight;
  }

  // The parts as codes; null where they are numbers, or have to become numbers: those that files
  // have in another order than kernels read.
  Result<std::unique_ptr<StackedCodes>> CodesOf(const std::vector<Part>& parts) {
    std::vector<CodesPart> all;
    bool has_order = false;
    for (const Part& part : parts) {
      if (part.is_transposed || part.by_heads) return std::unique_ptr<StackedCodes>();
      ASSIGN_OR_RETURN(std::shared_ptr<const PackedMatrix> matrix,
                       source_.Packed(part.name, part.shape));
      if (matrix == nullptr) return std::unique_ptr<StackedCodes>();
      // Ranks cannot have a part of such columns each, and are refused them.
      const bool is_whole = !part.columns.has_value() || part.columns->size() == part.shape[1];
      has_order = has_order || (is_whole && !matrix->form().group_of.empty());
      std::vector<IndexRange> rows = part.rows;
      if (rows.empty()) rows.push_back({0, part.shape[0]});
      for (const IndexRange& range : rows) {
        all.push_back({matrix, range, part.columns.value_or(IndexRange{0, part.shape[1]})});
      }
    }
    std::unique_ptr<StackedCodes> codes = StackedCodes::Make(std::move(all), types_.operands);
    if (codes == nullptr && has_order) {
      LOG_WARN(
          "{} becomes numbers, which takes more memory than was said: its groups are of unequal "
          "sizes, or of other inputs than those of weights that are multiplied with it",
          parts[0].name);
    }
    return codes;
  }

  // The parts one after the other, as they are.
  Result<Buffer> Plain(const std::vector<Part>& parts, DType dtype) {
    ASSIGN_OR_RETURN(Buffer buffer, PlainOnHost(parts, dtype));
    return MoveToDevice(std::move(buffer), stream_);
  }

  Result<Buffer> PlainOnHost(const std::vector<Part>& parts, DType dtype) {
    ASSIGN_OR_RETURN(const std::vector<TensorView> views, Get(parts));
    int64_t num_elements = 0;
    for (const TensorView& view : views) num_elements += view.num_elements();
    Buffer buffer(num_elements * DTypeBytes(dtype));
    char* out = buffer.as<char>();
    for (const TensorView& view : views) {
      ConvertElements(view.dtype, view.data, dtype, out, view.num_elements());
      out += view.num_elements() * DTypeBytes(dtype);
    }
    Finish(parts);
    return buffer;
  }

  Result<std::vector<TensorView>> Get(const std::vector<Part>& parts) {
    std::vector<TensorView> views;
    for (const Part& part : parts) {
      ASSIGN_OR_RETURN(TensorView whole, GetWhole(part));
      if (part.columns.has_value() && part.columns->size() != part.shape[1]) {
        RETURN_IF_ERROR(source_.CheckColumnsApart(part.name));
      }
      std::vector<IndexRange> rows = part.rows;
      if (rows.empty()) rows.push_back({0, part.shape[0]});
      for (const IndexRange& range : rows) {
        TensorView view = Columns(Rows(whole, range), part.columns);
        RETURN_IF_ERROR(source_.Check(part.name, view));
        views.push_back(std::move(view));
      }
    }
    return views;
  }

  Result<TensorView> GetWhole(const Part& part) {
    // Libraries quantise a Conv1D as the Linear that does the same: [out, in].
    if (!part.is_transposed || source_.IsCodes(part.name)) {
      return source_.Get(part.name, part.shape);
    }
    ASSIGN_OR_RETURN(const TensorView stored,
                     source_.Get(part.name, {part.shape[1], part.shape[0]}));
    void* const out = source_.Allocate(stored.bytes());
    DispatchDType(stored.dtype, [&]<typename T>() {
      Transpose(static_cast<const T*>(stored.data), part.shape[0], part.shape[1],
                static_cast<T*>(out));
    });
    return TensorView{out, stored.dtype, part.shape};
  }

  // [columns, rows] to [rows, columns], in tiles: neither side is walked with long strides.
  template <typename T>
  void Transpose(const T* from, int64_t rows, int64_t columns, T* to) {
    constexpr int64_t kTile = 32;
    const int64_t num_tiles = (rows + kTile - 1) / kTile;
    stream_.cpu_threads->ParallelFor(num_tiles, 1, [&](int64_t first, int64_t last) {
      for (int64_t at = 0; at < columns; at += kTile) {
        const int64_t column_end = std::min(at + kTile, columns);
        for (int64_t row = first * kTile; row < std::min(last * kTile, rows); ++row) {
          for (int64_t column = at; column < column_end; ++column) {
            to[row * columns + column] = from[column * rows + row];
          }
        }
      }
    });
  }

  static TensorView Rows(TensorView view, const IndexRange& rows) {
    const int64_t row_bytes = view.bytes() / view.shape[0];
    view.data = static_cast<const char*>(view.data) + rows.begin * row_bytes;
    view.shape[0] = rows.size();
    return view;
  }

  // What lies apart is brought together.
  TensorView Columns(TensorView view, const std::optional<IndexRange>& columns) {
    if (!columns.has_value() || columns->size() == view.shape[1]) return view;
    const int64_t element = DTypeBytes(view.dtype);
    const int64_t from_bytes = view.shape[1] * element;
    const auto* const from = static_cast<const char*>(view.data) + columns->begin * element;
    view.shape[1] = columns->size();
    const int64_t to_bytes = view.shape[1] * element;
    char* const to = static_cast<char*>(source_.Allocate(view.bytes()));
    stream_.cpu_threads->ParallelFor(view.shape[0], 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::memcpy(to + row * to_bytes, from + row * from_bytes, static_cast<size_t>(to_bytes));
      }
    });
    view.data = to;
    return view;
  }

  void Finish(const std::vector<Part>& parts) {
    for (const Part& part : parts)
      num_done_ += TensorView{nullptr, DType::kF32, part.shape}.num_elements();
    source_.Release();
    if (progress_) progress_(num_done_, config_.num_parameters());
  }

  const ModelConfig& config_;
  const Shard shard_;
  const ServedTypes types_;
  TensorSource& source_;
  const TensorNames names_;
  Stream& stream_;
  const LoadProgress& progress_;
  int64_t num_done_ = 0;
};

// What is in the files and was not used: refused where it is part of a module that we compute.
Status CheckUnused(const FileSource& source, const ModelConfig& config) {
  const TensorNames names(config, [&source](const std::string& name) { return source.Has(name); });
  std::vector<std::string> foreign;
  std::vector<std::string> of_towers;
  int64_t num_cache_scales = 0;
  for (const std::string& name : source.files().Names()) {
    if (source.used(name) || names.IsIdle(name)) continue;
    if (IsScaleOfCache(name)) {
      ++num_cache_scales;
      continue;
    }
    if (config.quantisation.has_value() && IsBiasOfZeros(source.files(), name)) continue;
    const bool is_ours =
        config.wrapper != nullptr ? TextNameOf(name).has_value() : names.IsOurs(name);
    if (is_ours) {
      return UnimplementedError("tensor " + name + " is in the files, but a " +
                                std::string(ClassNameOf(config)) +
                                " of this config.json has no such tensor");
    }
    (config.wrapper != nullptr && IsOfTower(name) ? of_towers : foreign).push_back(name);
  }
  if (!of_towers.empty()) {
    LOG_INFO("the text of {} is served: {} tensors of its towers are not read ({}{})",
             ClassNameOf(config), of_towers.size(), of_towers.front(),
             of_towers.size() > 1 ? ", ..." : "");
  }
  if (num_cache_scales > 0) {
    LOG_INFO(
        "{} scales of an 8-bit cache (k_scale, v_scale) are read over: keys and values are "
        "not kept in 8 bits",
        num_cache_scales);
  }
  if (!foreign.empty()) {
    LOG_WARN("{} tensors belong to no part of the model and are not read: {}{}", foreign.size(),
             foreign.front(), foreign.size() > 1 ? ", ..." : "");
  }
  return OkStatus();
}

}  // namespace

int64_t ModelWeights::bytes() const {
  int64_t total = embedding.bytes() + positions.bytes() + final_norm.bytes() + lm_head.bytes() +
                  lm_head_bias.bytes();
  for (const LayerWeights& layer : layers) {
    for (const GemmWeight* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      total += weight->bytes();
    }
    for (const Buffer* buffer :
         {&layer.attention_norm, &layer.attention_output_norm, &layer.qkv_bias, &layer.q_norm,
          &layer.k_norm, &layer.o_bias, &layer.mlp_norm, &layer.mlp_output_norm,
          &layer.gate_up_bias, &layer.down_bias}) {
      total += buffer->bytes();
    }
  }
  return total;
}

int64_t WeightsBytes(const ModelConfig& config, const ServedTypes& types, const Device& device,
                     int32_t num_ranks) {
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t words = VocabularySliceMax(config, num_ranks);
  const MatrixFormats formats(config, types);
  int64_t floats = config.norm_size() + (config.head_bias ? words : 0);  // the last norm, the head
  int64_t matrices = 0;
  for (int32_t i = 0; i < config.num_layers; ++i) {
    floats += config.norm_elements(config.layers[i]);
    if (config.qkv_bias) floats += config.qkv_size();
    if (config.o_bias) floats += hidden;
    if (config.mlp_bias) floats += config.gate_up_size() + hidden;
    const auto matrix = [&](LayerProduct product, int64_t n, int64_t k) {
      return GemmWeight::BytesFor(n, k, formats.Of(i, product), device);
    };
    matrices += matrix(LayerProduct::kQkv, config.qkv_size(), hidden) +
                matrix(LayerProduct::kO, hidden, config.q_size()) +
                matrix(LayerProduct::kGateUp, config.gate_up_size(), hidden) +
                matrix(LayerProduct::kDown, hidden, intermediate);
  }
  return (words + config.num_positions) * hidden * DTypeBytes(types.embeddings) +
         GemmWeight::BytesFor(words, hidden, types.operands, device) + matrices +
         floats * int64_t{sizeof(float)};
}

int64_t WeightsReadingBytes(const ModelConfig& config, const ServedTypes& types) {
  const int64_t widest =
      std::max<int64_t>({config.vocab_size, config.gate_up_size(), config.qkv_size()});
  const int64_t converted = widest * config.hidden_size * DTypeBytes(types.operands);
  if (!FamilyOf(config.architecture).transposes_weights) return converted;
  // Besides, what is transposed, as wide as a file may have it.
  const int64_t transposed = std::max<int64_t>(config.gate_up_size(), config.qkv_size());
  return converted + transposed * config.hidden_size * DTypeBytes(DType::kF32);
}

float EmbeddingScale(const ModelConfig& config, DType dtype) {
  if (!config.scales_embeddings) return 1.0f;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
  return DispatchDType(dtype, [&]<typename T>() { return ToFloat(FromFloat<T>(scale)); });
}

DType ServingDType(const ModelConfig& config, std::optional<DType> asked, const Device& device) {
  if (asked.has_value()) return *asked;
  if (device.is_cpu()) return config.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
  return config.dtype == DType::kF16 ? DType::kF16 : DType::kBF16;
}

Result<ModelWeights> LoadWeights(const std::string& model_dir, const ModelConfig& config,
                                 const ServedTypes& types, Stream& stream,
                                 const LoadProgress& progress, const Shard& shard) {
  if (types.operands == DType::kF16 && stream.device.is_cpu()) {
    return UnimplementedError("the CPU does not serve in fp16; it serves fp32 and bf16");
  }
  ASSIGN_OR_RETURN(const SafetensorsSet files, SafetensorsSet::Open(model_dir));
  std::map<std::string, std::string> stored;
  if (config.wrapper != nullptr) {
    ASSIGN_OR_RETURN(stored, StoredTextNames(files.Names()));
  }
  FileSource source(files, stream, std::move(stored));
  std::unique_ptr<QuantisedSource> quantised;
  if (config.quantisation.has_value()) {
    ASSIGN_OR_RETURN(quantised, QuantisedSource::Make(source, *config.quantisation, stream));
  }
  TensorSource& tensors = quantised ? static_cast<TensorSource&>(*quantised) : source;
  Result<ModelWeights> weights = Builder(config, shard, types, tensors, stream, progress).Build();
  if (!weights.ok()) return weights;
  RETURN_IF_ERROR(CheckUnused(source, config));
  return weights;
}

ModelWeights RandomWeights(const ModelConfig& config, const ServedTypes& types, uint64_t seed,
                           Stream& stream, const LoadProgress& progress, const Shard& shard) {
  CHECK(types.operands != DType::kF16 || !stream.device.is_cpu()) << "the CPU serves fp32 and bf16";
  RandomSource source(types.operands, seed, config.norms_add_one ? 0.0f : 1.0f, stream);
  Result<ModelWeights> weights = Builder(config, shard, types, source, stream, progress).Build();
  CHECK(weights.ok()) << weights.status().ToString();
  return std::move(*weights);
}

}  // namespace graft
