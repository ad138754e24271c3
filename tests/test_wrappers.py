"""Models that see, of which the text is served: what a client meets."""

import json
import shutil
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, ROOT, Server, copy_golden_model

# LLaVA's: it walks over the parts of a message.
TEMPLATE = ("{% for message in messages %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
            "{{ content['text'] }}{% endfor %}{% endfor %}")


@pytest.fixture
def folders(tmp_path):
    """A model with a tower, and an adapter of both."""
    copy_golden_model("llava", tmp_path / "model")
    (tmp_path / "model" / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    shutil.copytree(ROOT / "tests" / "goldens" / "llava" / "adapter", tmp_path / "adapters" / "both")
    return {"model": tmp_path / "model", "adapters": tmp_path / "adapters"}


def test_chats_are_text_and_images_are_refused_by_name(folders):
    letters = "".join(chr(0x4E00 + 20 + i) for i in range(8))
    with Server("--model-name", "base", "--text-only", **folders) as server:
        def ask(*parts):
            return server.client().chat.completions.create(
                model="both", messages=[{"role": "user", "content": list(parts)}], max_tokens=2)
        text = {"type": "text", "text": letters}
        assert ask(text).usage.prompt_tokens == len(letters)
        with pytest.raises(openai.BadRequestError) as refused:
            ask(text, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})
        assert refused.value.body["param"] == "messages[0].content[1].type"
        assert "'image_url'" in refused.value.body["message"]
        told = "6 tensors are of towers of LlavaForConditionalGeneration"
        models = {model.id: model.model_dump() for model in server.client().models.list().data}
        assert told in server.log() and told in models["both"]["left_out"]


def test_what_an_adapter_has_for_a_tower_is_refused_by_name(folders):
    with Server("--model-name", "base", "--admin-key", ADMIN_KEY, "--tune", "read-at-start-gib=0", **folders) as server:
        body = {"lora_name": "again", "lora_path": "both"}
        request = urllib.request.Request(server.url + "/v1/load_lora_adapter", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert 400 <= refused.value.code < 500
        message = refused.value.read().decode()
        assert "vision_tower" in message and "--text-only" in message
