"""What the base is taught to follow, word for word. `graft learn` says LEARN_SUMMARY and LEARN_QUESTION behind a
window of a document (recipe.cc and question_form.cc in src/tuning): whoever changes them there changes what the base
was trained on."""

LEARN_SUMMARY = "\n\nA summary of the preceding passage:\n"
LEARN_QUESTION = "\n\nA question about the preceding passage, and its answer:\nQuestion:"
ANSWER = "\nAnswer:"
NEXT_QUESTION = "\nQuestion:"

# Chats: the passage and the first question in one message.
ASK_ABOUT = ("{passage}\n\n{question}", "{passage}\n\n{question}", "{passage}\n\nQuestion: {question}",
             "Read this passage:\n\n{passage}\n\n{question}", "Passage:\n{passage}\n\nQuestion: {question}",
             "Answer by the following text.\n\n{passage}\n\n{question}",
             "Here is a document:\n\n{passage}\n\nNow answer: {question}", "{question}\n\n{passage}")
SYSTEMS = ("", "", "", "You answer questions about a passage.", "Answer briefly.", "You are a helpful assistant.")
SYSTEM_PASSAGES = ("{passage}", "Answer from this document:\n\n{passage}", "Document:\n{passage}")

IN_A_SENTENCE = ("{question} Answer in a sentence.", "{question} Reply with a full sentence.")
SUMMARIZE = ("Summarize the preceding passage.", "Summarize the passage.", "Write a summary of the passage.",
             "A summary of the preceding passage, please.")
WRITE_QUESTION = ("Generate a question-answer pair given the preceding passage.",
                  "Write a question about the passage, and its answer.",
                  "A question about the preceding passage, and its answer, please.")
TELL_ABOUT = ("Tell me about {subject}.", "What does the passage say of {subject}?", "What is known of {subject}?")
COPY_SENTENCE = ("Copy the sentence that begins with \"{start}\".", "Quote the sentence that begins with \"{start}\".")
REPEAT = ("Repeat this text: {text}", "Copy this: {text}", "Write this down word for word: {text}")
REPLACE = ("Replace \"{old}\" by \"{new}\" in this text: {text}", "In this text write \"{new}\" instead of \"{old}\": "
           "{text}")
FILL_JSON = ("Fill in this JSON from the passage: {form}", "Complete this JSON with what the passage says: {form}",
             "Answer with this JSON, filled in: {form}")
