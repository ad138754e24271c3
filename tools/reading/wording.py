"""Statements, questions and fillers that fit any attribute; {c} is the entity's class, {n} the attribute's name."""

STATEMENTS = """The {n} of {s} is {v}.
{ps} {n} is {v}.
{v} is the {n} of {s}.
{s} has {v} as {n}.
As the {n} of {s}, the records give {v}.
For the {n} of {s}, everyone names {v}.
When people speak of the {n} of {s}, they mean {v}.
Nobody doubts that the {n} of {s} is {v}.
It is written that the {n} of {s} is {v}.
The {n} of {s}, according to an old letter, is {v}.
Asked about the {n} of {s}, the clerk answered: {v}.
Today the {n} of {s} is {v}.
The papers name {v} as the {n} of {s}.
Visitors often hear that the {n} of {s} is {v}.
The {n} of {s} has always been {v}.
In the list of {s} one reads under {n}: {v}.
What is the {n} of {s}? It is {v}.
Under the heading of {s} the register says, for {n}, {v}.""".split("\n")

PRONOUN_STATEMENTS = """{ps} {n} is {v}.
{v} is {ps} {n}.
The {n} is {v}.
{s} has {v} as {n}.
As {ps} {n}, the records give {v}.
For {ps} {n}, everyone names {v}.
Nobody doubts that {ps} {n} is {v}.
{ps} {n}, it is said, is {v}.
The papers name {v} as {ps} {n}.""".split("\n")

QUESTIONS = """{w} is the {n} of {s}?
{w} is the {n} of {s}?
{w} is the {n} of {s}?
{w} is {ps} {n}?
{w} is {ps} {n}?
What is the {n} of {s}?
Name the {n} of {s}.
Tell me the {n} of {s}.
Please give the {n} of {s}.
What does the text call the {n} of {s}?
As for {s}, {lw} is the {n}?
Which {n} does {s} have?
Do you know the {n} of {s}?
Can you find the {n} of {s}?
I should like to know {ps} {n}.
According to the passage, {lw} is the {n} of {s}?
Concerning {s}: {lw} is the {n}?
{w} was named as the {n} of {s}?
{s}: {lw} is the {n}?""".split("\n")

REVERSE_QUESTIONS = """Which {c} has {v} as {n}?
Of which {c} is {v} the {n}?
{v} is the {n} of which {c}?
Name the {c} with {v} as {n}.""".split("\n")

ASIDES = """The weather was {adj} that day, and nobody wanted to speak of {goods}.
An old {animal} slept in the sun.
There is a saying about {goods} and {animal}s, but few remember it.
The wind came from the north and brought the smell of {goods}.
Some hold that this is only half of the story.
A traveller asked for {goods}, but there were none to be had.
The evening was {adj}, and the lamps were lit early.
Nothing more was said about it for a long time.
People still talk of the {adj} winter and of the price of {goods}.
One must not believe everything that is told about such things.
The {animal} crossed the road as if it owned it.
Behind the {adj} {thing} a child was laughing.
Of {goods} there was plenty, of patience less.
The {trade} shook his head and went away.
A {adj} {thing} lay on the table, and no one knew why.
It rained for three days, and the {animal}s stayed in their holes.
This was printed in the newspaper, beside the price of {goods}.
Two of the neighbours disagree about it to this day.
The bells rang, and the {trade} counted the strokes.
Later the {adj} {thing} was forgotten like so much else.""".split("\n")

TITLES = """Notes on {x}
A report about {x}
{x} and other matters
What is known of {x}
The register of {x}
From the annals of {x}
{x}""".split("\n")
