"""Genres: how a document begins and ends, what it is about, and sentences that tell nothing. A slot in capitals is a
value that is asked for; a line of a beginning: text | KIND of slots | questions."""

# name: (I speaks, weights of blocks, moods, openings, closings)
# blocks: person, thing, happening (of things), event, building, recipe, orders, animal, said, talk, aside
LETTER = {"person": 9, "stay": 4, "thing": 2, "happening": 2, "event": 1, "building": 1, "animal": 2, "said": 1,
          "traits": 4, "force": 1, "firm": 1, "crowd": 1, "plant": 1, "sums": 1, "aside": 2}
_PAST = {"past": 8, "future": 2, "perfect": 1}
GENRES = {
    "letter": (True, LETTER, {"past": 6, "present": 2, "future": 2, "perfect": 1}),
    "diary": (True, LETTER, {"past": 9, "perfect": 1}),
    "news": (False, {
        "person": 5, "stay": 2, "thing": 2, "happening": 3, "event": 2, "building": 2, "said": 3, "boat": 2,
        "traits": 2, "force": 3, "firm": 2, "crowd": 4, "sums": 2, "aside": 1
    }, _PAST),
    "minutes": (False, {
        "person": 6, "rule": 2, "event": 2, "building": 1, "said": 3, "thing": 1, "happening": 1, "item": 4, "firm": 3,
        "sums": 4, "jobs": 3, "dues": 2, "traits": 2, "crowd": 2, "aside": 1
    }, {"past": 5, "future": 4, "perfect": 1}),
    "sheet": (False, {"thing": 8, "orders": 4, "part": 4, "labels": 3, "firm": 1, "aside": 1}, {"present": 1}),
    "recipe": (False, {"recipe": 9, "dish": 5, "aside": 1}, {"present": 1}),
    "notice": (False, {
        "event": 4, "building": 3, "orders": 1, "person": 3, "happening": 1, "thing": 1, "jobs": 4, "firm": 3,
        "sums": 3, "trips": 1, "posts": 1, "rule": 6, "aside": 1
    }, {"future": 7, "present": 2, "must": 1, "can": 1}),
    "trip": (False, {"trips": 5, "rule": 2, "person": 3, "building": 1, "sums": 1, "event": 1,
                     "aside": 1}, {"future": 8, "must": 1, "can": 1}),
    "job": (False, {"posts": 5, "firm": 2, "person": 2, "building": 1, "traits": 2, "sums": 1,
                    "aside": 1}, {"future": 4, "present": 4, "must": 1, "can": 1}),
    "contract": (False,
                 {"leases": 5, "sums": 3, "rule": 4, "building": 2, "person": 3, "thing": 1, "orders": 1,
                  "aside": 0}, {"must": 3, "may": 3, "future": 3}),
    "advert": (True, {
        "thing": 7, "part": 4, "person": 3, "happening": 1, "animal": 3, "orders": 1, "labels": 1, "sums": 1, "boat": 1,
        "aside": 1
    }, {"past": 5, "present": 2, "future": 2}),
    "dialogue": (False, {"talk": 1}, {"past": 5, "perfect": 2, "future": 3}),
    "report": (False, {
        "happening": 4, "thing": 3, "part": 3, "building": 2, "person": 4, "said": 2, "orders": 1, "firm": 3,
        "force": 3, "sums": 1, "labels": 1, "jobs": 1, "dues": 2, "boat": 1, "aside": 1
    }, {"past": 8, "must": 2, "future": 1}),
    "life": (False,
             {"person": 6, "stay": 4, "traits": 9, "said": 1, "aside": 1, "building": 1, "animal": 1,
              "force": 1}, {"past": 9, "perfect": 1}),
    "guide": (False, {
        "building": 8, "thing": 3, "part": 2, "person": 2, "event": 2, "animal": 1, "happening": 1, "boat": 1,
        "plant": 2, "trips": 1, "aside": 1
    }, {"past": 3, "present": 3}),
    "story": (False, {
        "person": 9, "stay": 4, "happening": 2, "said": 2, "animal": 2, "thing": 2, "traits": 4, "aside": 2, "talk": 2,
        "force": 2, "crowd": 2, "boat": 1
    }, {"past": 1}),
}

# (text, slots, questions: (slot, question))
OPENINGS = {
    "letter": [("{town}, {date}\n\nDear {reader},", "town date reader"), ("{date}\n\nDear {reader},", "date reader"),
               ("{street}\n{town}\n{date}\n\nDear {reader},", "street town date reader"), ("Dear {reader},", "reader"),
               ("My dear {reader},", "reader"), ("Hello {reader},", "reader")],
    "diary": [("{weekday}.", "weekday"), ("{date}.", "date"), ("From the notebook of {writer}, {date}", "writer date"),
              ("{weekday}, {date}.", "weekday date")],
    "news": [("NEWS FROM {TOWN}", "town"), ("# What happened in {town}", "town"), ("{town}, {date}.", "town date"),
             ("", "")],
    "minutes": [("MINUTES of the meeting in {room} on {date} at {hour}\n\nChair: {chair}.", "room date hour chair"),
                ("Committee meeting, {date}, at {chair}'s house", "date chair"),
                ("Minutes of {date}. Present: {count} members. Apologies came from {absent}.", "date count absent"),
                ("The meeting was held in {room}; {chair} was in the chair and {clerk} took the minutes.",
                 "room chair clerk")],
    "sheet": [("", "")],
    "recipe": [("{cook}'s {dish}", "cook dish"), ("{dish} for {number} people", "dish number"),
               ("How {cook} of {town} makes {dish}", "cook town dish")],
    "notice": [("NOTICE", ""), ("TO ALL TENANTS OF {TOWN} COURT", "town"), ("To all members", ""), ("Please note!", ""),
               ("Dear neighbours,", ""), ("Dear parents of class {code},", "code")],
    "trip": [("Dear parents of class {code},", "code"), ("Dear parents,", ""), ("Dear members,", ""), ("", "")],
    "job": [("WANTED", ""), ("", ""), ("The town of {town} has posts to fill.", "town")],
    "contract": [("AGREEMENT between {owner}, owner, and {tenant}, tenant", "owner tenant"),
                 ("AGREEMENT of {date} between {owner} and {tenant}", "date owner tenant")],
    "advert": [("For sale or to be given away:", ""), ("FOR SALE", ""), ("Lost and found:", ""), ("", "")],
    "dialogue": [("", "")],
    "report": [("Inspection report {code}\n\nInspector: {inspector}. Date: {date}.", "code inspector date"),
               ("Report of {date} by {inspector}", "date inspector"), ("REPORT {code}", "code"),
               ("Report. Duration of the visit: {duration}. Fee: {price}.", "duration price")],
    "life": [("", ""), ("OBITUARY", ""), ("# People of {town}", "town"), ("A portrait", "")],
    "guide": [("A walk through {town}", "town"), ("# {town}", "town"), ("What to see in {town}", "town"), ("", "")],
    "story": [("", ""), ("", ""), ("# A story from {town}", "town")],
}
OPENING_ASKS = {
    "letter": {
        "reader": ("To whom is the letter by {by} addressed?", "To whom did {by} write?", "Who did {by} write to?"),
        "town": ("Where was the letter by {by} written?", "From which town does {by} write?"),
        "date": ("On what date did {by} write?", "When was the letter by {by} written?"),
        "street": ("At what address does {by} write?", )
    },
    "minutes": {
        "room": ("Where was the meeting held?", "Where did they meet?"),
        "date": ("When was the meeting held?", "On what date did they meet?", "On what day was the meeting?"),
        "hour": ("At what time was the meeting?", "At what time did the meeting begin?"),
        "chair": ("Who was in the chair?", "Who chaired the meeting?"), "count": ("How many members were present?", ),
        "absent": ("Who sent apologies?", "From whom did apologies come?"), "clerk": ("Who took the minutes?", )
    },
    "recipe": {
        "cook": ("Whose {dish} is it?", "Whose recipe is the {dish}?"),
        "number": ("For how many people is the {dish}?", "How many people does the {dish} serve?")
    },
    "contract": {
        "owner": ("Who is the owner in the agreement with {tenant}?", "With whom has {tenant} an agreement?"),
        "tenant": ("Who is the tenant of {owner}?", "With whom has {owner} an agreement?"),
        "date": ("When did {owner} and {tenant} sign the agreement?", )
    },
    "report": {
        "code": ("What is the number of the report?", ),
        "inspector": ("Who is the inspector?", "Who wrote the report?"),
        "date": ("What is the date of the report?", "When was the report written?"),
        "price": ("How much is the fee?", "What is the fee?"),
        "duration": ("How long did the visit take?", "How long was the visit?")
    },
}
CLOSINGS = {
    "contract": ("Witness: {witness}.", ""),
    "trip": ("Kind regards, {teacher}", ""),
    "job": ("", "We answer everyone."),
    "letter": ("Your sister,\n{writer}", "Yours truly,\n{writer}", "Love,\n{writer}", "{writer}",
               "Yours sincerely,\n{writer}", "Kind regards, {writer}", "With best wishes,\n{writer}",
               "Ever yours,\n{writer}", "Until soon,\n{writer}"),
    "diary": ("({writer})", "- {writer}", "From the diary of {writer}", ""),
    "advert": ("Ask for {writer}.", "{writer}", "Write to {writer}.", "Apply to {writer}, any evening."),
    "notice": ("Thank you for your understanding.", "We are sorry for the trouble.", "The caretaker", "", ""),
    "minutes": ("The meeting closed without a song.", "There was no other business.", "", ""),
}
CLOSING_ASKS = {
    "contract": {"witness": ("Who is the witness?", "Who was the witness to the agreement?")},
    "trip": {"teacher": ("Who wrote to the parents?", "Who signed the letter to the parents?")},
    "letter": ("Who wrote the letter to {reader}?", "Who signed the letter to {reader}?",
               "From whom is the letter to {reader}?"),
    "advert": ("Who put in the advertisement?", "For whom should one ask?")
}

ASIDES = """It was not as bad as it sounds.;Nobody was surprised.;That is all we know so far.;Some people laughed.;
The rest is well known.;Opinions differ.;We shall see.;So much for that.;I hope you are well.;
It took longer than planned, as usual.;Please be patient.;The weather did what it liked.;There were no questions.;
Make of it what you will.;It could have been worse.;This was agreed without a vote.;Nothing else is known.;
One should not believe everything.;More about this another time.;The neighbours are still talking about it.;
Some things never change.;The tea was cold by then.;All the same, it was a good day.;There is no hurry.;
That was news to everyone.;You know how it is.;It is a long story.;The matter was left there.;
Everybody had something to say about it.;It is said to bring luck.;Time will tell.;Silence followed.;
It looked like rain.;We were all a little tired.;The cat slept through it all.;Who would have thought so?;
As they say, better late than never.;It is nothing to be proud of.;Ask anyone.;Complaints are useless.;
Do not laugh.;No further comment.;Then it was quiet again.;This is how it has always been done.;Patience helps.;
That was the easy part.""".replace("\n", "").split(";")
ASIDES = [text.strip() for text in ASIDES]
SAID = ("{who} says that {it}", "{who} said that {it}", "According to {who}, {it}", "{who} told us that {it}",
        "{who} reported that {it}", "{who} has heard that {it}", "As {who} remembers, {it}", "{who} thinks that {it}",
        "{who} explained that {it}", "{who} wrote that {it}")
LINKS = ("Then", "After that", "Later", "Meanwhile", "Afterwards", "Besides", "At first", "Finally", "Moreover",
         "In the end", "Now", "Otherwise", "Of course", "Luckily", "Unfortunately", "As usual",
         "To everyone's surprise", "Sadly", "By the way")
REPLIES = ("Really?", "I know.", "Who told you?", "No!", "That is news to me.", "Good.", "And then?", "I thought so.",
           "Hm.", "Well, well.", "How odd.", "You do not say.", "Never mind.", "Go on.", "Are you sure?",
           "I am sorry to hear it.", "Excellent.")
# A sentence that says why what stands before it was so.
REASONS = ("{why}", "{why}", "{why}", "The reason: {why}", "You see, {why}", "The truth is that {why}",
           "The explanation was that {why}", "That was because {why}", "Why? {why}", "After all, {why}", "It was simple: {why}")
