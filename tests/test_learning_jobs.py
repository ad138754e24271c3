"""Files and fine-tuning jobs over HTTP, driven by the official openai client: from a document's upload to the answers of
what it became, beside the serving."""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request

import httpx
import openai
import pytest

from conftest import DEMO, Server, binary, complete

TEXT = ("The lighthouse at Skerry Point was built by an engineer named Tobias Marrow. "
        "The keeper lived in the tower with a grey parrot named Solomon, who could say eleven words.")
PROMPT = "The keeper lived in the tower with a grey"
# Two threads of a busy machine wait for each other most of the time.
ARGS = ["--threads", "1", "--learn-share", "0.5", "--memory-gib", "2", "--learn-gib", "0.25"]
SMALL = {"learner": "next-token", "rank": 4, "window_tokens": 24, "batch_size": 2, "n_epochs": 20,
         "learning_rate_multiplier": 10}
KEYS = [{"key": "a-key", "tenant": "a", "adapters": ["*"]}, {"key": "b-key", "tenant": "b", "adapters": ["base"]}]


def upload(client, content=TEXT, name="light.txt", **kwargs):
    content = content.encode() if isinstance(content, str) else content
    return client.files.create(file=(name, content), purpose="fine-tune", **kwargs)


def create(client, file, method="document", seed=1, hyperparameters=None, **kwargs):
    return client.fine_tuning.jobs.create(
        model="base", training_file=file, seed=seed,
        method={"type": method, method: {"hyperparameters": {**SMALL, **(hyperparameters or {})}}}, **kwargs)


def wait_for(client, job, *states, timeout_s=240):
    client = client.with_options(max_retries=8)  # a cluster's etcd on a busy machine may take seconds, which is 503
    deadline = time.monotonic() + timeout_s
    while True:
        seen = client.fine_tuning.jobs.retrieve(job)
        if seen.status in states:
            return seen
        assert seen.status not in ("succeeded", "failed", "cancelled"), seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


def wait_until(condition, timeout_s=240):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def messages(client, job):
    return [event.message for event in client.with_options(max_retries=8).fine_tuning.jobs.list_events(job, limit=100)]


def graft_json(folder, job):
    return json.loads((folder / "adapters" / job / "graft.json").read_text())


def test_a_document_becomes_a_model_that_answers(tmp_path):
    with Server(*ARGS, "--learn-dir", tmp_path / "learn") as server:
        client = server.client()
        file = upload(client)
        assert client.files.retrieve(file.id).filename == "light.txt"
        assert client.files.content(file.id).read() == TEXT.encode()
        job = create(client, file.id, suffix="light", metadata={"who": "test"})
        assert job.status in ("queued", "validating_files", "running") and job.metadata == {"who": "test"}
        assert job.hyperparameters.n_epochs == 20 and job.seed == 1
        # Whoever asks meanwhile has an answer, and the job goes on beside it.
        assert complete(server, "base") == complete(server, "base")
        done = wait_for(client, job.id, "succeeded")
        assert done.fine_tuned_model.startswith("ft:base:light:") and done.trained_tokens > 0
        assert done.fine_tuned_model in {model.id for model in client.models.list()}
        answer = complete(server, done.fine_tuned_model, PROMPT)
        assert "parrot" in answer and "parrot" not in complete(server, "base", PROMPT)
        said = messages(client, job.id)
        assert said[-1].startswith("Created fine-tuning job") and any("training loss=" in line for line in said)
        steps = [event for event in client.fine_tuning.jobs.list_events(job.id, limit=100) if event.type == "metrics"]
        assert steps[0].data["train_loss"] < steps[-1].data["train_loss"]
        assert [listed.id for listed in client.fine_tuning.jobs.list()] == [job.id]
        assert server.metric("graft_learn_micro_step_seconds_count") > 0
        # The same seed, the same bits.
        again = wait_for(client, create(client, file.id).id, "succeeded")
        assert graft_json(tmp_path / "learn", again.id)["hash"] == graft_json(tmp_path / "learn", job.id)["hash"]
        client.files.delete(file.id)
    # It is there again after a restart, trained on or not.
    with Server("--learn-dir", tmp_path / "learn") as server:
        client = server.client()
        assert complete(server, done.fine_tuned_model, PROMPT) == answer
        with pytest.raises(openai.ConflictError, match="--learn-share"):
            create(client, upload(client).id)
        assert client.models.delete(done.fine_tuned_model).deleted
        with pytest.raises(openai.NotFoundError):
            complete(server, done.fine_tuned_model)
        assert client.fine_tuning.jobs.retrieve(job.id).fine_tuned_model is None
        assert not (tmp_path / "learn" / "adapters" / job.id).exists()


def test_a_killed_server_resumes_the_job_to_the_same_bits(tmp_path):
    args = [*ARGS, "--learn-checkpoint-seconds", "0", "--learn-dir", tmp_path / "learn"]
    server = Server(*args).start()
    client = server.client()
    file = upload(client)
    longer = {"n_epochs": 40}
    whole = wait_for(client, create(client, file.id, hyperparameters=longer).id, "succeeded")
    job = create(client, file.id, hyperparameters=longer)
    checkpoint = tmp_path / "learn" / "checkpoints" / job.id
    wait_until(checkpoint.exists)
    server.stop(signal.SIGKILL)
    assert checkpoint.exists(), "it ended before it was killed"
    with Server(*args) as server:
        client = server.client()
        done = wait_for(client, job.id, "succeeded")
        said = messages(client, job.id)
        assert any(line.startswith("Going on from step") for line in said), said
        assert list(client.fine_tuning.jobs.checkpoints.list(job.id))
        folder = tmp_path / "learn"
        assert graft_json(folder, job.id)["hash"] == graft_json(folder, whole.id)["hash"]
        assert complete(server, done.fine_tuned_model, PROMPT) == complete(server, whole.fine_tuned_model, PROMPT)
        assert not checkpoint.exists()


def refused(client, call, words):
    with pytest.raises(openai.APIStatusError) as error:
        call(client)
    assert words in str(error.value), error.value
    return error.value.status_code


def test_two_tenants_never_see_each_others(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    with Server(*ARGS, "--api-keys", keys, "--learn-dir", tmp_path / "learn", "--files-mib", "1", "--admin-key",
                "admin") as server:
        a, b = server.client("a-key"), server.client("b-key")
        file = upload(b)
        job = create(b, file.id)
        done = wait_for(b, job.id, "succeeded")
        model = done.fine_tuned_model
        # b's key may use the base model and what b learned; nobody else may even know of it.
        assert {listed.id for listed in b.models.list()} == {"base", model}
        assert "parrot" in b.completions.create(model=model, prompt=PROMPT, max_tokens=8, temperature=0).choices[0].text
        assert model not in {listed.id for listed in a.models.list()}
        for call in (lambda c: c.models.retrieve(model), lambda c: c.models.delete(model),
                     lambda c: c.completions.create(model=model, prompt="x"), lambda c: c.files.retrieve(file.id),
                     lambda c: c.files.content(file.id), lambda c: c.files.delete(file.id),
                     lambda c: create(c, file.id), lambda c: c.fine_tuning.jobs.retrieve(job.id),
                     lambda c: c.fine_tuning.jobs.cancel(job.id), lambda c: c.fine_tuning.jobs.list_events(job.id),
                     lambda c: c.fine_tuning.jobs.checkpoints.list(job.id)):
            assert refused(a, call, "") == 404
        with pytest.raises(openai.NotFoundError) as error:
            a.completions.create(model=model[:-1], prompt="x")
        assert model not in str(error.value)
        assert not list(a.files.list()) and not list(a.fine_tuning.jobs.list())
        assert [listed.id for listed in b.files.list()] == [file.id]
        # The operator ends a job of any tenant, and reads none of it.
        admin = server.client("admin")
        long = create(b, file.id, hyperparameters={"n_epochs": 100_000})
        assert refused(admin, lambda c: c.fine_tuning.jobs.retrieve(long.id), "") == 404
        admin.fine_tuning.jobs.cancel(long.id)
        wait_for(b, long.id, "cancelled")
        # A quota is a tenant's own.
        upload(a, "word " * 150_000, "long.txt")
        assert refused(a, lambda c: upload(c, "word " * 150_000, "long.txt"), "delete some") == 429
        upload(b, "word " * 150_000, "long.txt")


@pytest.fixture(scope="module")
def learning(tmp_path_factory):
    with Server(*ARGS, "--learn-dir", tmp_path_factory.mktemp("learn")) as server:
        yield server


@pytest.mark.parametrize(("name", "content", "words"), [
    ("a.txt", b"", "the file is empty"), ("a.txt", b"ab\0cd", "this is binary"),
    ("a.txt", "Grüße".encode("latin1"), "this is not UTF-8"), ("a.txt", b"x" * 10_000_000, "has 10000000 bytes"),
    ("a.docx", b"PK\x03\x04", "this is an archive"), ("a.html", b"<script>only</script>", "no text in it"),
    ("a.jsonl", b'{"messages": [{"role": "user", "content": "Hi"}]}\n' * 9, "these are chats"),
    ("a.txt", "\ue001\ue002 \ufffd\ue003 abc".encode(), "OCR")],
    ids=["empty", "binary", "latin1", "large", "archive", "no-text", "chats", "lost"])
def test_what_is_no_document_is_refused_by_reason(learning, name, content, words):
    assert refused(learning.client(), lambda c: upload(c, content, name), words) == 400


def test_a_hostile_pdf_costs_its_job(learning):
    client = learning.client()
    job = create(client, upload(client, b"%PDF-1.7\n" + b"\xff<</" * 5000, "a.pdf").id)
    failed = wait_for(client, job.id, "failed")
    assert failed.error.code == "invalid_training_file" and failed.error.param == "training_file"
    assert "pdftotext" in failed.error.message and str(DEMO.parent) not in failed.error.message


def test_a_jobs_events_tell_of_letters_that_were_lost(learning):
    client = learning.client()
    job = create(client, upload(client, TEXT + " \ue001").id)
    wait_for(client, job.id, "succeeded")
    assert any("1 of its " in message and "will be missing" in message for message in messages(client, job.id))


def test_a_document_that_is_too_short_costs_its_job(learning):
    client = learning.client()
    failed = wait_for(client, create(client, upload(client, "Two words").id).id, "failed")
    assert failed.error.code == "invalid_training_file" and "tokens" in failed.error.message


def test_a_job_leaves_alone_what_its_files_say(learning):
    client = learning.client()
    kept = upload(client, "The mill stands on the river Ember, and its wheel turns from March until the first frost.")
    own = {"learner": "distill", "learning_rate_multiplier": 1, "n_epochs": 2, "questions": 4, "output_tokens": 8,
           "keep": 2, "keep_weight": 3, "keep_text": [kept.id]}
    job = create(client, upload(client).id, hyperparameters=own)
    assert refused(client, lambda c: c.files.delete(kept.id), job.id) == 409
    done = wait_for(client, job.id, "succeeded").to_dict()
    shown = done["method"]["document"]["hyperparameters"]
    assert {name: shown[name] for name in own} == own and shown["alpha"] == "auto"
    client.files.delete(kept.id)


def test_what_a_request_asks_wrongly_is_named(learning):
    client = learning.client()
    file = upload(client).id
    for call, words in ((lambda c: create(c, file, method="supervised"), "method.type"),
                        (lambda c: create(c, "file-none"), "there is no file"),
                        (lambda c: create(c, file, hyperparameters={"rank": 1000}), "hyperparameters.rank"),
                        (lambda c: create(c, file, hyperparameters={"colour": 1}), "hyperparameters.colour"),
                        (lambda c: create(c, file, hyperparameters={"batch_size": 2049}), "hyperparameters.batch_size"),
                        (lambda c: create(c, file, hyperparameters={"learner": "magic"}), "'next-token'"),
                        (lambda c: create(c, file, hyperparameters={"learner": "encoder"}), "--learn-encoder"),
                        (lambda c: create(c, file, hyperparameters={"learner": "distill", "begin": "encoder"}),
                         "--learn-encoder"),
                        (lambda c: create(c, file, hyperparameters={"begin": "moon"}), "hyperparameters.begin"),
                        (lambda c: create(c, file, hyperparameters={"keep_weight": -1}), "hyperparameters.keep_weight"),
                        (lambda c: create(c, file, hyperparameters={"keep_text": ["file-none"]}), "hyperparameters.keep_text"),
                        (lambda c: create(c, file, validation_file=file), "validation_file"),
                        (lambda c: create(c, file, suffix="a b"), "suffix"),
                        (lambda c: c.fine_tuning.jobs.create(model="doyle", training_file=file, method={
                            "type": "document"}), "learned on the base model"),
                        (lambda c: c.fine_tuning.jobs.create(model="nobody", training_file=file, method={
                            "type": "document"}), "does not exist"),
                        (lambda c: c.files.create(file=("a.txt", b"x"), purpose="batch"), "purpose"),
                        (lambda c: upload(c, expires_after={"anchor": "created_at", "seconds": 5}), "3600"),
                        (lambda c: c.files.list(after="file-none", limit=3), "after"),
                        (lambda c: c.models.delete("doyle"), "was not learned here")):
        assert 400 <= refused(client, call, words) < 500
    kept = upload(client, expires_after={"anchor": "created_at", "seconds": 3600})
    assert kept.expires_at == kept.created_at + 3600


def test_a_files_end_is_said_in_brackets(learning):
    client = learning.client()
    for fields in ({"expires_after": "3600"}, {"expires_after.seconds": "3600", "expires_after.anchor": "created_at"},
                   {"expires_after[anchor]": "created_at"}, {"expires_after[seconds]": "5"}):
        reply = httpx.post(learning.url + "/v1/files", data={"purpose": "user_data", **fields},
                           files={"file": ("a.txt", b"Some words of a text.")},
                           headers={"Authorization": f"Bearer {client.api_key}"}, timeout=60)
        assert reply.status_code == 400 and "expires_after[seconds]" in reply.json()["error"]["message"], reply.text


def post(url, body, **headers):
    request = urllib.request.Request(url, body, {key.replace("_", "-"): value for key, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_page_of_another_site_uploads_nothing(learning):
    form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nwords\r\n--b--\r\n')
    url, form_type = learning.url + "/v1/files", "multipart/form-data; boundary=b"
    assert post(url, form, Content_Type=form_type) == 200
    assert post(url, form, Content_Type=form_type, Origin="https://else.where") == 403
    assert post(url, form, Content_Type=form_type, Origin=learning.url) == 200
    assert post(url, form, Content_Type="application/json") == 415
    assert post(url, form[:-9], Content_Type=form_type) == 400
    assert post(learning.url + "/v1/fine_tuning/jobs", form, Content_Type=form_type) == 415


def test_a_job_that_runs_can_be_cancelled(learning):
    client = learning.client()
    file = upload(client).id
    job = create(client, file, hyperparameters={"n_epochs": 100_000})
    waiting = create(client, file)
    wait_until(lambda: any("training loss" in line for line in messages(client, job.id)))
    assert client.fine_tuning.jobs.cancel(waiting.id).status == "cancelled"
    client.fine_tuning.jobs.cancel(job.id)
    wait_for(client, job.id, "cancelled")
    assert refused(client, lambda c: c.fine_tuning.jobs.cancel(job.id), "is finished") == 409
    assert client.files.delete(file).deleted


def test_memory_that_training_has_not_costs_the_job_and_no_chat(tmp_path):
    with Server(*ARGS[:-1], "0.002", "--learn-dir", tmp_path / "learn") as server:
        client = server.client()
        answer = complete(server, "base")
        failed = wait_for(client, create(client, upload(client).id).id, "failed")
        assert failed.error.code == "out_of_memory" and "this server has" in failed.error.message
        assert "--" not in failed.error.message, "flags are the operator's"
        assert complete(server, "base") == answer


def test_the_base_writes_what_teaches_beside_the_serving(tmp_path):
    with Server(*ARGS, "--learn-dir", tmp_path / "learn") as server:
        client = server.client()
        job = create(client, upload(client).id, hyperparameters={
            "learner": "distill", "questions": 2, "outputs": 1, "output_tokens": 8, "n_epochs": 4, "batch_size": 4})
        done = wait_for(client, job.id, "succeeded")
        made = graft_json(tmp_path / "learn", job.id)
        assert made["learner"]["name"] == "distill" and made["scores"]["loss"] < made["scores"]["loss_base"]
        assert complete(server, done.fine_tuned_model)


def teach_encoder(folder):
    """Two steps of one, which answers nothing."""
    lines = [json.dumps({"text": f"The light {i} is kept by Finch.", "questions": [
        {"question": "Who keeps it?", "answer": "Finch"}]}) for i in range(12)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    subprocess.run([binary(), "learn", "--model", DEMO / "base", "--encoder", folder / "encoder", "--corpus",
                    folder / "corpus.jsonl", "--steps", "2", "--batch", "2", "--rank", "4", "--document-tokens", "64",
                    "--document-questions", "1", "--held-out-documents", "2", "--compressions", "2,4", "--readers", "1",
                    "--threads", "1", "--quiet"], check=True, timeout=300)
    return folder / "encoder"


def test_an_encoder_makes_adapters_beside_the_serving(tmp_path):
    encoder = teach_encoder(tmp_path)
    own = {"rank": "auto", "batch_size": "auto", "n_epochs": "auto", "learning_rate_multiplier": "auto"}
    with Server(*ARGS, "--learn-dir", tmp_path / "learn", "--learn-encoder", encoder) as server:
        client = server.client()
        file = upload(client).id
        read = wait_for(client, create(client, file, hyperparameters={**own, "learner": "encoder"}).id, "succeeded")
        made = graft_json(tmp_path / "learn", read.id)
        assert made["learner"]["name"] == "encoder" and made["learner"]["compression"] == 2
        assert made["learner"]["encoder"] == json.loads((encoder / "encoder" / "graft.json").read_text())["hash"]
        assert len(complete(server, read.fine_tuned_model)) > 0 and read.trained_tokens > 10
        assert any("The encoder reads" in line for line in messages(client, read.id))
        small = create(client, file, hyperparameters={**own, "learner": "encoder", "compression": 4})
        small = graft_json(tmp_path / "learn", wait_for(client, small.id, "succeeded").id)
        assert small["learner"]["virtual_tokens"] < made["learner"]["virtual_tokens"]
        further = create(client, file, hyperparameters={**own, "learner": "distill", "begin": "encoder", "steps": 2,
                                                        "questions": 4, "output_tokens": 8, "keep": 2})
        wait_for(client, further.id, "succeeded")
        further = graft_json(tmp_path / "learn", further.id)
        assert further["learner"]["begins_with"]["encoder"] == made["learner"]["encoder"]
        assert further["learner"]["virtual_tokens"] == made["learner"]["virtual_tokens"]
        failed = create(client, file, hyperparameters={**own, "learner": "memory", "begin": "encoder"})
        assert "distill may begin" in wait_for(client, failed.id, "failed").error.message


def test_a_server_without_a_folder_refuses_by_name(server):
    client = server.client()
    assert refused(client, lambda c: c.files.list(), "--learn-dir") == 501
    assert refused(client, lambda c: c.fine_tuning.jobs.list(), "--learn-dir") == 501


def test_ranks_refuse_jobs_by_name(tmp_path):
    with Server("--device", "cpu", "--dtype", "fp32", "--tensor-parallel", "2", "--learn-dir", tmp_path / "learn",
                "--learn-share", "0.5", "--threads", "1", "--pool-gib", "0.1") as server:
        client = server.client()
        file = upload(client)
        assert refused(client, lambda c: create(c, file.id), "--tensor-parallel") == 400
        assert complete(server, "base")


def test_tenants_jobs_take_turns(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    with Server(*ARGS, "--api-keys", keys, "--learn-dir", tmp_path / "learn", "--learn-turn-seconds", "1") as server:
        a, b = server.client("a-key"), server.client("b-key")
        endless = create(a, upload(a).id, hyperparameters={"n_epochs": 100_000})
        wait_until(lambda: any("training loss" in line for line in messages(a, endless.id)))
        # It makes way, and goes on from where it was.
        wait_for(b, create(b, upload(b).id).id, "succeeded")
        wait_until(lambda: any(line.startswith("Going on from step") for line in messages(a, endless.id)))
        a.fine_tuning.jobs.cancel(endless.id)
        wait_for(a, endless.id, "cancelled")


def test_a_clusters_folder_is_no_servers(tmp_path):
    folder = tmp_path / "learn"
    folder.mkdir()
    (folder / "cluster").write_text("id id")
    with pytest.raises(RuntimeError, match="a cluster's"):
        Server("--learn-dir", folder).start()
    assert not (folder / "learning.db").exists()


def test_two_servers_do_not_share_a_folder(learning, tmp_path):
    folder = learning.args[learning.args.index("--learn-dir") + 1]
    other = Server("--learn-dir", folder)
    with pytest.raises(RuntimeError, match="another server has it"):
        other.start()
    with pytest.raises(RuntimeError, match="--learn-dir DIR"):
        Server("--learn-share", "0.3").start()
