#include "rpc/runner_figures_proto.h"

namespace graft {

rpc::RunnerFigures ToProto(const RunnerFigures& figures) {
  rpc::RunnerFigures proto;
  proto.set_pages_free(figures.pages_free);
  proto.set_pages_cached(figures.pages_cached);
  proto.set_pages_referenced(figures.pages_referenced);
  proto.set_pages_adapters(figures.pages_adapters);
  proto.set_adapters_resident(figures.adapters_resident);
  proto.set_step_sequences(figures.step_sequences);
  proto.set_step_adapters(figures.step_adapters);
  proto.set_step_prompt_rows(figures.step_prompt_rows);
  proto.set_step_decode_rows(figures.step_decode_rows);
  proto.set_steps(figures.steps);
  proto.set_prompt_tokens(figures.prompt_tokens);
  proto.set_output_tokens(figures.output_tokens);
  proto.set_preemptions(figures.preemptions);
  proto.set_adapter_copies(figures.adapter_copies);
  proto.set_adapter_evictions(figures.adapter_evictions);
  return proto;
}

RunnerFigures FromProto(const rpc::RunnerFigures& proto) {
  RunnerFigures figures;
  figures.pages_free = proto.pages_free();
  figures.pages_cached = proto.pages_cached();
  figures.pages_referenced = proto.pages_referenced();
  figures.pages_adapters = proto.pages_adapters();
  figures.adapters_resident = proto.adapters_resident();
  figures.step_sequences = proto.step_sequences();
  figures.step_adapters = proto.step_adapters();
  figures.step_prompt_rows = proto.step_prompt_rows();
  figures.step_decode_rows = proto.step_decode_rows();
  figures.steps = proto.steps();
  figures.prompt_tokens = proto.prompt_tokens();
  figures.output_tokens = proto.output_tokens();
  figures.preemptions = proto.preemptions();
  figures.adapter_copies = proto.adapter_copies();
  figures.adapter_evictions = proto.adapter_evictions();
  return figures;
}

}  // namespace graft
