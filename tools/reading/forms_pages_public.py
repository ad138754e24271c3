"""Pages of public life as people write them: visits of inspectors, news, notices, minutes, portraits. prose.py reads
them."""

TEXT = r"""
form visit of an inspector
part code=code place=place who=who day=date time=dur
open {place} ({code})\n\nVisited: {day}\nBy: {who}\nTime needed: {time}
open Survey {code}, {place}. {who}, {day}. On the spot for {time}.
open To the council of {place}\n\n{who} reports on the visit of {day}, which lasted {time} (file {code}).
ask who: ~ Who made the visit? | Who visited {place}? | By whom was {place} visited? | ~ Who is the inspector? | Who reports on {place}?
ask time: ~ How long did the visit last? | ~ How long did it take? | How long was {who} at {place}? | How much time did {who} need?
ask day: ~ When was the visit? | When was {place} visited? | On what day did {who} visit {place}?
ask place: ~ Which place was visited? | What place did {who} visit? | On what place does {who} report?
ask code: ~ What is the number of the file? | Under what number is the visit filed?
frame n=few year=year maker=who p1=bar what=noun p2=bar limit=bar
say Engine {n}: maker {maker}, {year}. Working pressure {p1}; the {what} gave way at {p2} (allowed: {limit}).
say {maker} made engine {n} in {year}. With {p1} bar it works well. I tested its {what}, too; {p2} was reached where {limit} is the most that is allowed.
say The {what} of engine {n} lets go at {p2}. It ought to do so below {limit}, so all is well. In daily use {p1} is enough. {maker}, {year}.
ask maker: Who made engine {n}? | Who is the maker of engine {n}? | Whose make is engine {n}? | By whom was engine {n} made?
ask year: When was engine {n} made? | From which year is engine {n}? | In what year did {maker} make it?
ask p2: At how many bar did the {what} give way? | At what pressure does the {what} let go? | What pressure was reached in the test of the {what}? | At what did the {what} open?
ask p1: What is the working pressure of engine {n}? | With how many bar does engine {n} work? | What pressure is enough in daily use?
ask limit: What is the most that is allowed? | Below what pressure ought the {what} to let go? | What is allowed for the {what}?
ask what: What was tested? | What gave way at {p2}?
frame n=few tube=noun side=hall by=past
say In {side} {n} {tube.many} leak, the rest are sound.
say I counted {n} {tube.many} with damage in {side}; new ones are on their way.
say Damage was seen in {side} alone: {n} {tube.many}.
ask n: How many {tube.many} leak or are damaged? | How many {tube.many} have damage? | How many {tube.many} are bad?
ask side: Where are the bad {tube.many}? | In which room is there damage? | Where was damage seen?
ask tube: What is damaged in {side}? | What leaks in {side}?
frame boss=titled room=noun why=noun found=an where=noun who=job end=soon
say The other engine rests. According to {boss}, who runs the place, it heats just the {room}, and no one will enter that till the {why.many} are laid. Inside the {where} sat {found}; I let it be. A {who} has been called.
say I could not hear the second engine, since nothing but the {room} depends on it and the {room} waits for {why.many} ({boss}, who runs the place, told me so). {Found} lives in its {where}: a case for a {who}.
ask room: What does the other engine heat? | What depends on the second engine? | Which room is heated by it? | What is it that waits for {why.many}?
ask boss: Who runs the place? | Who told the inspector about the second engine? | Who is in charge?
ask found: What sat in the {where}? | What lives in the {where}? | What did the inspector let be? | Why has a {who} been called?
ask where: Where did {found} sit? | In what was {found}? | Where is {found}?
ask why: For what does the {room} wait? | What has to be laid first? | What is still missing in the {room}?
ask who: Who has been called? | For whom is it a case?
frame book=n day=date who=job ill=ailment n=few thing=noun
say Of the {book} no page is missing but that of {day} ({ill}: the {who} was in bed).
say {Ill} kept the {who} at home on {day}; for that day alone the {book} is blank.
say The {book} has a gap at {day}. Why? The {who} was down with {ill}.
ask day: Which day is missing in the {book}? | For which day is the {book} blank? | Where has the {book} a gap? | Of which day is there no page?
ask ill: What was the matter with the {who}? | What kept the {who} at home? | With what was the {who} down? | What did the {who} suffer from?
ask who: Who was ill? | Who was in bed? | Whose illness left a gap?
ask book: What has a gap? | Where is a day missing?
frame n=few thing=noun m=few date=year
say There are {n} {thing.many}, one of them from {date} and no longer allowed.
say {N} {thing.many} hang in the corridor. One may stay no longer; it bears the year {date}.
ask n: How many {thing.many} are there? | How many {thing.many} hang there? | How many {thing.many} were seen?
ask date: From which year is the one that is not allowed? | What year does the old one bear?
ask thing: One of what is no longer allowed? | What hangs in the corridor?
frame fee=sum next=dur
say To be paid: {fee}. I shall come again in {next}.
say In {next} I have to look again. My bill amounts to {fee}.
say Costs {fee}; next date in {next}.
ask fee: How much is to be paid? | To what does the bill amount? | What does the visit cost? | What are the costs?
ask next: When will the inspector come again? | In what time will there be another visit? | When is the next date? | After how long does the inspector look again?
form news from a railway
part train=boat town=place day=weekday
open {train}: A STOP IN THE SNOW
open # A night on the line near {town}
open From our reporter in {town}
ask town: ~ Near which town was it? | ~ From which town is the report?
frame n=num what=noun from=place m=num cap=num
say On {day} the "{train}" ran into a {what} outside {town}. Among the {m} travellers {n} had bruises. The train started in {from}; it has {cap} seats.
say Bruises for {n}, a fright for all {m}: so ended the run of the "{train}" from {from}, when it met a {what} near {town} on {day}. Most of its {cap} seats were empty.
say It has {cap} seats, yet just {m} sat in the "{train}" from {from} as it hit a {what} on {day}. {N} needed a plaster.
ask n: How many had bruises? | How many travellers were hurt? | How many needed help? | How many people came to harm?
ask train: What is the name of the train? | Which train ran into the {what}? | What is the train called? | What hit the {what}?
ask from: Where did the train start? | From which town came the train? | From where did the "{train}" come?
ask m: How many travellers were in the train? | How many people sat in the "{train}"? | How many were in it that day?
ask cap: How many seats has the train? | How many people can sit in the "{train}"? | For how many has it seats?
ask what: Into what did the train run? | What did the "{train}" hit? | What stood in its way?
ask day: When did the "{train}" hit the {what}? | On which day did it happen?
frame who=person thing=an part=noun saying=saying
say {who}, who was driving, blames {thing} that jammed the {part}: "{saying}, I thought."
say The {part} was jammed by {thing}. So says the driver, {who}, whose first words were "{saying}".
ask who: Who drove the train? | Who was driving? | What is the driver's name? | Who blames {thing}?
ask thing: What jammed the {part}? | What does the driver blame? | By what was the {part} jammed?
ask part: What was jammed? | What did {thing} jam?
ask saying: What did the driver think? | What were the driver's first words? | What does {who} say?
frame n=metre fence=noun shop=building who=person t=short cause=stuff
say {N} of {fence} are gone, and so is {shop}. It belongs to {who}, whom a shortage of {cause} had sent home {t} earlier.
say {who} was lucky to have run out of {cause}, and left {shop} {t} earlier than usual: nothing stands there now. {N} of {fence} went with it.
ask n: How much {fence} is gone? | What length of {fence} was destroyed?
ask who: To whom does {shop} belong? | Whose {shop.bare} was it? | Who is the owner of {shop}? | Who had gone home earlier?
ask cause: Why had {who} left earlier? | What had {who} run out of? | A shortage of what sent {who} home?
ask t: How much earlier had {who} left? | How long before had {who} gone home?
ask shop: What does {who} own? | What was destroyed besides {fence}?
frame who=job rope=n day=weekday colour=shade other=boat n=few m=few until=soon
say On {day} a {who} pulled out the {rope}, {colour} and without an owner. For now the smaller "{other}" runs: {n} journeys daily, down from {m}.
say Whose the {colour} {rope} is that a {who} removed on {day}, no one knows. In place of the usual train there is the "{other}", which manages {n} journeys daily ({m} before).
ask colour: What colour is the {rope}? | Of what colour was the {rope}? | In what colour was the {rope}?
ask other: Which train runs now? | What is the smaller train called? | What runs in place of the usual train? | Which train is used for now?
ask n: How many journeys are there daily now? | How often does the "{other}" run daily? | How many journeys does it manage?
ask m: How many journeys were there before? | How often did the usual train run daily?
ask who: Who removed the {rope}? | Who pulled out the {rope}?
ask day: When was the {rope} removed? | On which day did a {who} remove it?
frame sum=money by=who
say All in all a loss of {sum}.
say {by} speaks of {sum}, which is what the loss comes to.
say What it costs? {Sum}, according to {by}.
ask sum: How high is the loss? | To what does the loss come? | What does it cost? | How much was lost? | How large is the damage?
form notice of an office
part house=place
open NOTICE\n{house} House
open To those who live in {house} House
open {house} House: please read
ask house: ~ For which house is the notice? | ~ In which house does one have to read this?
frame which=code d1=day m=month firm=firm thing=noun
say No water in wing {which} until {d1} {m}; {firm} are putting in other {thing.many}.
say {firm} work in wing {which}: its {thing.many} are being changed. There is no water before {d1} {m}.
say Wing {which} has to do without water. The {thing.many} there are old, and {firm} will have new ones in place by {d1} {m}.
ask firm: Who changes the {thing.many}? | Who works in wing {which}? | Which firm puts in {thing.many}? | By whom are the {thing.many} changed?
ask which: Which wing has no water? | In which wing are the {thing.many} changed? | Which wing is without water?
ask thing: What is being changed? | What do {firm} put in? | What is old in wing {which}?
ask d1: Until which day of {m} is there no water? | By which day will there be water again?
frame f=ordinal spot=spot who=titled from=time to=time role=job
say Whoever lives higher than the {f} floor finds a tap {spot}. Ask {who} for it: our {role} sits at the door, {from} to {to}.
say A tap {spot} has been opened for those above the {f} floor. It is locked, but the {role} ({who}) comes along with you, any time between {from} and {to}.
ask spot: Where is the tap? | Where can one find a tap? | Where has a tap been opened?
ask who: Whom should one ask for the tap? | What is the name of the {role}? | Who is the {role}? | Who opens the tap? | Who comes along?
ask to: Till when does the {role} sit at the door? | Until when can one ask {who}? | How late can one get at the tap?
ask from: From when on can one ask {who}? | From what time does the {role} sit at the door?
ask f: Above which floor may one use it? | For those above which floor is the tap?
frame room=hall day=weekday a=time b=time pet=ns things=ns
say {Things} go to {room} meanwhile. On {day} it will be noisy, worst from {a} to {b}. Think of your {pet}.
say Meanwhile {room} takes your {things}. Expect noise on {day}, above all between {a} and {b}; {pet} do not like it, shut them in.
ask room: Where do {things} go? | Where can one put {things}? | Which room takes {things}? | Where may {things} be left?
ask day: On which day will it be noisy? | When should one expect noise? | When is there noise?
ask pet: Of what should one think? | What should be shut in? | What does not like noise?
ask a: When does the worst noise begin? | From when is it worst?
ask b: When does the worst noise end? | Until when is it worst?
frame what=ns when=past town=place
say We had promised it for {when}. Alas, our {what} travelled to {town}, through a slip of the pen.
say A slip of the pen took the {what} to {town}; or all had been finished by {when}.
ask town: Where did the {what} go by mistake? | To which town did the {what} travel? | Where were the {what} taken in error?
ask what: What went to {town} by a slip of the pen? | What travelled to the wrong town?
ask when: For when had it been promised? | By when should all have been finished?
frame firm=firm phone=phone
say Anything unclear? {firm}, telephone {phone}.
say {phone} ({firm}) is the number for complaints.
say Complaints go to {firm}. Their number: {phone}.
ask phone: What is the number of {firm}? | Under which number does one complain? | Which number has {firm}? | At what number is {firm}?
ask firm: To whom do complaints go? | Who takes complaints? | Who has the number {phone}?
form notes of a meeting
part club=place day=date where=spot chair=first
open {club} cyclists. Notes of {day}. Place: {where}. In charge: {chair}.
open Notes by the {club} players: on {day} we sat {where}. {chair} began by pouring tea.
open {chair} welcomed the {club} singers {where} ({day}).
ask where: ~ Where did they sit? | ~ Where was it held? | Where did the people of {club} meet? | ~ What was the place of the meeting? | ~ Where did they meet?
ask day: ~ On what day was it? | When did the people of {club} meet? | ~ When did they meet?
ask chair: ~ Who was in charge? | Who welcomed the others on {day}? | ~ Who began? | Who led the meeting of {club}?
frame n=few m=few a=first b=first why=ailment
say {N} had come, of {m} in all. {a} sent word (no train), {b} did not.
say Absent: {a}, whose road was blocked, and {b}, who mistook the date. So we were {n} instead of {m}.
ask n: How many had come? | How many were they? | How many took part? | How many people were present?
ask m: How many are there in all? | How many would there be if all came?
ask a: Who sent word or had a blocked road? | Whose road was blocked or train missing? | Who could not travel?
ask b: Who mistook the date or sent no word? | Who stayed away without a reason on the road?
frame piece=name2 why=cause other=name2 n=few by=person
say We no longer do the "{piece}". ({Why}.) In its place: "{other}" and {n} pieces by {by}, a guest of honour that night.
say Programme. Out goes "{piece}" ({why}), in comes "{other}". {by} lets us have {n} new pieces, and means to be there.
ask why: Why is "{piece}" out? | Why do they no longer do "{piece}"? | For what reason was "{piece}" left out? | What speaks against "{piece}"?
ask by: Who is a guest of honour? | Whose pieces are new in the programme? | By whom are the {n} pieces? | Who means to be there?
ask n: How many pieces by {by} are there? | How many new pieces are there?
ask piece: What do they no longer do? | What goes out? | What was left out of the programme?
ask other: What comes in its place? | What replaces "{piece}"? | What is new besides the pieces by {by}?
frame day=date place=name2 fee=sum what=noun may=ns
say {place} Castle will have us on {day}. Its owners charge {fee} for the {what}; the {may} cost nothing.
say Our evening: {day}, {place} Castle. {Fee} has to be found for the {what} there, whereas {may} are free.
ask day: When is the evening? | On what day is {place} Castle theirs? | When are they at {place} Castle?
ask place: Which castle will have them? | At which castle is it? | What is the castle called?
ask fee: How much has to be found for the {what}? | What do the owners charge for the {what}? | How much does the {what} cost? | What must they pay for the {what}?
ask may: What costs nothing? | What is free at the castle?
ask what: For what do the owners charge {fee}?
frame n=num thing=ns who=first town=place sum=money buyer=first m=metre stuff=material pests=ns
say Of our {thing}, {n} are past saving, thanks to {pests}. {who} has asked in {town}: {sum} apiece. We would rather make them. {M} of {stuff}: {buyer} sees to it.
say {Pests} got at {n} {thing}. They can be had in {town} ({who} enquired) if one pays {sum} for one. No. {buyer} orders {m} of {stuff} and we make them ourselves.
ask n: How many {thing} are past saving? | How many {thing} did {pests} get at? | How many {thing} were ruined?
ask pests: What ruined the {thing}? | What got at the {thing}? | To what do they owe the loss?
ask who: Who enquired in {town}? | Who asked for the price? | Who was in touch with {town}?
ask sum: What does one cost in {town}? | How much is one of them in {town}? | What would they pay apiece?
ask buyer: Who orders {stuff}? | Who sees to the {stuff}? | Who gets the {stuff}?
ask town: Where did {who} enquire? | In which town can the {thing} be had?
ask m: How much {stuff} is needed? | How much {stuff} does {buyer} order?
ask stuff: Of what do they make them? | What does {buyer} order?
frame old=sum new=sum from=month who=job unit=kinship
say {Old} an evening does not satisfy the {who}, who will be given {new}, beginning in {from}.
say The {who} wanted a rise. Granted: {new} an evening, though not before {from}; till then it stays at {old}.
say We raised what the {who} earns. {From} brings {new} an evening, where {old} had been usual.
ask new: What will the {who} earn in future? | How much will the {who} be given as from {from}? | To what was the pay of the {who} raised? | What does the {who} earn after the rise?
ask old: What does the {who} earn now? | What did the {who} earn before the rise? | What had been usual?
ask from: When does the {who} get the rise? | As from which month is the rise? | When does the new pay begin?
ask who: Who wanted a rise? | Who gets a rise? | Whose pay was raised?
frame who=titled thing=noun with=an
say A word of thanks to {who}: with {with}, of all things, the {thing} was set going.
say What had {who} used for the {thing} to go again? {With}! Much applause.
ask with: With what did {who} set the {thing} going? | What was used on the {thing}? | What had {who} used? | How was the {thing} set going?
ask who: Who set the {thing} going? | For whom was there applause or thanks? | Who made the {thing} go again?
ask thing: What goes again? | What did {who} set going?
frame thing=noun month=month who=who firm=firm sum=money a=few b=few act=act
say {Thing}. Out of order from {month} on. {firm}, asked by {who}, would {act} and charge {sum}. For: {a}. Against: {b}.
say Shall we {act}? It costs {sum} if {firm} do it, says {who}. {A} hands went up; {b} stayed down. (The {thing} has been of no use after {month}.)
ask firm: Who would {act}? | Which firm would {act}? | Whose charge is {sum}? | Whom did {who} ask?
ask sum: What would it cost to {act}? | How much would {firm} charge? | What does {firm} want for it?
ask who: Who asked {firm}? | Who says what {firm} would charge?
ask a: How many were in favour? | How many hands went up? | How many said yes?
ask b: How many were against? | How many hands stayed down? | How many said no?
ask month: After which month was the {thing} out of order? | When did the {thing} fail?
frame plot=num who=titled when=past next=titled thing=ns max=few from=date
say Cellar {plot}, {who}'s until {when}, is to be {next}'s; no one had waited longer.
say {Next} has waited longest and is given cellar {plot}, free since {when} when {who} gave it back.
ask next: Who is given cellar {plot}? | Whose is cellar {plot} to be? | Who had waited longest? | Who will have cellar {plot}?
ask who: Whose was cellar {plot} before? | Who gave back cellar {plot}? | Who had cellar {plot} until {when}?
ask when: Since when is cellar {plot} free? | Until when had {who} cellar {plot}?
ask plot: Which cellar is {next} given? | Which cellar is free?
frame thing=ns bad=ns max=few from=date
say {Bad} are not welcome in future. As for {thing}, {max} to a member and not one more, counting from {from}.
say Rules: no {bad}. {Thing} yes, though never beyond {max} each, and not before {from}.
ask max: How many {thing} may a member have? | How many {thing} are the most for one? | What is the limit for {thing}?
ask from: From what day may one have {thing}? | Before what day are {thing} not allowed?
ask bad: What is not welcome? | What do the rules forbid? | What may no one have? | What is not allowed at all?
ask thing: What is allowed in small numbers? | Of what may a member have {max}?
frame who=who cash=money end=time next=date
say {who} looks after the money: {cash} are left. We broke up at {end} and see each other on {next}.
say State of the purse, as given by {who}: {cash}. Over at {end}. The coming date is {next}.
ask cash: How much is left in the purse? | What is the state of the purse? | How much money have they? | How much money is left?
ask who: Who looks after the money? | Who gave the state of the purse?
ask end: When did they break up? | At what time was it over? | Until when did they sit?
ask next: When do they see each other again? | What is the coming date? | On what day is the following meeting?
form portrait of somebody
part who=person age=num town=place
open {who} turned {age} last week; in {town} there was dancing.
open A portrait of {who}, {age}, of {town}
open {town} bids farewell to {who}, who was {age}.
ask age: How old is or was {who}? | To what age did {who} come? | ~ How old is the person of the portrait?
ask town: Where does or did {who} live? | Which town is proud of {who}? | ~ In what town did this person live?
frame where=spot n=ordinal m=few how=skill
say The cradle stood {where}. There were {m} of them at home, {who} being the {n}.
say First cry: {where}. Place among {m} brothers and sisters: the {n}.
say "{Where}, that is where I came into the world," says {who}, the {n} of {m}.
ask where: Where did {who} come into the world? | Where was {who} born? | Where did the cradle stand? | ~ Where was [he|she] born?
ask m: How many brothers and sisters were at home? | How many were they at home? | How many children had the parents? | How many children were there?
ask n: Which place has {who} among brothers and sisters? | As the which of them was {who} born?
frame age=few what=name2 t=dur until=year
say Young, at {age}, {who} walked round Lake {what} in {t}. No one was faster till {until}.
say {T} for the way round Lake {what}: with that {who}, {age} at the time, was the fastest up to {until}.
ask t: How long did the way round Lake {what} take? | In what time did {who} walk round Lake {what}? | How long did {who} need for Lake {what}?
ask until: Until which year was nobody faster? | When was {who} beaten? | How long did it stay the best time?
ask age: How old was {who} at Lake {what}? | At what age did {who} walk round Lake {what}?
ask what: Which lake did {who} walk round? | What is the lake called?
frame goods=stuff job=job mate=person matejob=job n=few
say There were years of peddling {goods}, others as {job}; then {mate}, {matejob}, said yes. {N} children ran about the house.
say {Goods} were what {who} peddled in bad times. In good ones: {job}. To {mate} (a {matejob}) and {who} {n} children were born.
ask goods: What did {who} peddle? | What did {who} trade in in bad times? | ~ What did [he|she] peddle?
ask mate: Who said yes? | Who became the husband or wife? | With whom had {who} children? | To whom was {who} married?
ask matejob: What was {mate}'s trade? | What was {mate}? | What did {mate} do for a living? | ~ What was the husband or wife by trade?
ask job: As what did {who} work? | What was {who} in good times? | What trade did {who} have?
ask n: How many children were born? | How many children ran about the house? | How many children have or had they?
frame mate=first why=why where=spot
say It was {where} that {mate} and {who} were wed. And why {mate}? "{Why}."
say "{Why}": so {who} explains why it had to be {mate}. They were wed {where}.
ask why: Why did it have to be {mate}? | What is {who}'s explanation for {mate}? | Why did {who} choose {mate}? | Why did {who} wed {mate}?
ask where: Where were they wed? | Where did {mate} and {who} wed? | Where was the wedding?
frame year=year thing=noun age=few never=an tools=n two=n
say It is {who} whom we have to thank for the {thing}, there since {year}. Lessons were given in it, without {never} but with {tools.many}, to the age of {age}.
say Lessons by {who}? {Tools.many} one was shown, never {never}. For them the council had a {thing} put up in {year}; at {age} it was enough.
ask year: Since when is there a {thing}? | When did the council put up a {thing}? | In what year was it put up?
ask thing: For what does the town have to thank {who}? | What was put up in {year}?
ask age: At what age were the lessons given up? | To what age did {who} give lessons? | Until what age did {who} teach?
ask never: Without what were lessons given? | What was never shown? | What was not used?
frame says=saying day=weekday where=spot like=stuff
say What keeps one going? "{says}," says {who}, "and {like}." Friends come together {where} on {day}.
say Come on {day}, {where}, if you were a friend. "{says}!" was the motto of {who}, whom a bowl of {like} could console.
ask says: What is {who}'s motto? | What does {who} say keeps one going? | Which words are {who}'s?
ask where: Where do the friends come together? | Where should one come on {day}?
ask day: On which day do the friends come together? | When should one come?
ask like: What consoles or keeps going {who}, besides a motto? | What does {who} like?
"""
