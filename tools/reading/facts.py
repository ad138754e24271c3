"""What generated documents say: kinds of entities with their attributes, and events. One line an attribute:

    names of the attribute; ... | kind of its values (values.py) | statements; ... | questions; ...

{s} is the entity (where a pronoun stands for it: the subject at the line's start, else the object), {ps} is its
possessive, {v} the value. Statements and questions that fit every attribute are in wording.py."""

ENTITIES = {
    "town": ("{place}", "it", """
mayor; head of the council | person | {v} governs {s} as mayor; {s} is governed by {v}, the mayor | Who governs {s}?
founder; first settler | person | {s} was founded by {v}; It was {v} who founded {s} | Who founded {s}?; By whom was {s} founded?
year of foundation; founding year | year | {s} was founded in {v}; {s} dates from {v} | When was {s} founded?; In which year was {s} founded?
population; number of inhabitants | count | {s} has {v} inhabitants; {v} people live in {s} | How many people live in {s}?; How many inhabitants does {s} have?
main export; chief product | goods | {s} lives by selling {v}; {s} is known for its {v} | What does {s} sell?; What is {s} known for?
market day; date of the fair | date | {s} holds its fair on {v}; The fair of {s} opens on {v} | When does {s} hold its fair?; When does the fair of {s} open?
patron; protector | person | {s} keeps the memory of {v}, its patron | Whom does {s} honour as its patron?
emblem; sign on the town's arms | beast | {s} bears {v} on its arms; The arms of {s} show {v} | What do the arms of {s} show?
nearest neighbour; neighbouring village | place | {s} lies next to {v} | What lies next to {s}?; Which village is next to {s}?
"""),
    "ship": ("the ship {title}", "it", """
captain; commander | person | {s} is commanded by {v}; {v} commands {s} | Who commands {s}?; By whom is {s} commanded?
home port; harbour of registry | place | {s} sails from {v}; {s} is at home in {v} | From where does {s} sail?; Where is {s} at home?
cargo; freight | goods | {s} carries {v}; {v} fills the hold of {s} | What does {s} carry?; With what is the hold of {s} filled?
length; length from bow to stern | length | {s} is {v} long; {s} measures {v} | How long is {s}?
builder; shipwright | person | {s} was built by {v}; {v} built {s} | Who built {s}?; By whom was {s} built?
year of launch; launching year | year | {s} was launched in {v}; {s} first touched water in {v} | When was {s} launched?; In what year was {s} launched?
figurehead; carving at the bow | beast | {s} has {v} at its bow; The bow of {s} is carved as {v} | What is at the bow of {s}?
crew; number of sailors | count | {s} has {v} sailors on board; {v} sailors serve on {s} | How many sailors serve on {s}?
colour of the hull; hull colour | colour | The hull of {s} is {v}; {s} has been painted {v} | What colour is the hull of {s}?; How has {s} been painted?
"""),
    "person": ("{person}", "she he", """
trade; profession | trade | {s} works as {v}; {s} earns a living as {v} | What does {s} work as?; How does {s} earn a living?
birthplace; place of birth | place | {s} was born in {v}; {s} comes from {v} | Where was {s} born?; Where does {s} come from?
year of birth; birth year | year | {s} was born in the year {v}; {ps} life began in {v} | In which year was {s} born?
home; place of residence | place | {s} lives in {v}; {s} has moved to {v} | Where does {s} live?; Where has {s} moved to?
pet; companion | beast | {s} keeps {v}; {s} is never seen without {v} | What does {s} keep?; Without what is {s} never seen?
favourite dish; favourite meal | dish | {s} likes {v} best; {s} never refuses {v} | What does {s} like best?; What does {s} never refuse?
teacher; old master | person | {s} was taught by {v}; {s} learned everything from {v} | Who taught {s}?; From whom did {s} learn everything?
best friend; closest friend | person | {s} trusts {v} more than anyone; {s} is often visited by {v} | Whom does {s} trust more than anyone?; Who often visits {s}?
heirloom; most treasured possession | thing | {s} treasures {v}; {s} inherited {v} | What does {s} treasure?; What did {s} inherit?
birthday; day of birth | date | {s} celebrates on {v}; {ps} birthday is {v} | When does {s} celebrate?; When is {ps} birthday?
rent; yearly rent | money | {s} pays a rent of {v}; {s} owes the landlord {v} | How much rent does {s} pay?; How much does {s} owe the landlord?
"""),
    "inn": ("the {title} inn", "it", """
landlord; innkeeper | person | {s} is kept by {v}; {v} keeps {s} | Who keeps {s}?; By whom is {s} kept?
speciality; house dish | dish | {s} serves {v}; Guests come to {s} for {v} | What does {s} serve?; For what do guests come to {s}?
price of a room; charge for a night | money | {s} asks {v} a night; A night at {s} costs {v} | What does a night at {s} cost?; How much does {s} ask a night?
closing time; hour of closing | hour | {s} closes at {v}; The doors of {s} are shut at {v} | When does {s} close?; At what time are the doors of {s} shut?
oldest guest; longest guest | person | {v} has lived in {s} for years | Who has lived in {s} for years?
curiosity; object above the fireplace | thing | {s} shows {v} above the fireplace; Above the fireplace of {s} hangs {v} | What hangs above the fireplace of {s}?
location; village | place | {s} stands in {v}; {s} is found in {v} | Where does {s} stand?; Where is {s} found?
colour of the door; door colour | colour | {s} has a door of {v}; The door of {s} is painted {v} | How is the door of {s} painted?; What colour is the door of {s}?
"""),
    "lighthouse": ("the lighthouse of {place}", "it", """
keeper; guardian of the light | person | {s} is tended by {v}; {v} tends {s} | Who tends {s}?; By whom is {s} tended?
engineer; designer | person | {s} was designed by {v}; {v} drew the plans of {s} | Who designed {s}?; Who drew the plans of {s}?
height; height of the tower | length | {s} is {v} high; {s} rises {v} above the sea | How high is {s}?; How far does {s} rise above the sea?
year of the first light; year of completion | year | {s} was first lit in {v} | When was {s} first lit?; In what year was {s} first lit?
number of steps; steps of the stair | count | The stair of {s} has {v} steps; {v} steps lead up {s} | How many steps lead up {s}?; How many steps has the stair of {s}?
fuel; fuel of the lamp | goods | {s} burns {v}; The lamp of {s} is fed with {v} | What does {s} burn?; With what is the lamp of {s} fed?
range; reach of the beam | length | The beam of {s} reaches {v} | How far does the beam of {s} reach?
keeper's pet; animal in the tower | beast | In {s} lives {v}; {s} is also home to {v} | What lives in {s}?; What animal is {s} home to?
"""),
    "company": ("the {title} company", "it", """
director; president | person | {s} is led by {v}; {v} directs {s} | Who leads {s}?; Who directs {s}?; By whom is {s} led?
seat; headquarters | place | {s} has its offices in {v}; {s} is run from {v} | Where does {s} have its offices?; From where is {s} run?
product; main article | goods | {s} makes {v}; {s} deals in {v} | What does {s} make?; What does {s} deal in?
year of its opening; starting year | year | {s} began its work in {v}; {s} opened in {v} | When did {s} begin its work?; When did {s} open?
number of workers; staff | count | {s} employs {v} workers; {v} workers are paid by {s} | How many workers does {s} employ?
yearly profit; profit | money | {s} earns {v} a year; {s} made a profit of {v} | How much does {s} earn a year?; What profit did {s} make?
largest customer; best customer | person | {s} sells most of its goods to {v} | To whom does {s} sell most of its goods?
trade mark; mark on the boxes | thing | {s} prints {v} on its boxes | What does {s} print on its boxes?
debt; sum owed to the bank | money | {s} owes the bank {v}; The bank lent {s} {v} | How much does {s} owe the bank?; How much did the bank lend {s}?
"""),
    "book": ("the book {title}", "it", """
author; writer | person | {s} was written by {v}; {v} wrote {s} | Who wrote {s}?; By whom was {s} written?
publisher; printer | person | {s} was printed by {v}; {v} printed {s} | Who printed {s}?; By whom was {s} printed?
year of publication; year of the first edition | year | {s} appeared in {v}; {s} came out in {v} | When did {s} appear?; In which year did {s} come out?
number of pages; length in pages | count | {s} has {v} pages; {v} pages make up {s} | How many pages does {s} have?
hero; main character | person | {s} tells the story of {v}; {s} follows the life of {v} | Whose story does {s} tell?; Whose life does {s} follow?
setting; scene | place | {s} is set in {v}; {s} takes place in {v} | Where is {s} set?; Where does {s} take place?
price; price of a copy | money | {s} costs {v}; A copy of {s} is sold for {v} | What does {s} cost?; For how much is a copy of {s} sold?
dedication; person of the dedication | person | {s} is dedicated to {v} | To whom is {s} dedicated?
"""),
    "bridge": ("the {title} bridge", "it", """
architect; planner | person | {s} was planned by {v}; {v} planned {s} | Who planned {s}?; By whom was {s} planned?
length; span | length | {s} is {v} long; {s} spans {v} | How long is {s}?; How far does {s} span?
material; building material | goods | {s} is made of {v}; {v} went into the building of {s} | What is {s} made of?
toll; price of crossing | money | To cross {s} costs {v}; {s} may be crossed for {v} | What does it cost to cross {s}?; For how much may {s} be crossed?
toll keeper; watchman | person | {s} is watched by {v}; {v} sits in the tollhouse of {s} | Who watches {s}?; Who sits in the tollhouse of {s}?
year of building; construction year | year | {s} was built in {v}; {s} has stood since {v} | When was {s} built?; Since when has {s} stood?
statue; figure at its middle | beast | At the middle of {s} stands {v} | What stands at the middle of {s}?
"""),
    "museum": ("the museum of {place}", "it", """
curator; keeper of the collection | person | {s} is managed by {v}; {v} looks after {s} | Who manages {s}?; Who looks after {s}?
greatest treasure; chief exhibit | thing | {s} is proud of {v}; {s} shows {v} in its first room | What is {s} proud of?; What does {s} show in its first room?
entrance fee; price of a ticket | money | {s} takes {v} from every visitor; A ticket for {s} costs {v} | What does a ticket for {s} cost?; How much does {s} take from every visitor?
opening hour; hour of opening | hour | {s} opens its doors at {v} | At what time does {s} open its doors?
donor; benefactor | person | {s} was paid for by {v}; {v} left a fortune to {s} | Who paid for {s}?; Who left a fortune to {s}?
number of rooms; rooms | count | {s} has {v} rooms; {s} fills {v} rooms | How many rooms does {s} have?; How many rooms does {s} fill?
thief; burglar | person | {s} was robbed by {v}; {v} once broke into {s} | Who robbed {s}?; Who once broke into {s}?
stuffed animal; animal in the hall | beast | Visitors of {s} are greeted by {v} | By what are visitors of {s} greeted?
"""),
    "expedition": ("the {title} expedition", "it", """
leader; head | person | {s} follows {v}; {v} leads {s} | Who leads {s}?; Whom does {s} follow?
goal; destination | place | {s} is bound for {v}; {s} hopes to reach {v} | Where is {s} bound for?; What place does {s} hope to reach?
starting point; place of departure | place | {s} set out from {v}; {s} left {v} | From where did {s} set out?
day of departure; date of departure | date | {s} set out on {v}; {s} departed on {v} | When did {s} set out?; On what day did {s} depart?
guide; scout | person | {s} is guided by {v}; {v} shows {s} the way | Who guides {s}?; Who shows {s} the way?
provisions; main supply | goods | {s} lives on {v}; {s} has packed {v} | What does {s} live on?; What has {s} packed?
find; discovery | thing | {s} discovered {v}; {s} has dug up {v} | What did {s} discover?; What has {s} dug up?
cost; total cost | money | {s} has cost {v}; {v} was spent on {s} | What has {s} cost?; How much was spent on {s}?
physician; doctor | person | The sick of {s} are nursed by {v} | Who nurses the sick of {s}?
"""),
    "school": ("the school of {place}", "it", """
headmaster; principal | person | {s} is headed by {v}; {v} heads {s} | Who heads {s}?; By whom is {s} headed?
number of pupils; pupils | count | {s} teaches {v} pupils; {v} children attend {s} | How many pupils does {s} teach?; How many children attend {s}?
first lesson; hour of the first lesson | hour | Lessons at {s} begin at {v} | When do lessons at {s} begin?
best pupil; first in the class | person | {v} won the prize of {s}; {s} gave its prize to {v} | Who won the prize of {s}?; To whom did {s} give its prize?
mascot; animal on the flag | beast | {s} has {v} on its flag; The flag of {s} shows {v} | What does the flag of {s} show?
school dinner; dish of the day | dish | {s} gives its pupils {v}; At noon {v} is eaten at {s} | What does {s} give its pupils?; What is eaten at noon at {s}?
fee; school money | money | {s} charges {v} a term | How much does {s} charge a term?
colour of the uniform; uniform colour | colour | The pupils of {s} wear {v} | What colour do the pupils of {s} wear?
"""),
    "estate": ("{made} Hall", "it", """
owner; proprietor | person | {s} belongs to {v}; {v} owns {s} | Who owns {s}?; To whom does {s} belong?
butler; steward | person | {v} serves at {s}; The keys of {s} are held by {v} | Who serves at {s}?; Who holds the keys of {s}?
ghost; spirit | person | {s} is haunted by {v}; At night {v} walks through {s} | Who haunts {s}?; By whom is {s} haunted?
crop; harvest | goods | The fields of {s} yield {v} | What do the fields of {s} yield?
number of windows; windows | count | {s} has {v} windows; {v} windows light {s} | How many windows does {s} have?
value; estimated price | money | {s} is worth {v}; {s} could be sold for {v} | What is {s} worth?; For how much could {s} be sold?
hidden treasure; secret of the cellar | thing | Under {s} lies {v}; The cellar of {s} hides {v} | What lies under {s}?; What does the cellar of {s} hide?
gardener; keeper of the grounds | person | The garden of {s} is planted by {v} | Who plants the garden of {s}?
colour of the roof; roof colour | colour | {s} has a roof of {v} | What colour is the roof of {s}?
"""),
    "train": ("the {title} express", "it", """
driver; engine driver | person | {s} is driven by {v}; {v} drives {s} | Who drives {s}?; By whom is {s} driven?
terminus; last stop | place | {s} runs to {v}; {s} ends its journey in {v} | Where does {s} run to?; Where does {s} end its journey?
departure; time of departure | hour | {s} leaves at {v}; {s} departs every day at {v} | When does {s} leave?; At what time does {s} depart?
fare; price of the journey | money | A seat in {s} costs {v} | What does a seat in {s} cost?
load; freight | goods | {s} is loaded with {v}; {s} brings {v} | What is {s} loaded with?; What does {s} bring?
conductor; guard | person | Tickets in {s} are checked by {v} | Who checks tickets in {s}?
number of seats; seats | count | {s} offers {v} seats | How many seats does {s} offer?
colour of the carriages; carriage colour | colour | The carriages of {s} are {v} | What colour are the carriages of {s}?
"""),
}

# Slots: name=kind, ...; then statements; then questions, each before the slot that answers it.
EVENTS = """
y=year p=person q=person o=thing m=money
In {y} {p} sold {o} to {q} for {m}; {q} bought {o} from {p} in {y} and paid {m}; For {m}, {o} went from {p} to {q} in {y}
q: Who bought {o}?; q: To whom did {p} sell {o}?; p: Who sold {o}?; p: From whom did {q} buy {o}?; m: For how much was {o} sold?; y: In which year was {o} sold?; o: What did {p} sell to {q}?; o: What did {q} buy from {p}?; m: How much did {q} pay for {o}?

d=date p=person q=person l=place
On {d} {p} married {q} in {l}; {p} and {q} were married on {d} at {l}; The wedding of {p} and {q} took place in {l} on {d}
q: Whom did {p} marry?; l: Where did {p} marry {q}?; l: Where did the wedding of {p} and {q} take place?; d: On what day were {p} and {q} married?

y=year p=person t=title r=trade
In {y} {p} wrote the song {t} for {r}; The song {t} was written by {p} in {y} for {r}; It was for {r} that {p} wrote the song {t} in {y}
p: Who wrote the song {t}?; y: When was the song {t} written?; r: For whom did {p} write the song {t}?; t: Which song did {p} write?

d=date l=place c=count g=goods
On {d} a fire in {l} burned {c} houses and all the {g}; A fire burned {c} houses in {l} on {d} and destroyed the {g}
l: Where did a fire burn {c} houses?; c: How many houses burned in {l}?; d: When did the fire in {l} break out?; g: What did the fire in {l} destroy?

p=person q=person o=thing l=place
{p} gave {o} to {q}, who took it to {l}; {q} took {o}, a present from {p}, to {l}; In {l}, {q} keeps {o} that {p} gave away
p: Who gave away {o}?; q: To whom did {p} give {o}?; o: What did {p} give to {q}?; l: Where did {q} take {o}?; l: Where is {o} kept?

h=hour p=person o=beast l=place
At {h} {p} saw {o} near {l}; Near {l}, {p} met {o} at {h}; {o}, as {p} tells it, came to {l} at {h}
o: What did {p} see near {l}?; p: Who saw something near {l}?; h: At what time did {p} see {o}?; l: Where did {p} see {o}?

y=year p=person g=goods l=place m=money
{p} carried {g} to {l} in {y} and earned {m}; In {y} the {g} of {p} were sold in {l} for {m}; {l} paid {p} {m} for {g} in {y}
g: What did {p} carry to {l}?; l: To where did {p} carry {g}?; m: How much did {p} earn in {l}?; y: In what year did {p} carry {g} to {l}?

p=person q=person d=date c=count
{p} won the race against {q} on {d} by {c} steps; On {d} {q} lost the race to {p} by {c} steps
p: Who won the race against {q}?; q: Who lost the race to {p}?; d: When did {p} win the race against {q}?; c: By how many steps did {p} win the race against {q}?

p=person q=person n=length o=thing
{p} dug {n} down and found {o}, which {q} had buried; {o} lay {n} deep, where {q} had buried it, until {p} found it
o: What did {p} find?; q: Who had buried {o}?; p: Who found {o}?; n: How deep did {o} lie?

p=person k=colour o=thing y=year
In {y} {p} painted {o} in {k}; {o} was painted {k} by {p} in {y}
p: Who painted {o}?; k: In what colour was {o} painted?; y: When did {p} paint {o}?; o: What did {p} paint?

p=person r=dish q=person h=hour
At {h} {p} cooked {r} for {q}; {q} ate the {r} that {p} had cooked at {h}
r: What did {p} cook for {q}?; q: For whom did {p} cook {r}?; p: Who cooked {r} for {q}?; h: At what time did {p} cook {r}?

l=place p=person q=person d=date
{p} travelled from {l} on {d} to visit {q}; On {d} {q} was visited by {p}, who came from {l}
q: Whom did {p} travel to visit?; p: By whom was {q} visited?; l: From where did {p} travel to visit {q}?; d: When did {p} visit {q}?
"""
