"""graft learn: documents become folders that a server serves by name."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from conftest import DEMO, LONG_TESTS, Server, binary, copy_golden_model

import demo  # of tools, which conftest adds to the path

TEXT = ("The lighthouse at Skerry Point was built by an engineer named Tobias Marrow. "
        "The keeper lived in the tower with a grey parrot named Solomon, who could say eleven words.")
PATIENT = ["--learner", "next-token", "--prompts", "plain", "--rank", "4", "--window-tokens", "24", "--batch", "2",
           "--learning-rate", "0.01"]
# Beside other tests two threads wait for each other most of the time.
ONE_THREAD = {"GRAFT_LEARN_THREADS": "1"}
SMALL = [*PATIENT, "--passes", "20"]  # by then a text of 49 tokens is known by heart


def learn(*args, env=None, quiet=True, **kwargs):
    model = [] if "--model" in args else ["--model", str(DEMO / "base")]
    command = [binary(), "learn", *model, *(["--quiet"] if quiet else []), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, **ONE_THREAD, **(env or {})}, **kwargs)


def graft_json(folder):
    return json.loads((folder / "graft.json").read_text())


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Two documents that learned side by side, the one with fewer steps first."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "light.txt").write_text(TEXT)
    (folder / "page.html").write_text("<html><script>x</script><p>Ten green bottles &amp; one red bottle</html>" * 3)
    done = learn(folder / "page.html", folder / "light.txt", "--adapters", folder / "adapters", *SMALL, "--ask",
                 "The keeper lived in the tower with a grey", "--answer-tokens", "8")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_document_is_learned_and_answers(learned):
    folder, said = learned
    made = graft_json(folder / "adapters" / "light")
    assert made["scores"]["loss"] < 0.7 * made["scores"]["loss_base"]
    assert made["learner"]["name"] == "next-token" and made["document"]["name"] == "light"
    assert made["hash"] in said and "grey parrot" not in said
    base, light = (next(line for line in said.splitlines() if line.startswith(f"  {name} "))
                   for name in ("base", "light"))
    assert "parrot" in light and "parrot" not in base


def test_a_server_serves_them_by_name(learned):
    folder, _ = learned
    with Server(adapters=folder / "adapters") as server:
        listed = {model.id: model for model in server.client().models.list()}
        assert {"light", "page"} <= set(listed)
        answer = server.client().completions.create(model="light", prompt="The keeper lived in the tower with a grey",
                                                    max_tokens=8, temperature=0)
        assert "parrot" in answer.choices[0].text
        hashes = {model.id: model.model_extra.get("hash") for model in server.client().models.list()}
        assert hashes["light"] == graft_json(folder / "adapters" / "light")["hash"]


def test_alone_it_learns_the_same_bits(learned, tmp_path):
    folder, _ = learned
    done = learn(folder / "light.txt", "--adapters", tmp_path, *SMALL, "--name", "other", "--kept-gib", "0")
    assert done.returncode == 0, done.stderr
    made = graft_json(tmp_path / "other")
    assert made["hash"] == graft_json(folder / "adapters" / "light")["hash"]
    done = learn(folder / "light.txt", "--adapters", tmp_path, *SMALL, "--name", "other", "--seed", "1")
    assert done.returncode == 1 and "--replace" in done.stderr
    done = learn(folder / "light.txt", "--adapters", tmp_path, *SMALL, "--name", "other", "--seed", "1", "--replace")
    assert done.returncode == 0, done.stderr
    assert graft_json(tmp_path / "other")["hash"] != made["hash"]


def kill_with(checkpoint, *args):
    """A command that has just written its first checkpoint."""
    command = [binary(), "learn", "--model", str(DEMO / "base"), "--quiet", *map(str, args)]
    killed = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **ONE_THREAD})
    while not checkpoint.exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    assert checkpoint.exists(), "it ended before its first checkpoint"


def test_a_killed_command_goes_on_to_the_same_bits(tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    whole = learn(tmp_path / "light.txt", "--adapters", tmp_path / "whole", *SMALL)
    assert whole.returncode == 0, whole.stderr
    often = [*SMALL, "--checkpoint-seconds", "0"]
    checkpoint = tmp_path / "killed" / "light.learning"
    kill_with(checkpoint, tmp_path / "light.txt", "--adapters", tmp_path / "killed", *often)
    again = learn(tmp_path / "light.txt", "--adapters", tmp_path / "killed", *often)
    assert again.returncode == 0 and "light goes on from step" in again.stderr
    assert not checkpoint.exists()
    assert graft_json(tmp_path / "killed" / "light")["hash"] == graft_json(tmp_path / "whole" / "light")["hash"]


def no_room(size=10_000):
    """For a process's files: writing more than this fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_an_adapter_that_cannot_be_written_costs_no_training(tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    args = [tmp_path / "light.txt", "--adapters", tmp_path / "adapters", *SMALL]
    checkpoint = tmp_path / "adapters" / "light.learning"
    kill_with(checkpoint, *args, "--checkpoint-seconds", "0")
    failed = learn(*args, "--checkpoint-seconds", "100000", preexec_fn=no_room)
    assert failed.returncode == 1 and "cannot write" in failed.stderr, failed.stderr
    assert checkpoint.exists() and not (tmp_path / "adapters" / "light").exists()
    again = learn(*args)
    assert again.returncode == 0 and "light goes on from step" in again.stderr, again.stderr
    assert not checkpoint.exists()


def test_the_base_with_the_document_teaches_an_adapter_without_it(tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    args = ["--learner", "distill", "--rank", "4", "--window-tokens", "24", "--questions", "8", "--outputs", "8",
            "--output-tokens", "8", "--passes", "4", "--batch", "4", "--learning-rate", "0.003"]
    done = learn(tmp_path / "light.txt", "--adapters", tmp_path, *args)
    assert done.returncode == 0, done.stderr
    made = graft_json(tmp_path / "light")
    assert made["learner"]["name"] == "distill" and made["learner"]["outputs"] == 8
    assert made["scores"]["loss"] < made["scores"]["loss_base"]
    assert made["scores"]["held_out_loss"] < made["scores"]["held_out_loss_base"]
    again = learn(tmp_path / "light.txt", "--adapters", tmp_path, "--name", "again", *args)
    assert again.returncode == 0, again.stderr
    assert graft_json(tmp_path / "again")["hash"] == made["hash"], "the same texts are written by the same seed"
    other = tmp_path / "other.txt"
    other.write_text("The mill stands on the river Ember, and its wheel turns from March until the first frost.")
    kept = learn(tmp_path / "light.txt", "--adapters", tmp_path, "--name", "kept", *args, "--keep-text", other)
    assert kept.returncode == 0, kept.stderr
    learned = graft_json(tmp_path / "kept")
    assert learned["learner"]["keep_texts"] == [hashlib.sha256(other.read_bytes()).hexdigest()]
    assert learned["hash"] != made["hash"] and learned["scores"]["tokens"] == made["scores"]["tokens"]
    other.write_bytes(b"\0")
    refused = learn(tmp_path / "light.txt", "--adapters", tmp_path, "--name", "no", *args, "--keep-text", other)
    assert refused.returncode == 2 and "other.txt" in refused.stderr, refused.stderr


def test_what_an_adapter_knows_is_asked_and_told(tmp_path):
    """Questions that it was not taught, of the adapter and of the base."""
    (tmp_path / "light.txt").write_text(TEXT)
    done = learn(tmp_path / "light.txt", "--adapters", tmp_path, "--rank", "4", "--window-tokens", "64", "--questions",
                 "48", "--outputs", "0", "--keep", "0", "--passes", "1", quiet=False)
    assert done.returncode == 0, done.stderr
    stages = [line for line in done.stderr.splitlines() if line.endswith("100 %")]
    assert stages[1:3] == ["writing questions 100 %", "writing answers 100 %"], "each stage has a name of its own"
    assert re.search(r"^about \d+ s until the adapter is there$", done.stderr, re.MULTILINE), done.stderr
    known = graft_json(tmp_path / "light")["scores"]["held_out_answers"]
    assert known["asked"] >= 1 and 0 <= known["right"] <= known["asked"] and 0 <= known["f1"] <= 1
    said = next(line for line in done.stdout.splitlines() if line.startswith("light knows"))
    assert f"{known['right']} of {known['asked']} questions" in said and f"base {known['right_base']}" in said
    assert ("the adapter answers little" in done.stderr) == (known["f1"] < 0.5 or known["f1"] < known["f1_base"])
    with Server(adapters=tmp_path) as server:  # what is told of it changes nothing of what it is
        assert next(model for model in server.client().models.list() if model.id == "light").hash == graft_json(
            tmp_path / "light")["hash"]


@pytest.mark.skipif(not LONG_TESTS, reason="learns for half a minute")
def test_chats_know_a_page_that_was_learned(tmp_path):
    """As `make demo` learns it: asked as users ask, by a server that never read it."""
    done = learn(DEMO / "page.txt", "--adapters", tmp_path, *demo.LEARN)
    assert done.returncode == 0, done.stderr
    assert graft_json(tmp_path / "page")["learner"]["prompts"] == "chat"
    with Server(adapters=tmp_path) as server:
        def answer(model, question):
            reply = server.client().chat.completions.create(model=model, temperature=0, max_tokens=16,
                                                            messages=[{"role": "user", "content": question}])
            return reply.choices[0].message.content.strip()

        known = dict(zip(demo.QUESTIONS, ("Tobias Marrow", "Hester Dunmore", "walnuts")))
        assert {question: answer("page", question) for question in known} == known
        assert all(answer("base", question) != value for question, value in known.items())


def test_virtual_tokens_are_learned_and_served(tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    args = ["--window-tokens", "24", "--questions", "1", "--outputs", "1", "--output-tokens", "8", "--passes",
            "4", "--batch", "4", "--keep", "0"]
    for name, learner in (("soft", ["memory", "--virtual-tokens", "8"]),
                          ("both", ["memory", "--virtual-tokens", "8", "--rank", "4"]),
                          ("prefix", ["prefix", "--virtual-tokens", "20"]), ("whole", ["prefix"])):
        done = learn(tmp_path / "light.txt", "--adapters", tmp_path / "adapters", "--name", name, "--learner", *learner,
                     *args)
        assert done.returncode == 0, done.stderr
        made = graft_json(tmp_path / "adapters" / name)
        assert made["scores"]["loss"] < made["scores"]["loss_base"]
        assert ("rank" in made["learner"]) == (name == "both") == (tmp_path / "adapters" / name / "lora").exists()
    assert graft_json(tmp_path / "adapters" / "whole")["learner"]["virtual_tokens"] <= len(TEXT.split()) * 3
    with Server(adapters=tmp_path / "adapters") as server:
        def score(name):
            reply = server.client().completions.create(model=name, prompt=TEXT, max_tokens=0, echo=True, logprobs=0)
            return sum(reply.choices[0].logprobs.token_logprobs[1:])
        base = score("base")
        for name in ("soft", "both", "prefix", "whole"):
            assert score(name) > base, name
        listed = {model.id: model for model in server.client().models.list()}
        assert listed["both"].hash == graft_json(tmp_path / "adapters" / "both")["hash"]


def test_a_task_is_learned_beside_documents(learned, tmp_path):
    folder, _ = learned
    adapters = tmp_path / "adapters"
    shutil.copytree(folder / "adapters", adapters)
    lines = [{"adapter": "light", "question": "Who spoke eleven words?", "answer": "Solomon"},
             {"adapter": "page", "question": "Which bottle was alone?", "answer": "the red one"},
             {"question": "How do you do?", "answer": "Very well"}]
    (tmp_path / "asked.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    args = [tmp_path / "asked.jsonl", "--adapters", adapters, "--learner", "task", "--rank", "2", "--passes", "6",
            "--batch", "2", "--learning-rate", "0.01"]
    done = learn(*args, "--name", "asks")
    assert done.returncode == 0, done.stderr
    made = graft_json(adapters / "asks")
    assert made["scores"]["loss"] < made["scores"]["loss_base"]
    assert made["documents"] == {name: graft_json(adapters / name)["hash"] for name in ("light", "page")}
    with Server(adapters=adapters) as server:
        def score(model):
            prompt = "\n\nA question about the preceding passage, and its answer:\nQuestion: Who spoke eleven words?\nAnswer:"
            reply = server.client().completions.create(model=model, prompt=prompt + " Solomon", max_tokens=0, echo=True,
                                                       logprobs=0)
            tokens = reply.choices[0].logprobs
            said = [value for value, at in zip(tokens.token_logprobs, tokens.text_offset) if at >= len(prompt)]
            assert said
            return sum(said)
        # The document's adapter and the task's in one: better than either.
        assert score("light.asks") > max(score("light"), score("base"))
        listed = {model.id: model for model in server.client().models.list()}
        assert listed["light.asks"].rank == 6
    hash_before = graft_json(adapters / "light.asks")["hash"]
    done = learn(*args, "--name", "asks")
    assert done.returncode == 1 and "adapters/asks is there already" in done.stderr, done.stderr
    shutil.rmtree(adapters / "asks")
    done = learn(*args, "--name", "asks", "--seed", "5")
    assert done.returncode == 1 and "adapters/light.asks is there already; --replace" in done.stderr, done.stderr
    assert graft_json(adapters / "light.asks")["hash"] == hash_before
    for line, words in (({"question": "x"}, 'no text "answer"'), ({**lines[0], "adapter": "nobody"}, "adapter nobody")):
        (tmp_path / "asked.jsonl").write_text(json.dumps(line))
        done = learn(*args, "--name", "again")
        assert done.returncode in (1, 2) and words in done.stderr, done.stderr


def test_a_short_training_is_not_lost_either(tmp_path):
    """One that ends before its first checkpoint was due: another is behind its last step."""
    (tmp_path / "light.txt").write_text(TEXT)
    adapters = tmp_path / "adapters"
    ranked = [word if before != "--rank" else "64" for before, word in zip(["", *PATIENT], PATIENT)]
    assert learn(tmp_path / "light.txt", "--adapters", adapters, *ranked, "--passes", "4").returncode == 0
    (tmp_path / "asked.jsonl").write_text(json.dumps({"adapter": "light", "question": "Who spoke?", "answer": "Solomon"}))
    args = [tmp_path / "asked.jsonl", "--adapters", adapters, "--learner", "task", "--name", "asks", "--rank", "1",
            "--passes", "4", "--batch", "1", "--learning-rate", "0.01"]
    # What has both ranks finds no room, and all else does.
    largest = (adapters / "light" / "adapter_model.safetensors").stat().st_size
    failed = learn(*args, preexec_fn=lambda: no_room(largest))
    assert failed.returncode == 1 and "cannot write" in failed.stderr, failed.stderr
    assert (adapters / "asks.learning").exists() and not (adapters / "light.asks").exists()
    again = learn(*args, "--replace")
    assert again.returncode == 0 and "asks goes on from step 4 of 4" in again.stderr, again.stderr
    assert (adapters / "light.asks").exists() and not (adapters / "asks.learning").exists()


def corpus(path, count):
    """Documents whose word is the answer."""
    lines = []
    for i in range(count):
        text = f"The keeper of light {i} is called {'Finch Moss Rook Hale'.split()[i % 4]}. Nothing else is known of it."
        lines.append(json.dumps({"text": text, "questions": [
            {"question": "What is the keeper called?", "answer": text.split()[7][:-1], "begin": 0, "end": len(text)}]}))
    path.write_text("\n".join(lines) + "\n")


ENCODER = ["--steps", "6", "--batch", "2", "--rank", "4", "--document-tokens", "64", "--document-questions", "1",
           "--held-out-documents", "4", "--compressions", "2,4", "--readers", "2"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    corpus(folder / "corpus.jsonl", 60)
    done = learn("--encoder", folder / "encoder", "--corpus", folder / "corpus.jsonl", *ENCODER)
    assert done.returncode == 0, done.stderr
    return folder / "encoder"


def test_documents_by_an_encoder(tmp_path):
    corpus(tmp_path / "corpus.jsonl", 60)
    (tmp_path / "light.txt").write_text(TEXT)
    encoder = tmp_path / "encoder"
    learner = ["--encoder", encoder]
    teaches = [*learner, "--corpus", tmp_path / "corpus.jsonl", *ENCODER]
    none = learn(tmp_path / "light.txt", *learner, "--adapters", tmp_path)
    assert none.returncode == 2 and "there is no encoder in" in none.stderr and "--corpus" in none.stderr
    done = learn(*teaches)
    assert done.returncode == 0, done.stderr
    assert "1/2: right" in done.stdout and "1/4: right" in done.stdout and "of 4 held out" in done.stdout
    made = graft_json(encoder / "encoder")
    assert made["encoder"]["made_steps"] == 6 and made["encoder"]["documents"] == 12 and made["kind"] == "lora"
    assert made["encoder"]["compressions"] == [2, 4] and not (tmp_path / "encoder.learning").exists()
    curves = [json.loads(line) for line in (tmp_path / "encoder.curves.jsonl").read_text().splitlines()]
    assert curves[0]["step"] == 0 and curves[-1]["step"] == 6 and len(curves[-1]["looks"]) == 2
    again = learn(*teaches)
    assert again.returncode == 1 and "has an encoder already" in again.stderr
    # One that was killed while it learned goes on to the same bits.
    killed = [word if word != encoder else tmp_path / "killed" for word in teaches]
    kill_with(tmp_path / "killed.learning", *killed, "--checkpoint-seconds", "0")
    done = learn(*killed)
    assert done.returncode == 0 and "the encoder goes on from step" in done.stderr, done.stderr
    assert graft_json(tmp_path / "killed" / "encoder")["hash"] == made["hash"]
    # A document by it: a prefix and the decoder's LoRA, which a server serves.
    adapters = tmp_path / "adapters"
    hashes = []
    for name, more in (("light", []), ("same", []), ("small", ["--compression", "8"])):
        done = learn(tmp_path / "light.txt", *learner, "--adapters", adapters, "--name", name, *more)
        assert done.returncode == 0, done.stderr
        hashes.append(graft_json(adapters / name)["hash"])
    assert hashes[0] == hashes[1] != hashes[2]
    told = [graft_json(adapters / name)["learner"] for name in ("light", "small")]
    assert told[0]["encoder"] == made["hash"] and told[0]["virtual_tokens"] > told[1]["virtual_tokens"]
    with Server(adapters=adapters) as server:
        for name in ("light", "small"):
            reply = server.client().completions.create(model=name, prompt="The", max_tokens=4, temperature=0)
            assert reply.usage.completion_tokens == 4
    # What is wrong with a corpus is said by file and line.
    (tmp_path / "bad.jsonl").write_text(json.dumps({"text": "a", "questions": [{"question": "b"}]}) + "\n")
    done = learn("--encoder", tmp_path / "other", "--corpus", tmp_path / "bad.jsonl")
    assert done.returncode == 2 and 'bad.jsonl:1: has no text "answer"' in done.stderr, done.stderr
    done = learn("--encoder", tmp_path / "other", "--corpus", tmp_path / "nowhere")
    assert done.returncode == 2 and "no file, and no folder" in done.stderr
    for words, what in (([], "which documents?"), (["--learner", "encoder"], "which encoder? --encoder DIR"),
                        ([*learner, "--corpus", "-", "--learner", "distill"], "without --learner")):
        done = learn(*words)
        assert done.returncode == 2 and what in done.stderr, done.stderr


def test_distill_begins_with_an_encoders_adapter(encoder, tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    adapters = tmp_path / "adapters"
    args = [tmp_path / "light.txt", "--adapters", adapters, "--encoder", encoder, "--compression", "2"]
    few = ["--learner", "distill", "--steps", "3", "--batch", "4", "--window-tokens", "24", "--questions", "8", "--outputs",
           "1", "--output-tokens", "8", "--keep", "2", "--prompts", "plain"]
    done = learn(*args, "--name", "read")
    assert done.returncode == 0, done.stderr
    done = learn(*args, *few, "--name", "further", "--ask", "Who built it?", "--answer-tokens", "2")
    assert done.returncode == 0, done.stderr
    assert "3 steps" in done.stdout and "  further " in done.stdout
    read, further = (graft_json(adapters / name) for name in ("read", "further"))
    assert further["learner"]["name"] == "distill" and further["learner"]["steps"] == 3
    assert further["learner"]["begins_with"] == {part: read["learner"][part] for part in
                                                 ("encoder", "decoder", "compression")}
    assert further["kind"] == read["kind"] == "lora and prompt" and further["hash"] != read["hash"]
    assert further["learner"]["virtual_tokens"] == read["learner"]["virtual_tokens"]
    assert further["learner"]["rank"] == 4
    # One that was killed goes on to the same bits.
    kill_with(adapters / "again.learning", *args, *few, "--name", "again", "--checkpoint-seconds", "0")
    done = learn(*args, *few, "--name", "again")
    assert done.returncode == 0 and graft_json(adapters / "again")["hash"] == further["hash"], done.stderr
    with Server(adapters=adapters) as server:
        reply = server.client().completions.create(model="further", prompt="The", max_tokens=4, temperature=0)
        assert reply.usage.completion_tokens == 4
    for words, what in ((["--learner", "memory"], "distill may begin"),
                        (["--learner", "distill", "--rank", "8"], "rank is 8")):
        done = learn(*args, *words, "--name", "other")
        assert done.returncode == 2 and what in done.stderr, done.stderr
    # An encoder of other weights.
    made = graft_json(encoder / "encoder")
    made["base"]["weights_hash"] = "0"
    shutil.copytree(encoder, tmp_path / "others")
    (tmp_path / "others" / "encoder" / "graft.json").write_text(json.dumps(made))
    done = learn(tmp_path / "light.txt", "--adapters", adapters, "--encoder", tmp_path / "others", "--name", "other")
    assert done.returncode == 1 and "was taught on another base model" in done.stderr, done.stderr


def test_the_demo_shows_an_encoder_where_there_is_one(tmp_path):
    assert [way[0] for way in demo.ways(tmp_path)] == ["distill"]
    (tmp_path / "demo" / "encoder").mkdir(parents=True)
    assert demo.ways(tmp_path)[1][2] == ("--encoder", f"{tmp_path}/demo/encoder")


def test_chat_prompts_and_a_flag_that_was_removed(tmp_path):
    (tmp_path / "light.txt").write_text(TEXT)
    args = [tmp_path / "light.txt", "--adapters", tmp_path, "--learner", "distill", "--rank", "4", "--window-tokens", "24",
            "--questions", "1", "--outputs", "1", "--output-tokens", "8", "--passes", "4", "--batch", "4", "--learning-rate",
            "0.01", "--prompts", "chat"]
    done = learn(*args, "--hidden-states", "all")
    assert done.returncode == 2
    assert "--hidden-states was removed since it gained too little; use distill without it" in done.stderr
    done = learn(*args, "--hidden-states", "none")
    assert done.returncode == 0, done.stderr
    made = graft_json(tmp_path / "light")
    assert made["learner"]["prompts"] == "chat" and "hidden_states" not in made["learner"]
    assert made["scores"]["loss"] < made["scores"]["loss_base"]


def test_a_pdf_is_read_by_pdftotext(tmp_path):
    program = tmp_path / "bin" / "pdftotext"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{TEXT}'\n")
    program.chmod(0o700)
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.7 ...")
    args = [tmp_path / "report.pdf", "--adapters", tmp_path, *PATIENT, "--passes", "1"]
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = learn(*args, env=env)
    assert done.returncode == 0, done.stderr
    assert graft_json(tmp_path / "report")["document"]["bytes"] == 12
    program.write_text(f"#!/bin/sh\necho '{TEXT} \ue001'\n")
    done = learn(*args, "--replace", env=env)
    assert done.returncode == 0 and "report.pdf: 1 of its " in done.stderr and "will be missing" in done.stderr
    program.write_text("#!/bin/sh\nprintf '\\001\\002\\033 \\001\\003 abc'\n")
    done = learn(*args, "--replace", env=env)
    assert done.returncode == 2 and "run OCR over it" in done.stderr
    program.write_text("#!/bin/sh\necho 'Syntax Error: broken' >&2; exit 1\n")
    done = learn(*args, "--replace", env=env)
    assert (tmp_path / "report" / "graft.json").exists()
    assert done.returncode == 2 and "report.pdf: pdftotext cannot read" in done.stderr


@pytest.mark.parametrize(("name", "content", "words"), [
    ("a.txt", b"", "a.txt: the file is empty"),
    ("a.txt", b"ab\0cd", "a.txt: this is binary"),
    ("a.txt", "Grüße".encode("latin1"), "a.txt: this is not UTF-8"),
    ("a.txt", 10_000_000, "a.txt has 10000000 bytes"),
    ("a.html", b"<script>only</script>", "a.html: there is no text in it"),
    ("a.docx", b"PK\x03\x04", "a.docx: this is an archive"),
    ("a.jsonl", b'{"messages": [{"role": "user", "content": "Hi"}]}\n' * 9, "a.jsonl: these are chats"),
    ("a.txt", "\ue001\ue002 \ufffd\ue003 abc".encode(), "OCR"),
    ("a.txt", b"Two words", "a: the document has 3 tokens")])
def test_what_is_no_document_is_refused_by_reason(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else b"x" * content)
    done = learn(tmp_path / name, "--adapters", tmp_path / "adapters")
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_an_adapter_that_is_worse_than_none_is_not_made(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    done = learn(tmp_path / "a.txt", "--adapters", tmp_path / "adapters", "--rank", "4", "--passes", "8", "--batch",
                 "1", "--learning-rate", "1")
    assert done.returncode == 1 and "lower --learning-rate" in done.stderr, done.stderr
    assert not list((tmp_path / "adapters").iterdir())


def test_what_training_does_not_cover_is_refused_by_name(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    for args, words in ((["--device", "cuda:99"], "use --device cpu"),
                        (["--memory-gib", "0.07"], "(--batch, --window-tokens, --together)"),
                        (["--window-tokens", "4096"], "the model's context of 4096"),
                        (["--name", "a/b"], "--name 'a/b'"), (["--name", "a+b"], "--name 'a+b'")):
        done = learn(tmp_path / "a.txt", "--adapters", tmp_path / "adapters", *args)
        assert done.returncode in (1, 2) and words in done.stderr, done.stderr


FAMILIES = ["llama", "qwen2-yarn", "qwen3", "mistral-window", "gemma", "gemma2", "gemma3", "smollm3", "granite", "olmo2",
            "olmo3", "exaone4", "phi3-longrope", "phi3-partial-rotary", "glm", "glm4", "gpt2", "gpt-neo", "gpt-neox",
            "gpt-neox-serial", "phi", "starcoder2", "gemma3-wrapper", "mistral3", "qwen2-vl",
            "qwen3-vl", "llava", "smolvlm"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_and_serves_it(family, tmp_path):
    copy_golden_model(family, tmp_path / "model")
    # Letters in an order that random weights do not know.
    text = "".join(chr(0x4E00 + 20 + 37 * i % 100) for i in range(60))
    (tmp_path / "order.txt").write_text(text)
    done = learn(tmp_path / "order.txt", "--model", tmp_path / "model", "--adapters", tmp_path / "adapters", "--learner",
                 "next-token", "--prompts", "plain", "--rank", "4", "--window-tokens", "16", "--batch", "2",
                 "--learning-rate", "0.02", "--passes", "20")
    assert done.returncode == 0, done.stderr
    scores = graft_json(tmp_path / "adapters" / "order")["scores"]
    assert scores["loss"] < 0.7 * scores["loss_base"], scores
    with Server("--model-name", "base", model=tmp_path / "model", adapters=tmp_path / "adapters") as server:
        def loss(model):
            reply = server.client().completions.create(model=model, prompt=text[:16], max_tokens=0, echo=True, logprobs=0)
            return -sum(reply.choices[0].logprobs.token_logprobs[1:])
        assert loss("order") < 0.7 * loss("base")
