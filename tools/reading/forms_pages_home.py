"""Pages of the home as people write them: letters, adverts, notes, dialogues, recipes. prose.py reads them. Their
sentences leave out, refuse, correct themselves and give reasons without saying because."""

TEXT = r"""
form letter after a winter
part writer=first reader=first house=name2 day=date
open {house} [Cottage|Hall|Grange|Barn], {day}\n\n[Dear|Dearest] {reader},
open {day}, at {house}\n\n{reader},
close [Yours|Your friend|As always],\n{writer}
close {writer}, in haste
ask writer: ~ Who wrote this? | ~ Who wrote the letter? | Who wrote the letter to {reader}? | Who sends {reader} the news?
ask reader: To whom did {writer} write? | ~ To whom is it addressed? | Who hears from {writer}?
ask house: From where did {writer} write? | Where does {writer} live now? | ~ Where was it written?
ask day: On what day did {writer} write? | ~ When was it written?
frame what=n spot=spot time=dur who=who tool=an pay=an drink=stuff
say The thaw was a disaster. Our {what} slid into the ditch {spot} and lay there for {time}. {who} hauled it out in the end with {tool}; for the trouble [he|she] refused {drink} and asked for {pay}.
say For {time} our {what} stuck in the mud {spot}, until {who} came by and got it free with {tool}. Not a drop of {drink} would [he|she] have, but {pay} was welcome.
say Nobody could move the {what}, which had sunk in {spot}. {Time} it took before {who} freed it, using {tool}. {Pay} was the thanks, since {drink} was declined.
ask spot: Where did the {what} [slide into the ditch|get stuck]? | Where did the {what} lie? | Where did it happen with the {what}?
ask time: How long did the {what} lie there? | For how long was the {what} stuck? | How long did it take until the {what} was free?
ask who: Who hauled the {what} out? | Who freed the {what}? | Who got it free? | Who was thanked with {pay}?
ask tool: With what was the {what} got out? | What did {who} use to free the {what}? | What helped {who}?
ask pay: What did {who} take instead of {drink}? | What did {who} get for the trouble? | What was {who} given in place of {drink}? | With what was {who} rewarded?
ask drink: What did {who} refuse? | What was declined? | What did {who} not want?
ask what: What got stuck? | What sank or slid? | What did {who} free?
frame room=hall who=first goods=ns room2=hall noise=stuff
say Mornings I write in {room}, where it is quietest. The {goods} have moved to {room2}; that was {who}'s idea.
say {who} wanted the {goods} in {room2}, so there they are. My own table stands in {room}: no noise.
say Where do I work? In {room}. And {room2}, thanks to {who}, is for the {goods}.
ask room: Where does the writer [write|work]? | In which room is it quiet? | Which room does the writer use for work?
ask room2: Where are the {goods} now? | Where did the {goods} go? | What place did {who} want for the {goods}?
ask who: Whose idea was it to move the {goods}? | Who had the {goods} moved? | Who wanted the {goods} in {room2}?
ask goods: What was moved to {room2}? | What is in {room2}? | What has its place in {room2} now?
frame who=first an=n sum=money day=weekday buyer=trader
say Good news of {who}: {sum} for a {an}, the very first one, and it was {buyer} who carried it off on {day}.
say Since {day} {buyer} has owned a {an} made by {who}, and has paid {sum} for it.
say {buyer} came on {day}, looked, and counted out {sum} for one {an}. {who} danced.
ask buyer: Who [bought|carried off] the {an}? | To whom did {who} sell the {an}? | Who gave {sum} for it? | Who is the owner of the {an} now?
ask sum: What did {who} get for the {an}? | How much did {buyer} pay? | For how much was the {an} sold?
ask day: When was the {an} sold? | On which day did {buyer} come?
ask who: Who sold the {an}? | Whose {an} did {buyer} buy? | Who got {sum}?
frame pet=beast2 name=name2 by=kinship bite=stuff where=spot
say The {pet} you must meet. It is {name} to my {by}, who chose the name, and sleeps {where}. Whoever brings {bite} is its friend.
say My {by} has found us a {pet} and calls it {name}: a glutton for {bite}. Its bed is {where}.
say {name} (so my {by} would have it) is a {pet}, lives on {bite} and has settled {where}.
ask name: What is the {pet} called? | What name has the {pet}? | What does the {by} call the {pet}?
ask pet: What kind of animal is {name}? | What is {name}?
ask by: Who named the {pet}? | Who chose the name {name}?
ask bite: What does the {pet} [like|live on|eat]? | What does {name} like best? | With what does one win {name}?
ask where: Where does the {pet} sleep? | Where has {name} a bed? | Where does {name} live?
frame thing=an more=n what=event2 where=hall day=day
say Will you visit? On {day} they hold {what} in {where}. Pack {thing}, and above all the {more}.
say There will be {what} on {day}, and we have {where} for it. Your {more} is wanted, and {thing}.
ask day: On which day do they hold {what}? | When will there be {what}? | When is {what.bare}?
ask where: Where do they hold {what}? | In which room is {what.bare}? | What place is there for {what}?
ask what: What will take place in {where}? | What is held on {day}? | What is there on {day}?
ask thing: What should {reader} pack besides the {more}? | What should be brought with the {more}?
frame who=titled why=why what=act time=past
say {who} refused to {what}, and nobody knew the reason until {time}. {Why}.
say You ask about {who}. It was {time}; {why}. That is why [he|she] would not {what}.
say [Do not blame|Forgive] {who}. {Why}. How could [he|she] {what} then?
ask why: Why did {who} not {what}? | Why would {who} not {what}? | What kept {who} from it? | What was the matter with {who}?
ask what: What did {who} refuse to do? | What would {who} not do?
ask who: Who refused to {what}? | Who would not {what}?
frame a=noun b=noun who=who better=noun why=cause
say We tried both a {a} and a {b}. The former {who} has; the latter we keep.
say Of the two we kept the {b}. The {a} was given to {who}.
say {who} got the {a}, we got the {b}, and all are content.
ask a: What did {who} get? | What was given away? | What does {who} have now? | What did they not keep?
ask b: What did they keep? | Which did they keep? | What has the writer?
ask who: Who has the {a}? | To whom was the {a} given?
form advert of a used thing
part item=n make=name2 seller=titled
open {item}, {make}, to a good home.
open Second hand: one {item} by {make}.
open Who wants my {item}? It is a {make}.
close Apply to {seller}.
close {seller}, at the above address
ask make: ~ What make is it? | What is the make of the {item}? | By whom is the {item}? | ~ Of which make is it?
ask seller: Who sells the {item}? | To whom should one apply for the {item}? | Who gives away the {item}? | ~ Who is the seller?
ask item: ~ What is offered? | What does {seller} sell? | ~ What can one buy here?
frame colour=shade year=year shop=person town=place
say The colour is {colour}. My receipt says {year}, and the dealer was {shop} of {town}.
say {shop} in {town} sold it to me in {year}. It was {colour} then and still is.
say A {colour} one. From {town}, from {shop}'s shop, {year}.
ask colour: ~ What colour is it? | What colour is the {item}? | Of what colour is the {item}?
ask year: When was it bought? | In which year was the {item} bought? | From which year is the {item}?
ask shop: From whom did the seller buy it? | Who sold it in {town}? | Who was the dealer?
ask town: Where was the {item} bought? | In which town was it bought?
frame n=few part=part which=ordinal
say Of its {n} {part.many} the {which} is worn out, the others are like new.
say {N} {part.many}. Be careful with the {which}, it jams.
say There are {n} {part.many}, and all do their duty but the {which}.
say It has {n} {part.many}: the {which} is not the original one.
ask which: Which {part} is [bad|not like the others]? | Which {part} jams or is worn? | Which of the {n} {part.many} gives trouble? | With which {part} must one be careful?
ask n: How many {part.many} are there? | How many {part.many} has it? | How many {part.many} does the {item} have?
frame part=noun stuff=material who=kinship job=job when=when
say {When} my {who} put on a {part} of {stuff}: a {job} through and through, [he|she] could not see it bare.
say The {part}? All {stuff}, and new {when}. I have a {job} in the family, namely my {who}.
say It owes its {part} of {stuff} to my {who}, {job} by calling, who put it on {when}.
ask who: Who renewed the {part}? | Who made the {part}? | Who in the seller's family is a {job}? | By whom is the new {part}? | Whose work is the {part}?
ask stuff: What is the {part} made of? | What stuff is the {part}? | Of what is the {part}?
ask job: What is the {who}'s trade? | What does the {who} do for a living? | What is the seller's {who}?
frame thing=noun shape=an room=num_ns
say Instead of a plain {thing} it carries one in the form of {shape}; under it {room} find their place.
say Children love the {thing}: it is like {shape}. There is space for {room}.
say {Room} can be stowed. On top sits a {thing}, carved as {shape}.
ask shape: What does the {thing} look like? | What form has the {thing}? | What is the {thing} shaped like? | As what is the {thing} made?
ask room: For what is there space? | How much can be stowed? | What can it hold?
ask thing: What looks like {shape}? | What part is in the form of {shape}?
frame why=why month=month now=an
say In {month} {why}. Now it only gathers dust.
say It has had no use from {month} on. {Why}; and so I have {now} instead.
say Do not ask why I sell: {why}. That was {month}.
ask why: Why is the {item} for sale? | What made the seller stop using it? | Why has the {item} no use any more? | Why does it gather dust? | What is the reason for the sale?
ask month: Since when is it not used? | When did it fall out of use? | In which month did that happen?
frame sum=sum less=sum thing=n
say My price: {sum}. Anybody with a spare {thing} gets it for {less}.
say I ask {sum}. Or {less} plus a {thing}, as long as that is sound.
say {Less} and a {thing}, that would be best; otherwise {sum}.
say It costs {sum}, unless you own a {thing} that you could part with. Then: {less}.
ask sum: What does it cost without a {thing}? | How much does one pay who has no {thing}? | What is the full price? | How much is it for those without a {thing}? | How much does the seller want if no {thing} is given?
ask less: What does it cost with a {thing}? | How much does one pay who gives a {thing}? | What is the lower price? | How much is asked from those who have a {thing}?
ask thing: What lowers the price? | With what does it cost less? | Besides money, what would the seller like? | What is taken in part exchange?
frame with1=noun with2=noun no=noun
say {With1} and {with2} are part of the bargain. Only the {no} I keep.
say Included: the {with1}, the {with2}. Not included: the {no}.
say You get the {with1} too, and a {with2}; hands off the {no}.
say Without the {no}, which is promised to others, but with {with1} and {with2}.
ask no: What is not included? | What does the seller keep? | What is not sold? | Which piece is not part of it? | What stays behind? | Without what is it sold?
ask with1: What is included besides the {with2}? | What does one get besides the {with2}?
ask with2: What is included besides the {with1}? | What does one get besides the {with1}?
frame street=street floor=ordinal day=weekday club=skill
say View it at {street} (ring at the {floor} floor) on all days except {day}; {day} belongs to my {club}.
say My rooms are on the {floor} floor of {street}. Call when you like, though never on {day}, for then I practise {club}.
say {Street}, {floor} floor. {Day} is bad: {club}. All other days are good.
ask street: Where can one view it? | To what address must one go? | What is the address? | At which house is it?
ask day: On which day should one not call? | Which day is bad? | When is the seller busy with {club}? | On which day does the seller practise {club}? | Except on which day can it be viewed?
ask floor: On which floor are the rooms? | At which floor must one ring?
ask club: What does the seller do on {day}? | With what is {day} taken up? | Why is {day} a bad day?
form note about something lost on a journey
part item=n shade=shade owner=person day=weekday
open LOST on {day}: a {shade} {item}.
open A {shade} {item} was left on the train last {day}.
open Gone since {day}! My {item}, {shade}.
close {owner}
close The owner is {owner}.
ask shade: What colour is the {item}? | ~ What colour is it?
ask day: When was the {item} lost? | Since when is the {item} gone? | ~ On which day was it lost?
ask owner: Whose is the {item}? | Whose {item} was lost? | Who misses the {item}? | ~ To whom does it belong? | Who lost the {item}?
ask item: ~ What was lost? | ~ What is missing? | What does {owner} miss?
frame part=noun what=shade name=name2 says=saying n=few
say On its {part}, which is {what}, you can read "{says}" in {n} places. The label has the name {name}.
say Look for the word {name} on the label and a {what} {part}. Somebody scratched "{says}" into it.
ask what: What colour is the {part}? | Of what colour is the {part}?
ask name: What is on the label? | What name has the label? | Which name stands on it?
ask says: What can one read on it? | What was scratched into it? | What words are on it?
frame hole=noun d1=weekday s1=spot d2=weekday s2=spot who=job act=doing
say I last had it {s1}; that was {d1}. A {who} believes to have noticed it {s2} on {d2}, when [he|she] was busy {act}.
say {D1}: I still hold it, {s1}. {D2}: a {who}, while {act}, sees it {s2}. Since then nothing.
ask s1: Where was it on {d1}? | Where was the {item} on {d1}? | Where did the owner have it last?
ask s2: Where was it noticed on {d2}? | Where did the {who} see it? | Where was the {item} on {d2}?
ask who: Who noticed it {s2}? | Who saw the {item} on {d2}?
ask act: What was the {who} doing when it was noticed? | With what was the {who} busy?
ask d2: On which day did the {who} see it? | When was it {s2}?
ask d1: When was it {s1}? | On which day did the owner last have it?
frame food=n who=first thing=n cond=cond
say Never open it by force: inside is {food}. It hates the wet, so wrap a {thing} about it if {cond}.
say It must not get wet; in case {cond}, a {thing} over it will do. Nobody should open it ({food} within).
ask thing: What should be wrapped about it? | With what should it be covered? | What will do against the wet?
ask food: What is inside? | What is within the {item}? | Why should it not be opened?
ask cond: When should it be covered? | In what case does one need the {thing}? | When does one wrap the {thing} about it?
frame sum=money what=stuff phone=phone who=titled where=hall
say The finder gets {sum} and as much {what} as [he|she] can carry. {phone} is the number. At night leave word with {who}, {where}.
say {Sum} to the finder! My number: {phone}. Should I be out, {who} takes messages in {where}; {what} is also to be had.
ask sum: What does the finder get? | How much is offered to the finder? | What is the reward?
ask phone: What is the number? | What number should the finder ring? | Under which number does one reach the owner?
ask who: Who takes messages? | With whom should one leave word? | To whom does one turn if the owner is out? | Who is to be told at night?
ask where: Where is {who} to be found? | Where can one leave word?
form dialogue over a counter
part guest=first keeper=titled thing=ns
open {guest} set a box of {thing} before {keeper}. "All this has to be gone through."
open "What have you got there?" {keeper} wanted to know. "{Thing}," said {guest}.
open {keeper} looked up. {guest} had come in, and with {guest} a heap of {thing}.
ask thing: What has {guest} brought? | What did {guest} set before {keeper}? | What did {guest} have? | ~ What is it about?
ask guest: Who came with {thing}? | Who brought the {thing}? | Whose {thing} are they? | To whom does {keeper} talk?
ask keeper: To whom does {guest} talk? | To whom did {guest} bring the {thing}? | Before whom were the {thing} put?
frame town=place way=way whose=kinship what=event2
say "From {town}? And carried by hand?"\n\n"My {whose} lives there. It was {way} of bad road."
say {guest} sighed. "I fetched them at {town}. My {whose} would not keep them."\n\n"How many hours on the road?"\n\n"I counted the distance: {way}."
ask town: Where did {guest} fetch the {thing}? | From where do the {thing} come? | Where does the {whose} live?
ask way: How far is it from {town}? | How far did {guest} carry them? | What distance did {guest} come? | How long was the way?
ask whose: Who lives in {town}? | Who would not keep them? | With whom had the {thing} been?
frame why=why how=noun
say "There is a tram for such loads."\n\n"Not today there is not. {Why}."
say "But why on foot?"\n\n"{Why}. What else could I do?"
say "You might have used the {how}."\n\n"Might I? {Why}!"
ask why: Why did {guest} come on foot? | Why was nothing else used? | Why could {guest} not do otherwise? | What was {guest}'s excuse? | Why did {guest} not ride?
frame sum=money d1=weekday d2=weekday what=event2 room=hall more=money
say "[Next|By] {d1}, for {sum}."\n\n"Impossible. They open {what} in {room} on {d2}!"\n\n"Sooner costs more. Shall we say {more}?"
say "I can do it until {d1}. That makes {sum}."\n\n"{D2} is when I need it, for {what} in {room}."\n\n{keeper} thought. "{More}, if it must be {d2}."
ask d1: When did {keeper} first want to be ready? | For which day was it offered at first? | When would it be done at the lower price? | When is it done for {sum}?
ask d2: When does {guest} need it? | By which day must it be done? | When is {what.bare} opened? | When is {what}?
ask what: For what does {guest} need it? | What is there on {d2}? | What is in {room} on {d2}?
ask room: Where is {what}? | Where do they have {what}? | Where is {what.bare} held?
ask sum: What did {keeper} ask at first? | What was the price until {d1}? | How much would {d1} cost?
ask more: What does it cost in the end? | What must {guest} pay for {d2}? | What did {keeper} want at last? | How much is it if it has to be sooner? | How much more dearly is it done for {d2}?
frame whose=kinship other=ns
say "And those {other} on your arm?" "Oh, they belong to my {whose}."
say "Your {other} want seeing to as well." "Not mine. My {whose} lent me them."
ask whose: Whose are the {other}? | To whom do the {other} belong? | Who lent {guest} the {other}? | Whose {other} has {guest} on?
ask other: What belongs to {guest}'s {whose}? | What did the {whose} lend?
frame n=few drink=stuff n2=few
say "My fee is {n} [bags|baskets|tins] of {drink}," said {keeper}, and then: "no, better {n2}."
say "{N} [bags|tins] of {drink} on top." A pause. "Or rather {n2}, I have guests."
say {keeper} wanted {drink} as well. {N} [boxes|bags] were agreed; at the door it had become {n2}.
ask n: How many did {keeper} name at first? | How much {drink} was wanted at first, in [bags|tins]? | What number was named first?
ask n2: How many did {keeper} want in the end? | On how many did {keeper} settle? | What was the last number that {keeper} named?
ask drink: What does {keeper} want besides money? | What was wanted as well? | Of what did {keeper} want so much?
frame who=person when=past heir=kinship shop=building
say "Does {who} still have {shop}?" "Not since {when}. Ask the {heir}, who took over."
say They came to speak of {who}, the former owner of {shop}. "All sold {when}, to a {heir}."
ask when: Since when has {who} no longer had it? | When did {who} give it up? | When did it pass to the {heir}?
ask heir: Who took over from {who}? | Who has the {shop.bare} today? | To whom did {who}'s {shop.bare} pass?
ask shop: What did {who} own? | What was {who}'s before?
ask who: Who had {shop} before? | Of whom did they speak?
form notebook of a collector
part friend=first beast=beast2 town=place
open Field notes. Set out from {town} with {friend}, who led the {beast}.
open {friend} and the {beast} were late, so it was noon before {town} lay behind us.
open Notebook 3. Begun in {town}. Companions: {friend}; one {beast}.
ask friend: Who led the {beast}? | Who was late with the {beast}? | ~ Who is the companion? | With whom did the collector set out?
ask town: Where did the collector set out? | ~ Where were the notes begun? | From which town did they set out?
ask beast: ~ What animal do they have with them? | What animal does {friend} lead?
frame hut=noun lost=noun where=spot burned=n warm=stuff who=first
say A storm took the {lost} of our {hut}. We moved {where}. For want of wood {who} fed a {burned} to the fire, and there was hot {warm}.
say The {hut} no longer has a {lost}; last night's bed was {where}. {who} gave up a {burned} as firewood, all for some {warm}.
ask where: Where did they sleep instead? | Where did they move? | Where was the bed? | Where did they pass the night?
ask lost: What did the {hut} lose? | What does the {hut} no longer have? | What was taken from the {hut}?
ask burned: What was used as firewood? | What did {who} put into the fire? | What did {who} give up?
ask who: Who fed the fire? | Whose {burned} was burned? | Who gave up a {burned}?
ask warm: What was made hot? | For what was the fire needed?
frame host=job name=first tongue=tongue food=stuff with=stuff bridge=place ago=past
say Supper at {name}'s, a {host}: {food} seasoned with {with}. {Tongue} was the only tongue we shared. We learned that the road through {bridge} had been washed out {ago}.
say In {tongue}, or something like it, a {host} by the name of {name} warned us: since {ago} nobody gets through {bridge}. [He|She] served {food}, and in the {food} was {with}.
ask name: What was the {host} called? | What is the name of the {host}? | Who warned them? | Who served {food}? | At whose house did they have supper?
ask with: With what was the {food} seasoned? | What was in the {food}? | What does {name} put into {food}?
ask food: What did {name} serve? | What was there for supper?
ask tongue: In which tongue did they talk? | Which language did they share?
ask bridge: Through which place does nobody get? | Which road was washed out? | What place is cut off?
ask ago: Since when is the road cut off? | When was the road through {bridge} washed out?
ask host: What is {name} by trade? | What does {name} do?
frame by=place cost=dur what=n sum=money
say So it was {by} instead. That meant {cost} lost. In its market a {what} became mine, {sum} poorer I walked on.
say Through {by}, then: a detour of {cost}. I gave {sum} for a {what} on the way.
ask by: What way did they take instead? | By which place did they go instead? | Where did the detour lead?
ask cost: How long was the detour? | How much time was lost by it? | What did the detour cost in time?
ask sum: What was given for the {what}? | How much was the {what}? | What did the {what} cost the collector?
ask what: What did the collector buy? | What was bought at {by}? | For what were {sum} paid?
frame name=name2 road=n age=few gift=n giver=first way=way job=job
say {name} is what we call our {beast}. A {road} frightened it so much that only a {job}'s child of {age} could lead it on, and got for this {giver}'s {gift}. Then {way} without a rest.
say Trouble with {name} (the {beast}): it saw a {road} and stood. A child, {age} at most, talked to it until it moved. Wages: the {gift} of {giver}. Distance today {way}.
ask name: What is the {beast} called? | What do they call their {beast}? | Which name has the {beast}?
ask age: How old was the child? | What age had the child who helped?
ask gift: What did the child get? | What were the child's wages? | What did {giver} have to give away?
ask giver: Whose {gift} did the child get? | To whom had the {gift} belonged?
ask road: What frightened the {beast}? | What made {name} stop? | Of what was {name} afraid?
ask way: How far did they go that day? | What distance did they make? | How far was it without a rest?
frame lake=name2 why=cause drawn=the what=n
say A quiet day for drawing: {drawn} fills four pages. Asked why the pond has the name {lake}, our landlady laughed. "{Why}."
say The pond here is the {lake}. The explanation is simple: {why}. I made a drawing of {drawn}.
ask lake: What is the name of the pond? | What is the pond called? | How do they call the pond?
ask why: Why does the pond have that name? | How is the name {lake} explained? | Why is it called {lake}? | From what does the name {lake} come?
ask drawn: What was drawn? | Of what did the collector make a drawing? | What fills four pages?
form family recipe
part cook=first dish=dish town=place
open {dish}, as {cook} made it
open {dish} ({town})
open {cook}'s recipe for {dish}, from {town}
ask cook: ~ Whose recipe is it? | Whose recipe for {dish} is it? | Who made {dish}?
ask town: ~ From where is the recipe? | Where is {dish} from?
ask dish: ~ What is the recipe for? | What dish is from {town}?
frame n=few amount=quantity of=stuff f1=stuff bad=stuff bad2=stuff
say {Amount} of {of} will satisfy {n}. {F1} can stand in for it, {bad} cannot: too [watery|strong|coarse|dear].
say Feeds {n}. Start with {amount} of {of}; if you have none, {f1}, but on no account {bad}, it makes all [bitter|grey|tough].
say You cook for {n}? Then weigh out {amount} of {of}. Leave {bad} alone ([bitter|watery]). {F1} is allowed.
ask n: How many does it [satisfy|feed]? | ~ How many people does it serve? | For how many is {amount} of {of}? | How many people can eat the {dish}?
ask amount: How much {of} does it take? | What amount of {of} does one start with? | How much {of} is needed for {n}? | How much {of} should be weighed out?
ask bad: What cannot stand in for the {of}? | What should one leave alone? | What must not be taken? | Which one would be wrong? | What is not allowed?
ask f1: What can be taken instead of {of}? | What stands in for {of}? | What is allowed in its place?
frame t=short w1=stuff w2=many_food fruit=stuff keep=stuff
say For the stock: {w1}, the rind of a {fruit}, {t} on a low flame. Strain. The solids go to the hens, the {keep} goes on.
say Simmer {w1} with the rind of a {fruit}; {t} is right. What you want of it is the {keep}, give the rest to the hens.
ask t: How long does the {w1} simmer? | How long is it on the flame? | How many minutes or hours does the stock need? | For how long is the {w1} simmered?
ask fruit: The rind of what is needed? | Whose rind goes into the stock? | From which fruit is the rind? | The rind of which fruit is simmered?
ask keep: What is used further? | What goes on? | What of it does one want? | What is not given to the hens?
frame pan=vessel n1=few v1=many_food fat=stuff wine=stuff
say Turn {n1} {v1} in hot {fat} until they give way. {Pan} is best. Then {wine}, a good splash of it.
say Take {pan}, melt {fat}, and let {n1} {v1} sweat in it. Drown them in {wine}.
ask fat: In what do the {v1} [sweat|turn]? | In what are the {v1} fried? | What is melted first? | What are the {v1} cooked in?
ask wine: What is splashed over the {v1}? | In what are the {v1} drowned? | What follows the {v1}? | What does one add to the {v1}?
ask n1: How many {v1} does it take? | How many {v1} should one have? | How many {v1} are cooked in {fat}?
ask pan: Which vessel is best? | What should one take for the {v1}? | In what is the {fat} melted?
frame n=few a=many_food b=stuff c=stuff cond=cond top=stuff t=short d=stuff
say Next, {n} {a} and some {b}. A thread of {c} as well, but that only when {cond}. Wait {t}, cover all with {top}, leave it in peace; strew {d} before serving.
say {N} {a} follow, with {b}. When {cond}, {c} may be used. The {top} has to wait {t}. Last of all: {d}.
ask n: How many {a} follow? | How many {a} are there in it? | How many {a} does one need?
ask d: What is strewn over it? | What comes last? | With what does one finish the {dish}?
ask t: How long must one wait before the {top}? | After what time is the {top} put on? | How long has the {top} to wait?
ask cond: When may {c} be used? | When does one use {c}? | On which occasion is there {c} in it?
ask c: What is used only when {cond}? | What is not always used?
ask top: With what is it covered? | What is put on after {t}?
frame who=trader bread=stuff with=stuff old=who yolk=an age=num
say {Who} dips {bread} into it after having brushed it with {with}. {old} swore by {yolk} in every bowl and reached {age}.
say No bowl without {yolk}, that was {old}'s rule, who died at {age}. There is {bread} to it, brushed with {with} as {who} does.
ask with: With what is the {bread} brushed? | What is brushed on the {bread}? | What does one put on the {bread}?
ask yolk: By what did {old} swear? | What did {old} want in every bowl? | What was {old}'s rule about?
ask age: What age did {old} reach? | How old did {old} get? | How old was {old} at the end? | At what age did {old} die?
ask bread: What is dipped into it? | What is there to it? | What does {who} dip?
frame amount=quantity a=stuff liquid=quantity b=stuff smell=stuff when=time
say Start at {when}: {amount} of {a}, {liquid} of tepid {b}, stirred once. By daybreak a scent of {smell} tells you that it lives.
say {Liquid} of {b} has to be warmed and {amount} of {a} beaten in at {when}. If there is no scent of {smell} at daybreak, begin anew.
ask amount: How much {a} is beaten or stirred in? | What amount of {a} is needed? | How much {a} does it take?
ask liquid: How much {b} is warmed? | How much {b} does it take? | What amount of {b} goes with the {a}?
ask smell: Of what is the scent at daybreak? | What should one smell at daybreak? | Which scent tells that it lives? | What should it smell of the next morning?
ask when: When does one start? | At what time is the {a} stirred in?
frame dark=stuff spoons=few t=short hands=kitchen other=stuff
say The [dark|golden|red] crumb comes from {dark}; {spoons} spoons, in with them. Work it for {t} with {hands} and then stop.
say {Spoons} spoons of {dark} colour it [dark|golden|red]. You need {hands}, and {t} of patience.
ask dark: What colours it? | From what does the colour come? | What makes it [dark|golden|red]? | To what does it owe its colour?
ask t: How long is it worked? | For how long must one work it? | How much patience does it need?
ask spoons: How many spoons of {dark} go in? | How many spoons of {dark} does it take?
ask hands: With what does one work it? | What does one need for working it?
frame rise=short near=spot h1=degrees t1=short h2=degrees t2=short pot=vessel
say A place {near} suits it while it rests, {rise} in all. Heat: {h1}, covered, {t1}. Then uncover {pot}, lower to {h2}, and give it another {t2}.
say It should rest {rise} {near}. {Pot} goes in covered at {h1}. {T1} later take off the cover; {t2} at {h2} finish it.
ask rise: How long does it rest? | How long should it rest {near}? | For how long does it rest in all?
ask h1: How hot must it be to begin with? | What heat is needed while it is covered? | At what heat does it go in?
ask h2: To what heat does one lower it? | What heat finishes it? | How hot is it uncovered? | What is the last heat?
ask pot: In what is it baked? | What goes in covered? | Which vessel is used for baking?
ask t2: How long does it bake uncovered? | How much longer does it need uncovered? | How long does it take at {h2}?
ask t1: How long is it covered? | After how long is the cover taken off?
ask near: Where does it rest? | What place suits it? | Where should one put it to rest?
frame cut=soon keeps=dur bag=an ends=stuff dish2=dish
say Hands off until {cut}! Stored in {bag} it stays good for {keeps}. Dry remains make {dish2}.
say {Keeps} is what it lasts, provided that {bag} is at hand for storing it. Leave it whole till {cut}. Crumbs? Into {dish2}.
ask cut: Until when is it left whole? | When may it be tasted at the earliest? | When can one cut it? | Till when should one keep one's hands off?
ask keeps: How long does it stay good? | How long does the {dish} last? | For how long can it be stored? | How long will it keep?
ask bag: In what is it stored? | What is needed for storing it? | Where does it stay good?
ask dish2: What is made of the remains? | What becomes of the crumbs? | What are dry remains good for? | For what are the remains used?
"""
