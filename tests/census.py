"""Tries the adapters of a census: for each line a small random model of its base's class, and an adapter that PEFT
writes for it with the line's own config. `graft adapters verify` says whether it is served, and so must its --census.
A server's log-probabilities are then compared with transformers' and PEFT's, in fp32. Needs PyTorch, transformers and
PEFT, on the CPU; says so and does nothing where they are absent. A base that was quantised by bitsandbytes counts with
its original.

usage: census.py [--census FILE] [--all] [--lines N,...] [--table FILE]
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

CENSUS = ROOT.parent / "shared" / "conformance" / "census.jsonl"
BINARY = os.environ.get("GRAFT_BINARY", str(ROOT / "build" / "dev" / "graft"))
IN_SCOPE = ("text", "mm")  # text models, and the text parts of others
NUM_TOKENS = 16
DIFFERENCE_MAX = 1e-3  # of log-probabilities

SIZES = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 2,
         "bos_token_id": 1, "eos_token_id": 2}
TOKENS = {name: SIZES[name] for name in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")}
GPT2_SIZES = TOKENS | {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
# Where a class has other names for its sizes, or more of them.
CLASS_SIZES = {
    "GPT2LMHeadModel": GPT2_SIZES,
    "CodeGenForCausalLM": GPT2_SIZES | {"rotary_dim": 8, "n_ctx": 64},
    "GPTNeoForCausalLM": TOKENS | {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
                                   "attention_types": [[["global", "local"], 1]], "window_size": 8},
    # A quarter of a head turns, which is a multiple of 8.
    "GPTNeoXForCausalLM": {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    | {"hidden_size": 128},
    "Gemma3ForCausalLM": SIZES | {"head_dim": 16},
    "Gemma2ForCausalLM": SIZES | {"head_dim": 16},
    "GemmaForCausalLM": SIZES | {"head_dim": 16},
    "Qwen3ForCausalLM": SIZES | {"head_dim": 16},
    "Gemma3ForConditionalGeneration": {"text_config": SIZES | {"head_dim": 16},
                                       "vision_config": VISION | {"image_size": 28, "patch_size": 14}},
    "Gemma4ForConditionalGeneration": {
        "text_config": SIZES | {"head_dim": 16, "global_head_dim": 16, "vocab_size_per_layer_input": 256,
                                "hidden_size_per_layer_input": 16},
        # Its towers have layers of a kind of their own, which PEFT refuses to adapt by the usual names.
        "vision_config": None, "audio_config": None},
    "Qwen3_5ForConditionalGeneration": {
        "text_config": SIZES | {"num_hidden_layers": 4, "head_dim": 16, "linear_num_key_heads": 2,
                                "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "depth": 1, "num_heads": 2,
                          "out_hidden_size": 64}},
    "NemotronHForCausalLM": TOKENS | {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
                                      "num_key_value_heads": 2, "max_position_embeddings": 64, "mamba_num_heads": 4,
                                      "mamba_head_dim": 32, "ssm_state_size": 16, "n_groups": 2},
}
LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers")
# Of a census's line; the others are PEFT's defaults.
LORA_KEYS = ("r", "lora_alpha", "target_modules", "task_type", "exclude_modules", "layers_to_transform",
             "modules_to_save", "use_rslora", "use_dora", "fan_in_fan_out", "bias")
Result = collections.namedtuple("Result", "line base_class served detail")


class NotTried(Exception):
    """No model of the base's class, or no adapter of it, can be made here."""


def import_oracles():
    """True where PyTorch, transformers and PEFT are there."""
    global peft, torch, transformers
    try:
        import peft
        import torch
        import transformers
    except ImportError as error:
        print(f"skipped: {error}; the census is tried where PyTorch, transformers and PEFT are installed")
        return False
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return True


def class_of(line):
    """"GPT2LMHeadModel" of "GPT2LMHeadModel?": a census may be in doubt, or say more behind the name."""
    return re.match(r"\w*", line["base_class"] or "")[0]


def layers_named(line):
    """How many layers an adapter's names ask for."""
    names = json.dumps([line["target_modules"], line["layers_to_transform"]])
    return max((int(number) + 1 for number in re.findall(r"layers\.(\d+)\.", names)), default=0)


def draw(model, picks, scale):
    """Random numbers for some of the parameters, larger than an initialisation's, which bf16 holds exactly."""
    for name, parameter in model.named_parameters():
        if not picks(name):
            continue
        values = torch.randn_like(parameter) * scale
        if "norm" in name or "ln_" in name:
            values = parameter.data + 0.2 * torch.randn_like(parameter)
        elif parameter.dim() > 1:
            values /= parameter.shape[-1] ** 0.5
        parameter.data = values.bfloat16().float()


def letter_tokenizer(vocab_size):
    """A tokenizer.json whose token i stands for the i-th of `vocab_size` one-letter words."""
    vocab = {chr(0x4E00 + token): token for token in range(vocab_size)}
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": None, "model": {"type": "BPE", "vocab": vocab, "merges": []}}


class SmallModel:
    """A model of a class in a folder, and the adapters that are made of it."""

    def __init__(self, base_class, num_layers, folder):
        model_class = getattr(transformers, base_class, None)
        if not base_class or model_class is None:
            raise NotTried("the base's class is not known" if not base_class else f"transformers has no {base_class}")
        sizes = json.loads(json.dumps(CLASS_SIZES.get(base_class, SIZES)))
        inner = sizes.get("text_config", sizes)
        for key in LAYER_KEYS:
            if num_layers and key in inner:
                inner[key] = max(num_layers, inner[key])
        torch.manual_seed(7)
        self.folder = folder / "model"
        self.adapters = folder / "adapters"
        self.model = model_class(model_class.config_class(**sizes)).float().eval()
        draw(self.model, lambda name: True, 1.5)
        self.model.save_pretrained(self.folder)
        (self.folder / "tokenizer.json").write_text(json.dumps(letter_tokenizer(SIZES["vocab_size"])))
        self.ids = torch.randint(3, SIZES["vocab_size"], (1, NUM_TOKENS))
        self.expected = {}
        self.lines = {}

    def logprobs(self, model):
        """Of tokens 1, 2, ... of the prompt."""
        with torch.no_grad():
            rows = model(input_ids=self.ids).logits[0].log_softmax(-1)
        return [rows[i, token].item() for i, token in enumerate(self.ids[0, 1:])]

    def add(self, line):
        """PEFT's adapter of the line, in a folder of the line's number."""
        keys = {key: line[key] for key in LORA_KEYS if line.get(key) is not None}
        config = peft.LoraConfig(lora_dropout=0.05, **keys)
        try:
            adapted = peft.get_peft_model(self.model, config).eval()
        except ValueError as error:
            raise NotTried(f"PEFT: {error}") from None
        try:
            torch.manual_seed(line["n"])
            draw(adapted, lambda name: "lora_" in name, 0.6)
            adapted.peft_config["default"].base_model_name_or_path = line["base_model_name_or_path"]
            name = f"line-{line['n']}"
            adapted.save_pretrained(self.adapters / name)
            self.expected[name] = self.logprobs(adapted)
            self.lines[name] = line
        finally:
            adapted.unload()
        return name


def verify(model, name):
    """"" where graft serves the adapter, else why not."""
    done = subprocess.run([BINARY, "adapters", "verify", "--text-only", "--model", str(model.folder),
                           str(model.adapters / name)], capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return ""
    # A base that is refused is said on stderr, an adapter on stdout.
    text = (done.stdout or done.stderr).strip().replace(str(model.adapters / name), "").replace(str(model.folder), "")
    text = re.sub(r"; supported: .*", "", text.removeprefix("graft: ").lstrip(": /"))
    return text.strip().removeprefix("config.json: ")


def verify_configs(model):
    """{name: whether graft would serve the adapter}, by the configs of base and adapter alone."""
    path = model.folder.parent / "census.jsonl"
    config = json.loads((model.folder / "config.json").read_text())
    path.write_text("".join(json.dumps(line | {"base_config": config}) + "\n" for line in model.lines.values()))
    done = subprocess.run([BINARY, "adapters", "verify", "--census", str(path)], capture_output=True, text=True,
                          timeout=300)
    verdicts = [": refused: " not in verdict for verdict in done.stdout.splitlines()[:len(model.lines)]]
    return dict(zip(model.lines, verdicts, strict=True))


def ask(url, name, ids):
    """The server's log-probabilities of tokens 1, 2, ... of the prompt."""
    body = {"model": name, "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)["choices"][0]["logprobs"]["token_logprobs"][1:]


def differences(model, names):
    """{name: the largest difference from PEFT's log-probabilities}, of a server with all these adapters."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([BINARY, "serve", "--model", str(model.folder), "--adapters", str(model.adapters),
                                    "--host", "127.0.0.1", "--port", str(port), "--dtype", "fp32", "--threads", "1",
                                    "--text-only"],
                                   stdout=log, stderr=log)
        try:
            wait_ready(url, process)
            ids = model.ids[0].tolist()
            return {name: max(abs(a - b) for a, b in zip(ask(url, name, ids), model.expected[name], strict=True))
                    for name in names}
        except RuntimeError:
            log.seek(0)
            raise RuntimeError(log.read().decode(errors="replace")) from None
        finally:
            process.terminate()
            process.wait()


def try_model(model):
    """Results of all its adapters."""
    refused = {name: verify(model, name) for name in model.lines}
    names = [name for name, why in refused.items() if not why]
    found = differences(model, names) if names else {}
    by_configs = verify_configs(model)
    for name, line in model.lines.items():
        detail = refused[name] or f"{found[name]:.0e}"
        wrong = name in found and not found[name] <= DIFFERENCE_MAX
        if by_configs[name] != (name in found):
            wrong, detail = True, f"--census says otherwise: {detail}"
        yield Result(line, class_of(line), name in found and not wrong, ("WRONG: " if wrong else "") + detail)


def try_lines(lines):
    """A Result of each line."""
    results = []
    groups = collections.defaultdict(list)
    for line in lines:
        groups[class_of(line), layers_named(line)].append(line)
    for (base_class, num_layers), group in groups.items():
        with tempfile.TemporaryDirectory() as folder:
            model = None
            for line in group:
                try:
                    model = model or SmallModel(base_class, num_layers, pathlib.Path(folder))
                    model.add(line)
                except NotTried as why:
                    results.append(Result(line, base_class, False, f"not tried: {why}"))
            if model is not None:
                results += try_model(model)
    return sorted(results, key=lambda result: result.line["n"])


SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def targets_text(line):
    """The target names, shortened."""
    names = line["target_modules"]
    if isinstance(names, str):
        return "a regex"
    if len(names) > 8 or max(map(len, names)) > 20:
        return f"{len(names)} names"
    if set(names) == set(SEVEN):
        return "all seven"
    return " ".join(name.removesuffix("_proj") if name in SEVEN else name for name in sorted(names))


def page(results):
    """Markdown: the figure, the refusals by their reasons, and a line per adapter."""
    served = [result for result in results if result.served]
    originals = [result for result in served if result.line["base_quant"]]
    share = 100 * len(served) / len(results)
    lines = ["# A census of adapters, tried", "",
             "Written by `tests/census.py`. Each line of the census was tried with a small random model of its base's",
             "class and an adapter that PEFT wrote with the line's config. A served adapter's log-probabilities are",
             f"PEFT's within {DIFFERENCE_MAX:g} in fp32; the largest difference stands in the last column.", "",
             f"{len(served)} of {len(results)} lines are served ({share:.1f} %), {len(originals)} of them with the",
             "original of a base that was quantised by bitsandbytes.", "", "| refused | lines |", "|---|---|"]
    reasons = collections.Counter(reason(result) for result in results if not result.served)
    lines += [f"| {name} | {count} |" for name, count in reasons.most_common()]
    lines += ["", "| line | class of the base | rank | targets | served | difference, or why not |",
              "|---|---|---|---|---|---|"]
    for result in results:
        line = result.line
        answer = ("with the original" if line["base_quant"] else "yes") if result.served else "no"
        detail = result.detail.replace("|", "\\|").replace("\n", " ")
        cells = [line["n"], result.base_class or "-", line["r"], targets_text(line), answer, detail]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


REASONS = [(r"architecture \w+ is not supported", r"\g<0>"),
           (r"\"target_modules\" names \"\S+\", but this model", "a target that the base lacks"),
           (r"\"target_modules\" names (\"\S+\"), which is not adapted", r"the target \1"),
           (r"not tried: [^:]*", r"\g<0>")]


def reason(result):
    """What lines are refused for, without what differs between them."""
    for pattern, text in REASONS:
        match = re.search(pattern, result.detail)
        if match:
            return match.expand(text)
    return result.detail[:100].replace("|", "\\|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--census", type=pathlib.Path, default=CENSUS)
    parser.add_argument("--all", action="store_true", help="lines out of scope, too")
    parser.add_argument("--lines", help="numbers of lines, by commas")
    parser.add_argument("--table", type=pathlib.Path, help="where the page is written")
    options = parser.parse_args()
    if not import_oracles():
        return 0
    if not options.census.exists():
        print(f"skipped: there is no {options.census}")
        return 0
    lines = [json.loads(text) for text in options.census.read_text().splitlines() if text.strip()]
    if options.lines:
        wanted = {int(number) for number in options.lines.split(",")}
        lines = [line for line in lines if line["n"] in wanted]
    elif not options.all:
        lines = [line for line in lines if line["scope"] in IN_SCOPE]
    results = try_lines(lines)
    text = page(results)
    print(text)
    if options.table:
        options.table.write_text(text)
    wrong = [result.line["n"] for result in results if result.detail.startswith("WRONG")]
    if wrong:
        print(f"answers differ from PEFT's, or --census from what is served, in lines {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
