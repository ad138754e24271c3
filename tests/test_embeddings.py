"""/v1/embeddings: what Hugging Face's models have in their last layer, by the official client, and over a cluster."""

import base64
import concurrent.futures
import json
import math
import struct

import openai
import pytest

from conftest import DEMO, ROOT, Server
from test_features import golden_server, read_golden


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def embed(server, model, texts, **kwargs):
    return [entry.embedding for entry in server.client().embeddings.create(model=model, input=texts, **kwargs).data]


def matrix(path, *names):
    """The rows of the first of these bf16 or fp32 tensors that is there."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    entry = next(header[name] for name in names if name in header)
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    if entry["dtype"] == "BF16":
        words = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
        flat = struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words)))
    else:
        assert entry["dtype"] == "F32"
        flat = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    rows, columns = entry["shape"]
    return [flat[i * columns:(i + 1) * columns] for i in range(rows)]


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3-longrope"])
def test_an_embedding_gives_hugging_faces_logits(name, pooling, tmp_path):
    """The logits are lm_head times the hidden states, so those of the golden, or their mean, are lm_head times the
    vector."""
    golden = read_golden(ROOT / "tests" / "goldens" / name / "golden.safetensors")
    head = matrix(ROOT / "tests" / "goldens" / name / "model.safetensors", "lm_head.weight",
                  "model.embed_tokens.weight")
    server = golden_server(tmp_path, name, "fp32")
    server.args += ["--pooling", pooling]
    with server:
        for model, logits in (("base", golden["logits_base"]), ("adapter", golden["logits_adapter"])):
            rows = logits if pooling == "mean" else logits[-1:]
            theirs = [sum(column) / len(rows) for column in zip(*rows)]
            vector, = embed(server, model, list(golden["input_ids"]), extra_body={"normalize": False})
            ours = [dot(row, vector) for row in head]
            assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-3, model
            unit, = embed(server, model, list(golden["input_ids"]))
            assert math.isclose(dot(unit, unit), 1, abs_tol=1e-5) and math.isclose(cosine(unit, vector), 1, abs_tol=1e-6)


def test_inputs_of_all_kinds_by_the_official_client(server):
    texts = ["It is a truth", "universally acknowledged", "It is a truth"]
    client = server.client()
    vectors = embed(server, "austen", texts)  # the client asks for base64 by itself
    assert vectors[0] == vectors[2] != vectors[1]
    floats = client.embeddings.create(model="austen", input=texts, encoding_format="float")
    assert [entry.index for entry in floats.data] == [0, 1, 2]
    assert all(math.isclose(a, b, abs_tol=1e-7) for a, b in zip(floats.data[0].embedding, vectors[0]))
    raw = client.embeddings.create(model="austen", input=texts[:1], encoding_format="base64").data[0].embedding
    assert struct.unpack(f"<{len(vectors[0])}f", base64.b64decode(raw)) == tuple(vectors[0])
    assert embed(server, "doyle", texts[:1]) != vectors[:1]
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > 0
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(model="austen", input="x", dimensions=4)
    assert error.value.param == "dimensions"


def test_embeddings_share_steps_with_decoding(server):
    """Many at once, beside texts: everybody gets what he gets alone."""
    texts = [f"line {i} of a book " * (1 + i % 7) for i in range(48)]
    alone = [embed(server, "austen", [text])[0] for text in texts[:6]]
    client = server.client()

    def write(i):
        return client.completions.create(model=["austen", "doyle"][i % 2], prompt="It is", max_tokens=24,
                                         temperature=0).choices[0].text
    want = [write(0), write(1)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        written = [pool.submit(write, i) for i in range(8)]
        embedded = pool.submit(embed, server, "austen", texts)
        assert [one.result() for one in written] == want * 4
        assert embedded.result()[:6] == alone
