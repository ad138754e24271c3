"""Questions to a running server: texts of answers, and log-likelihoods of options."""

import concurrent.futures
import json
import pathlib
import urllib.error
import urllib.request

# As distill teaches an adapter to be asked; the document stands before it in the arms that read it.
ASK = "Question: {question}\nAnswer:"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def has_template(model):
    """Where Graft looks for a chat template."""
    folder = pathlib.Path(model)
    config = folder / "tokenizer_config.json"
    return ((folder / "chat_template.jinja").exists()
            or bool(config.exists() and json.loads(config.read_text()).get("chat_template")))


class Client:
    def __init__(self, url, is_chat, answer_tokens, threads):
        self.url = url.rstrip("/")
        self.is_chat = is_chat
        self.answer_tokens = answer_tokens
        self.threads = threads

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path} for {body.get('model')}: {error.read().decode()}") from error

    def models(self):
        with urllib.request.urlopen(self.url + "/v1/models", timeout=60) as reply:
            return {model["id"]: model for model in json.load(reply)["data"]}

    def tokens(self, text, model):
        """Without those that a tokenizer adds."""
        return self.post("/tokenize", {"model": model, "prompt": text, "add_special_tokens": False})["tokens"]

    def cut(self, text, model, count):
        """The text's first `count` tokens."""
        tokens = self.tokens(text, model)[:count]
        return self.post("/detokenize", {"model": model, "tokens": tokens})["prompt"] if tokens else ""

    def messages(self, context, question):
        return [{"role": "user", "content": f"{context}\n\n{question}" if context else question}]

    def text(self, context, question):
        return (f"{context}\n\n" if context else "") + ASK.format(question=question)

    def prompt(self, model, context, question):
        """As token ids."""
        if not self.is_chat:
            return self.post("/tokenize", {"model": model, "prompt": self.text(context, question)})["tokens"]
        return self.post("/tokenize", {"model": model, "messages": self.messages(context, question)})["tokens"]

    def answer(self, model, context, question):
        body = {"model": model, "max_tokens": self.answer_tokens, "temperature": 0, "stop": ["\n"]}
        if not self.is_chat:
            reply = self.post("/v1/completions", {**body, "prompt": self.text(context, question)})
            return reply["choices"][0]["text"].strip()
        reply = self.post("/v1/chat/completions", {**body, "messages": self.messages(context, question)})
        return (reply["choices"][0]["message"]["content"] or "").strip()

    def likelihood(self, model, prompt, ending):
        """Sum and number of the ending's tokens' log-probabilities behind the prompt."""
        return self.likelihood_of(model, prompt, self.tokens(ending, model))

    def likelihood_of(self, model, prompt, tokens):
        reply = self.post("/v1/completions", {"model": model, "prompt": prompt + tokens, "max_tokens": 0,
                                              "echo": True, "logprobs": 0})
        values = reply["choices"][0]["logprobs"]["token_logprobs"][len(prompt):]
        return sum(values), len(values)

    def written(self, model, start, count, tokens_max):
        """Texts that the model writes behind the start, each from a seed of its own, as token ids."""
        def one(seed):
            reply = self.post("/v1/completions", {"model": model, "prompt": start, "max_tokens": tokens_max,
                                                  "seed": seed, "temperature": 1, "top_p": 1})
            return start + self.tokens(reply["choices"][0]["text"], model)

        return self.all(one, [(seed,) for seed in range(count)])

    def choose(self, model, context, question):
        """Of each option the mean log-likelihood of its text, and the log-likelihood of its letter."""
        prompt = self.prompt(model, context, question.text)
        gap = "" if self.is_chat else " "  # a chat's answer begins its turn
        means = []
        for option in question.options:
            total, count = self.likelihood(model, prompt, gap + option)
            means.append(total / max(1, count))
        listed = "".join(f"\n({letter}) {option}" for letter, option in zip(LETTERS, question.options))
        prompt = self.prompt(model, context, question.text + listed)
        return means, [self.likelihood(model, prompt, f"{gap}({letter}")[0] for letter, _ in zip(LETTERS, question.options)]

    def all(self, work, cases):
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(lambda case: work(*case), cases))
